// Packing: offsets for buffers with known lifetimes, so that no two that live at once overlap and the
// highest byte used is as low as can be found. The planner of memory without anything of compilers in it:
// a problem is data, and so is its solution.
//
// The problem and its file form are MiniMalloc's (M. D. Moffitt, "MiniMalloc", ASPLOS 2023). Three methods
// take turns until one meets the goal: first fit over several orders; an exact search under the goal
// (packing_search.h); and an iterated search over orders, in which whatever stands on top of the highest
// pile, or holds it up, is placed earlier. Where conflicts are given, which partial orders of time have,
// there is no exact search, and the lower bound is that of the lifetimes. Deterministic: effort is counted in
// work, never in time, unless the caller's `stop` looks at a clock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace rondo {

struct PackingBuffer {
  std::string id;     // for people; any text
  int64_t lower = 0;  // first time at which it lives
  int64_t upper = 0;  // first time at which it lives no more; lower >= upper: it never lives
  int64_t size = 0;   // bytes
};

struct PackingProblem {
  std::vector<PackingBuffer> buffers;
  int64_t alignment = 1;  // of every offset; sizes are rounded up to it
  // Where lifetimes do not say all: one list a buffer of those that it must not overlap, each pair in both
  // lists, and every pair that lives at one time among them. Empty: those that live at one time, no others.
  std::vector<std::vector<int>> conflicts = {};
};

struct PackingSolution {
  std::vector<int64_t> offsets;  // one a buffer; 0 for those of no size or life
  int64_t height = 0;            // end of the highest buffer, rounded up to the alignment
  int64_t lower_bound = 0;       // no solution can be lower
  int rounds = 0;                // orders tried
  int64_t nodes = 0;             // decisions tried by the exact search
  // The exact search saw that no packing is within the larger of the capacity and the lower bound.
  bool exhausted = false;
};

struct PackingOptions {
  // Heights up to this are as good as any: the search ends there. It always ends at the lower bound.
  int64_t capacity = 0;
  int rounds = 2000;             // orders tried at most
  int64_t work = 2'000'000'000;  // looks at single buffers in the exact search at most: about 10 s
  uint64_t seed = 1;
  // Asked often, if there: true ends the search with the best so far.
  std::function<bool()> stop;
};

// The largest sum of (rounded) sizes alive at one time.
int64_t PackingLowerBound(const PackingProblem& problem);

PackingSolution Pack(const PackingProblem& problem, const PackingOptions& options = {});

// Why `solution` is no solution of `problem` (two buffers overlap, an offset is negative or not aligned,
// something reaches above the height), naming the buffers; empty if it is one.
std::string CheckPacking(const PackingProblem& problem, const PackingSolution& solution);

// Reads lines `id,lower,upper,size` under a header that names the columns, in any order. kCorrupt names the
// line.
Result<PackingProblem> ParsePackingCsv(std::string_view text);
// The same with a column `offset`.
std::string FormatPackingCsv(const PackingProblem& problem, const PackingSolution& solution);

}  // namespace rondo
