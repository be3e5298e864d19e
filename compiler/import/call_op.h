// Helpers for an operator that is another operator with further computations before or after it.
#pragma once

#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

// Runs the handler of ai.onnx's `op` at `opset` on `inputs` (kNoNode: left out), with the attributes and the
// number of outputs of `c`'s node. The handler checks that operator's requirements.
Result<std::vector<NodeId>> CallOp(OpContext& c, const char* op, int64_t opset,
                                   const std::vector<NodeId>& inputs);
// The same; output 0.
Result<NodeId> CallOne(OpContext& c, const char* op, int64_t opset, const std::vector<NodeId>& inputs);

// Applies the activation that the attribute `activation` names to x; x itself without that attribute. The
// activation's parameters are activation_params, or activation_alpha, _beta and _gamma. kUnsupported for an
// unknown activation.
Result<NodeId> FusedActivation(OpContext& c, NodeId x);

// The error that input `i` does not fit the shape `to`.
Status DoesNotFit(const OpContext& c, int i, const Shape& to);
// Input `i`, a vector of `count` floats, as f32.
Result<NodeId> VectorInput(OpContext& c, int i, int64_t count);
// Adds input `i`, if it is given, to y, one-way broadcast, in y's type.
Result<NodeId> AddInput(OpContext& c, NodeId y, int i);

// ChannelsFirst moves the channels of x from the last place to the one after the batch; ChannelsLast moves
// them back.
NodeId ChannelsFirst(ir::Builder& b, NodeId x);
NodeId ChannelsLast(ir::Builder& b, NodeId x);

}  // namespace rondo::importer
