// Which slice of a weight a device holds, if a model for all devices says so.
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

// `whole` itself, or the share of device options.rank of it when an attribute asks for one: an entry of the
// tensor's own metadata_props with the key "rondo.shard", or of the graph's or the model's with the key
// "rondo.shard.NAME". Its value is AXIS or AXIS:LENGTH,LENGTH,...: the weight is cut into equal slices along
// that axis (negative ones count from the end), or each of the segments of these lengths is (a fused query,
// key and value weight has three), and device r gets slice r of each. The first axis is shared with `whole`,
// others are copied; synthetic weights become bytes.
Result<std::shared_ptr<ir::ConstantData>> ShareOf(const onnx::ModelProto& model,
                                                  const onnx::TensorProto& tensor,
                                                  std::shared_ptr<ir::ConstantData> whole,
                                                  const ImportOptions& options);

}  // namespace rondo::importer
