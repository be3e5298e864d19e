// The exact search for an order of ops with the least peak of live bytes.
//
// What lives after a set of ops does not depend on their order, so that the search is for a way through sets,
// from none to all; no set is entered twice. Below a limit on live bytes, most steps are forced: an op that
// fits and adds nothing, or a run of ops each of which waits for the one before and that ends no higher than
// it began, can as well run now, since what ops add only falls with what ran before them.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {

// What became of a search.
struct OrderSearch {
  std::vector<int> order;  // all ops, with a peak within the limit; empty if none was found
  // No order has a peak below this many bytes: above the limit if there is none within it.
  int64_t least = 0;
  int64_t work = 0;  // looks at single ops
  // Whether it is known now if there is an order within `limit`.
  bool settled(int64_t limit) const { return !order.empty() || least > limit; }
};

// Looks for an order with a peak of `limit` bytes at most, until it has one, has seen that there is none, or
// has done `work` looks at single ops (about 20 a microsecond).
OrderSearch FindOrder(const MemoryModel& model, const Dependences& deps, int64_t limit, int64_t work);

// The best order that FindOrder, of the program and of the same with time running backwards, gives for limits
// between what is known: `known` has a peak of `peak` bytes, and no order is below `least`. Without a better
// one, `order` is empty; `least` reaches the peak if that is proven least.
OrderSearch FindLeastOrder(const MemoryModel& model, const Dependences& deps, int64_t peak, int64_t least,
                           int64_t work);

}  // namespace rondo
