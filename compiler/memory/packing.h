// Packing: offsets for buffers with known lifetimes, so that no two buffers that live at once overlap and the
// highest byte used is as low as possible. A memory planner that knows nothing about compilers: problem and
// solution are data.
//
// The problem and its file format are MiniMalloc's (M. D. Moffitt, "MiniMalloc", ASPLOS 2023). Three methods
// run in turns until one meets the goal: first fit over several orders; an exact search below the goal
// (packing_search.h); and an iterated search over orders, which moves the buffers on top of the highest pile,
// or those that hold it up, to earlier places. With explicit conflicts, as partial orders of time have them,
// there is no exact search, and the lower bound is that of the lifetimes. Deterministic: effort is counted in
// work, never in time, unless the caller's `stop` reads a clock.
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
  int64_t lower = 0;  // first time at which it is live
  int64_t upper = 0;  // first time at which it is not live any more; lower >= upper: never live
  int64_t size = 0;   // bytes
};

struct PackingProblem {
  std::vector<PackingBuffer> buffers;
  int64_t alignment = 1;  // of every offset; sizes are rounded up to it
  // If lifetimes are not enough: for each buffer the list of those that it must not overlap, with each pair
  // in both lists, including all pairs that live at one time. Empty: exactly those that live at one time.
  std::vector<std::vector<int>> conflicts = {};
};

struct PackingSolution {
  std::vector<int64_t> offsets;  // one a buffer; 0 for those of no size or life
  int64_t height = 0;            // end of the highest buffer, rounded up to the alignment
  int64_t lower_bound = 0;       // no solution can be lower
  int rounds = 0;                // orders tried
  int64_t nodes = 0;             // decisions tried by the exact search
  // The exact search has shown that no packing fits within the larger of the capacity and the lower bound.
  bool exhausted = false;
};

struct PackingOptions {
  // Heights up to this are good enough: the search ends there. It always ends at the lower bound.
  int64_t capacity = 0;
  int rounds = 2000;             // orders tried at most
  int64_t work = 2'000'000'000;  // limit of the exact search, in looks at single buffers: about 10 s
  uint64_t seed = 1;
  // Called often, if set: true ends the search with the best solution so far.
  std::function<bool()> stop;
};

// The largest sum of (rounded) sizes alive at one time.
int64_t PackingLowerBound(const PackingProblem& problem);

PackingSolution Pack(const PackingProblem& problem, const PackingOptions& options = {});

// Why `solution` is not a solution of `problem` (two buffers overlap, an offset is negative or not aligned, a
// buffer exceeds the height), naming the buffers; empty if it is one.
std::string CheckPacking(const PackingProblem& problem, const PackingSolution& solution);

// Reads lines `id,lower,upper,size` after a header that names the columns, in any order. kCorrupt names the
// line.
Result<PackingProblem> ParsePackingCsv(std::string_view text);
// The same with a column `offset`.
std::string FormatPackingCsv(const PackingProblem& problem, const PackingSolution& solution);

}  // namespace rondo
