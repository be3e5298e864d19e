// Fast heuristics that order a program's ops for few live bytes. Each is a function from a memory model and
// dependences to an order; the caller keeps the best.
#pragma once

#include <vector>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {

// The criterion of a greedy step among the ready ops, smallest first; ties go to the given order or to the op
// made ready last.
enum class Greedy {
  kLeastGrowth,
  kLeastDuring,
  kNewestFirst,
  // Compares runs of ops instead of single ops: each run goes from an op to where fewest bytes live. First
  // runs that shrink, with the lowest peak first, then those that fall most below their peak (J. W. H. Liu,
  // 1987, for trees).
  kDeepestValley,
};

// If very many ops are ready, only the first and the last few hundred in the given order are considered.
std::vector<int> GreedyOrder(const MemoryModel& model, const Dependences& deps, Greedy greedy);

// Each op as late as its first user allows: its operands are finished depth first, one after another, those
// that need most memory first (R. Sethi, J. D. Ullman, 1970, with bytes in place of registers).
std::vector<int> DepthFirstOrder(const MemoryModel& model, const Dependences& deps);

}  // namespace rondo
