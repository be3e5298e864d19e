// Helpers for an operator that is another operator with something before or after it.
#pragma once

#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

// Runs the handler of ai.onnx's `op` at `opset` on `inputs` (kNoNode: left out), with the attributes of `c`'s
// node and its number of outputs. What that operator requires is checked by its handler.
Result<std::vector<NodeId>> CallOp(OpContext& c, const char* op, int64_t opset,
                                   const std::vector<NodeId>& inputs);
// The same; output 0.
Result<NodeId> CallOne(OpContext& c, const char* op, int64_t opset, const std::vector<NodeId>& inputs);

// The activation that the attribute `activation` names, of x; x itself if it is not there. Its numbers are
// activation_params, or activation_alpha, _beta and _gamma. kUnsupported for one that rondo does not know.
Result<NodeId> FusedActivation(OpContext& c, NodeId x);

// Input `i` does not fit `to`.
Status DoesNotFit(const OpContext& c, int i, const Shape& to);
// Input `i`, a vector of `count` floats, as f32.
Result<NodeId> VectorInput(OpContext& c, int i, int64_t count);
// Input `i`, where it is given, added to y, one-way broadcast, in y's type.
Result<NodeId> AddInput(OpContext& c, NodeId y, int i);

// x with its channels, which are last, behind its batch; and back.
NodeId ChannelsFirst(ir::Builder& b, NodeId x);
NodeId ChannelsLast(ir::Builder& b, NodeId x);

}  // namespace rondo::importer
