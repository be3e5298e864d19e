// Converts index maps to one device of several: views, and accesses with data-dependent indices.
//
// Pure functions; thread-safe. `elements` is the size of the whole storage, `from` its sharding, and `to` the
// sharding of the view. Every result holds for all ranks, except for the offset at which a device finds its
// share of a storage that it holds whole.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/sharding.h"

namespace rondo::shard {

// Device `rank`'s share of `view`, as a view of its share of the storage. None if the share shows what other
// devices hold, or would have more dims than a shape can.
std::optional<ir::View> LocalView(const ir::View& view, int64_t elements, Sharding from, Sharding to,
                                  int64_t devices, int64_t rank);

// The sharding in which `view` shows a storage that is split into runs of `from`, and the sharding of the
// storage that makes the view one of runs of `to`; kWhole if there is none.
Sharding ShardingShown(const ir::View& view, int64_t elements, Sharding from, int64_t devices);
Sharding ShardingBehind(const ir::View& view, int64_t elements, Sharding to, int64_t devices);

// An indexed access of a share of the data.
struct LocalIndexed {
  ir::View map;                  // over the share of the shape that is read or written
  std::vector<int64_t> strides;  // one an index
  // The index whose values the devices share out, each an equal range of its extent: what the others hold,
  // this one cannot reach. -1: none, all values mean the same everywhere.
  int over = -1;
};
// `to` is the sharding of what is read, or of the updates that are written. None as above.
std::optional<LocalIndexed> LocaliseIndexed(const ir::IndexedAttrs& attrs, int64_t elements, Sharding from,
                                            Sharding to, int64_t devices, int64_t rank);

// The sharding of the data that makes an access one of runs of `to`; kWhole if it must be, or may be, whole.
Sharding DataBehind(const ir::IndexedAttrs& attrs, int64_t elements, Sharding to, int64_t devices);
// The sharding of what is read of data in runs of `from`, or of the updates that may be written to it.
Sharding ShardingAccessed(const ir::IndexedAttrs& attrs, int64_t elements, Sharding from, int64_t devices);

}  // namespace rondo::shard
