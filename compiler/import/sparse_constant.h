// Turns sparse tensors of a model's file into dense constants.
#pragma once

#include "compiler/import/op_context.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// `tensor`, dense. kCorrupt where its numbers and places do not fit together, with both.
Result<ir::NodeId> SparseConstant(ir::Builder& b, Host& host, const onnx::SparseTensorProto& tensor);

}  // namespace rondo::importer
