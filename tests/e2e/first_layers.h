// The first layers of a decoder's graph, with its embedding and its head.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace rondo {

// Writes to `to` what the model file `from` makes of its first `layers` layers: what is behind them reads the
// last of these layers' sum instead. A layer is two additions of a matmul to what began as the embedding's
// rows (LlamaModel, and the bench models' graphs). Inputs and outputs that are left without a reader or a
// source go. kInvalidArgument if the graph has fewer layers.
Status WriteFirstLayers(const std::string& from, int64_t layers, const std::string& to);

}  // namespace rondo
