// Makes a dim of weights and of tensor views longer (pad_uneven.h, pad_heads.h). Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "compiler/shard/sharding.h"

namespace rondo::shard {

// In a storage of which a dim has `extent` indices, `stride` elements apart: what a distance in elements
// becomes when there are `to` of them. None if the distance is along that dim.
std::optional<int64_t> Widened(int64_t distance, int64_t stride, int64_t extent, int64_t to);

// `view` of a storage of which that dim gets longer, and with it dim `dim` of the view, which walks along it.
std::optional<ir::View> Widen(const ir::View& view, int dim, int64_t stride, int64_t extent, int64_t to);

// Of a part of a synthetic weight, only what begins in its runs can be longer.
bool CanPad(const ir::ConstantData& data, int dim);

// Zeros behind the old end of dim `dim`; of a synthetic weight, numbers of it.
std::shared_ptr<const ir::ConstantData> Pad(const std::shared_ptr<const ir::ConstantData>& from, int dim,
                                            int64_t to);

}  // namespace rondo::shard
