// Exact search for a packing under a given capacity, for problems too tight for placing in order.
// Internal to compiler/memory; packing.h is the interface.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/memory/section_orders.h"

namespace rondo::packing {

enum class SearchEnd {
  kFound,
  kNone,    // there is no packing: every branch was seen
  kGaveUp,  // the work that was allowed is done, or it was told to stop
};

struct SearchResult {
  SearchEnd end = SearchEnd::kGaveUp;
  std::vector<int64_t> offsets;  // if found
  int64_t nodes = 0;             // decisions tried
};

// Offsets with no end above `capacity`. `work` bounds the looks at an item in a section
// (SectionOrders::work), and so the time: about two hundred million a second. `stop`, if any, is asked
// between decisions and ends the search when true. Deterministic, but for `stop`.
//
// A decision is which item comes next above those ranked in a section. The section with the fewest choices
// comes first, those that failed often before others (F. Boussemart et al., "Boosting systematic search by
// weighting constraints", 2004) and, in every other run, full ones before others. The search begins anew
// after ever other numbers of failures (Luby's sequence), keeping the weights; in turn it prefers wide items,
// low ones, and the offsets of the deepest branch so far (J. C. Beck, "Solution-guided multi-point
// constructive search for job shop scheduling", 2007).
SearchResult SearchPacking(const std::vector<SearchItem>& items, int64_t capacity, int64_t work,
                           uint64_t seed, const std::function<bool()>& stop);

}  // namespace rondo::packing
