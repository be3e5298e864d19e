// An exact search for the op order with the least peak of live bytes.
//
// Live bytes after a set of ops do not depend on their order, so the search looks for a path through sets,
// from the empty one to all; no set is entered twice. Under a limit on live bytes, most steps are forced. An
// op that fits and adds nothing may run at once; so may a run of ops, each waiting for the one before, that
// ends no higher than it began. This is safe because the bytes that an op adds can only shrink with what ran
// before it.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/dependences.h"
#include "compiler/schedule/live_bytes.h"

namespace rondo {

// The result of a search.
struct OrderSearch {
  std::vector<int> order;  // all ops, with a peak within the limit; empty if none was found
  // A lower bound for the peak of all orders; above the limit if no order is within it.
  int64_t least = 0;
  int64_t work = 0;  // looks at single ops
  // Whether it is known if there is an order within `limit`.
  bool settled(int64_t limit) const { return !order.empty() || least > limit; }
};

// Looks for an order with a peak of at most `limit` bytes, until it has found one, has shown that there is
// none, or has done `work` looks at single ops (about 20 a microsecond).
OrderSearch FindOrder(const MemoryModel& model, const Dependences& deps, int64_t limit, int64_t work);

// Runs FindOrder, on the program and on the same in reversed time, with limits between the known bounds: a
// known order has a peak of `peak` bytes, and no order is below `least`. `order` is empty if there is no
// better one; `least` reaches the peak if that is proven optimal.
OrderSearch FindLeastOrder(const MemoryModel& model, const Dependences& deps, int64_t peak, int64_t least,
                           int64_t work);

}  // namespace rondo
