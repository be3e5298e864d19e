// Cuts the first layers out of a decoder's graph, with its embedding and its head.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace rondo {

// Writes to `to` the model file `from` reduced to its first `layers` layers: the nodes behind the last layer
// read the sum of layer `layers` instead. A layer adds matmuls twice to the residual stream that begins with
// the embedding's rows (LlamaModel, and the bench models' graphs). Inputs and outputs without a reader or a
// source are removed. kInvalidArgument if the graph has fewer layers.
Status WriteFirstLayers(const std::string& from, int64_t layers, const std::string& to);

}  // namespace rondo
