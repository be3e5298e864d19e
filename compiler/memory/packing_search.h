// Depth-first search for a packing under a given capacity, for problems too tight for placing in order.
// Internal to compiler/memory; packing.h is the interface.
#ifndef RONDO_COMPILER_MEMORY_PACKING_SEARCH_H_
#define RONDO_COMPILER_MEMORY_PACKING_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace rondo::packing {

struct SearchItem {
  int64_t lower = 0, upper = 0;  // lower < upper
  int64_t size = 0;              // a multiple of the alignment
};

// Offsets with no end above `capacity`; none if there are none, or if `nodes` placements did not find them.
// `*nodes` is lowered by those tried. Deterministic.
//
// The method is MiniMalloc's (M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning", ASPLOS 2023): items are placed in ascending order of offset, each
// as low as those already placed allow; a placement that leaves room for another item below it is skipped; a
// moment whose floor and items still to come exceed the capacity ends the branch; parts that no item in
// between connects are solved apart. Several preferences between items of equal offset take turns with ever
// more nodes.
std::optional<std::vector<int64_t>> SearchPacking(const std::vector<SearchItem>& items, int64_t capacity,
                                                  int64_t* nodes);

}  // namespace rondo::packing

#endif  // RONDO_COMPILER_MEMORY_PACKING_SEARCH_H_
