// CacheEncoding: the rows of a cache that is stored in another form than the model computes and reads them
// in.
#pragma once

#include <functional>
#include <optional>

#include "compiler/import/cache_ports.h"
#include "compiler/import/place_by_place.h"
#include "compiler/ir/builder.h"

namespace rondo::importer {

// What a model does, place by place, to a cache before new rows are put behind it, and to both afterwards.
struct CacheEncoding {
  int cache = -1;                // which input
  ir::NodeId all = ir::kNoNode;  // the cached positions and the new ones
  PlaceByPlace before;           // of the cached positions alone
  PlaceByPlace first;            // of all: up to numbers of at most 16 bits
  PlaceByPlace second;           // and from those to what is kept
};

// Of `all`, `cached` positions with new rows behind them or written to them: what is done around it, where
// rows may be written to the cache as they are kept, once. What a cache holds came out of runs, so it is what
// `second` makes of numbers of at most 16 bits; and every such number is itself again when a run has read and
// kept it once more. So it is of types wider than what is made and read, as converters to f16 leave them, and
// of caches that are quantised as what becomes one is. nullopt if it is not so, or nothing is done around it.
std::optional<CacheEncoding> FindCacheEncoding(ir::Graph* graph, const CachePorts& ports, ir::NodeId cached,
                                               ir::NodeId all);

// Writes `rows`, the new ones, as they are kept, by `write`, which gives the whole cache with them in it, and
// makes what others read of `kept.all` from that.
void WriteAsKept(ir::Builder& b, const CacheEncoding& kept, ir::NodeId rows,
                 const std::function<ir::NodeId(ir::NodeId rows)>& write);

}  // namespace rondo::importer
