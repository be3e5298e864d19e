// The slice of a weight that a device holds, if a model for all devices defines slices.
#pragma once

#include <memory>

#include "compiler/import/import.h"
#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::onnx {
class ModelProto;
class TensorProto;
}  // namespace rondo::onnx

namespace rondo::importer {

// `whole`, or the slice for device options.rank if an attribute asks for slices. The attribute is an entry
// "rondo.shard" in the tensor's own metadata_props, or an entry "rondo.shard.NAME" in those of the graph or
// the model. Its value is AXIS or AXIS:LENGTH,LENGTH,.... The weight is cut into equal slices along that axis
// (a negative one counts from the end). With lengths, each of the segments of these lengths is cut (a fused
// weight of queries, keys and values has three), and device r gets slice r of each. A slice along the first
// axis shares memory with `whole`, others are copied; synthetic weights become bytes.
Result<std::shared_ptr<ir::ConstantData>> ShareOf(const onnx::ModelProto& model,
                                                  const onnx::TensorProto& tensor,
                                                  std::shared_ptr<ir::ConstantData> whole,
                                                  const ImportOptions& options);

}  // namespace rondo::importer
