// Turns sparse tensors of a model's file into dense constants.
#pragma once

#include "compiler/import/op_context.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// `tensor` as a dense constant. kCorrupt, with both, if its numbers and indices do not fit together.
Result<ir::NodeId> SparseConstant(ir::Builder& b, Host& host, const onnx::SparseTensorProto& tensor);

}  // namespace rondo::importer
