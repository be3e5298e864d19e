// Exact search for a packing within a given capacity, for problems too tight for placing in order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/memory/section_orders.h"

namespace rondo::packing {

enum class SearchEnd {
  kFound,
  kNone,    // there is no packing: every branch was tried
  kGaveUp,  // the work limit was reached, or it was told to stop
};

struct SearchResult {
  SearchEnd end = SearchEnd::kGaveUp;
  std::vector<int64_t> offsets;  // if found
  int64_t nodes = 0;             // decisions tried
};

// Finds offsets with no end above `capacity`. `work` limits the looks at items in sections
// (SectionOrders::work), and so the time: about two hundred million a second. `stop`, if set, is called
// between decisions and ends the search when it returns true. Deterministic, except for `stop`.
//
// A decision chooses the next item above those already ranked in a section. The section with the fewest
// choices comes first; sections that failed often come before others (F. Boussemart et al., "Boosting
// systematic search by weighting constraints", 2004) and, in every other run, full ones before others. The
// search restarts after numbers of failures that follow Luby's sequence, and keeps the weights. In turn it
// prefers wide items, low ones, and the offsets of the deepest branch so far (J. C. Beck, "Solution-guided
// multi-point constructive search for job shop scheduling", 2007).
SearchResult SearchPacking(const std::vector<SearchItem>& items, int64_t capacity, int64_t work,
                           uint64_t seed, const std::function<bool()>& stop);

}  // namespace rondo::packing
