// CacheEncoding: how a cache is stored, if the model computes and reads it in another form.
#pragma once

#include <functional>
#include <optional>

#include "compiler/import/cache_ports.h"
#include "compiler/import/place_by_place.h"
#include "compiler/ir/builder.h"

namespace rondo::importer {

// The elementwise operations of a model between a stored cache and the form in which the model appends new
// rows to it.
struct CacheEncoding {
  int cache = -1;                // index of the input
  ir::NodeId all = ir::kNoNode;  // the cached positions and the new ones
  PlaceByPlace before;           // from the stored cache to the form in which rows are appended
  PlaceByPlace first;            // applied to `all`, up to a type of at most 16 bits
  PlaceByPlace second;           // from that type to the stored form
};

// Finds the encoding around `all`, which is `cached` with new rows appended or written to it. The result
// allows a run to write its new rows to the cache in the stored form, once. This is correct because stored
// values come from earlier runs: they are `second` of values of at most 16 bits, and each such value must
// survive a further run, `second`, `before` and `first`, unchanged. That holds if the cache has a wider type
// than the model computes in (as converters to f16 leave it), and if the model dequantises a quantised cache
// and quantises it again in the same way. nullopt if it does not hold, or if there are no operations around
// `all`.
std::optional<CacheEncoding> FindCacheEncoding(ir::Graph* graph, const CachePorts& ports, ir::NodeId cached,
                                               ir::NodeId all);

// Encodes the new `rows` and passes them to `write`, which returns the whole cache with these rows. Readers
// of `kept.all` get values that are computed from that cache.
void WriteAsKept(ir::Builder& b, const CacheEncoding& kept, ir::NodeId rows,
                 const std::function<ir::NodeId(ir::NodeId rows)>& write);

}  // namespace rondo::importer
