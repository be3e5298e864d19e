// Quick methods that order a program's ops for few live bytes. Each is a function from a model of memory and
// dependences to an order; whoever calls them keeps the best.
#pragma once

#include <vector>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {

// What a greedy step looks at among the ops that are ready, smallest first; ties go to the given order or to
// the op made ready last.
enum class Greedy {
  kLeastGrowth,
  kLeastDuring,
  kNewestFirst,
  // Not at ops but at the runs that they begin, each up to where fewest bytes live: first what shrinks, with
  // the lowest peak first, then what falls most below its peak (J. W. H. Liu, 1987, for trees).
  kDeepestValley,
};

// Of very many ready ops, the first and the last few hundred of the given order are looked at.
std::vector<int> GreedyOrder(const MemoryModel& model, const Dependences& deps, Greedy greedy);

// Every op as late as its first user allows: what it needs is finished depth first, operand by operand, those
// that need most memory first (R. Sethi, J. D. Ullman, 1970, with bytes for registers).
std::vector<int> DepthFirstOrder(const MemoryModel& model, const Dependences& deps);

}  // namespace rondo
