// Initializers: constants that point into the model's file, or are generated from a seed if the file is
// missing.
#include <algorithm>
#include <cmath>

#include "compiler/import/importer.h"
#include "compiler/import/narrow_weight.h"
#include "compiler/import/shard.h"
#include "compiler/import/sparse_constant.h"
#include "compiler/import/synthetic_weight.h"
#include "core/scalar.h"
#include "core/synthetic.h"
#include "formats/onnx/tensor.h"
#include "formats/plan/live_weights.h"

namespace rondo::importer {
namespace {

// The greatest magnitude of a finite element: all that passes need to know about a weight whose values they
// do not know.
float GreatestOf(const onnx::TensorValue& value) {
  float greatest = 0;
  for (int64_t i = 0; i < value.shape.elements(); ++i) {
    const float magnitude = std::fabs(scalar::Load<float>(value.dtype, value.bytes.data(), i));
    if (std::isfinite(magnitude)) greatest = std::max(greatest, magnitude);
  }
  return greatest;
}

}  // namespace

// The bytes of a tensor called `name`, or the recipe to generate them.
std::shared_ptr<ir::ConstantData> Importer::DataOf(const onnx::TensorValue& value, const std::string& name) {
  auto data = std::make_shared<ir::ConstantData>();
  data->dtype = value.dtype;
  data->shape = value.shape;
  data->bytes = {value.bytes.data(), value.bytes.size()};
  data->keep = value.owner;
  data->name = name;
  if (value.missing) {
    data->synthetic = true;
    data->synthetic_key = SyntheticKey(options_.synthetic_seed, name);
    data->synthetic_scale = IsFloat(value.dtype) ? SyntheticScale(value.shape) : 0;
    report_->synthetic.push_back(name);
  } else if (options_.live_weights && IsLiveWeight(value.dtype, value.shape)) {
    data->bytes = {};
    data->synthetic = true;
    data->synthetic_key = LiveWeightKey(name);
    data->synthetic_scale = GreatestOf(value);
  }
  return data;
}

// Dense initializers are read when a node asks for them.
Status Importer::AddInitializers(const onnx::GraphProto& graph, Scope* scope) {
  for (const onnx::TensorProto& tensor : graph.initializer()) scope->initializers[tensor.name()] = &tensor;
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
    const std::string& name = tensor.values().name();
    builder_.SetSources({"Initializer \"" + name + "\""});
    RONDO_ASSIGN_OR_RETURN(const NodeId node, SparseConstant(builder_, *this, tensor));
    scope->values[name] = Value{node, false, {}};
  }
  return Status::Ok();
}

Result<Value> Importer::LoadInitializer(const onnx::TensorProto& tensor) {
  const std::string& name = tensor.name();
  // The constant's source is the initializer, not the first node that asks for it.
  const std::vector<std::string> sources = {"Initializer \"" + name + "\""};
  if (NarrowBits(tensor.data_type()) != 0) {
    builder_.SetSources(sources);
    builder_.SetAnnotations({});
    return LoadNarrow(tensor);
  }
  RONDO_ASSIGN_OR_RETURN(onnx::TensorValue value, LoadTensor(tensor));
  std::shared_ptr<ir::ConstantData> data = DataOf(value, name);
  RONDO_ASSIGN_OR_RETURN(data, ShareOf(model_->proto(), tensor, data, options_));
  const NodeId id = builder_.Constant(data);
  ir::Node& constant = builder_.graph().node(id);
  constant.name = name;
  constant.sources = sources;
  constant.annotations.clear();
  return Value{id, false, {}};
}

// Weights of narrow types stay packed in the plan; readers see their numbers as 8 bits or f32.
Result<Value> Importer::LoadNarrow(const onnx::TensorProto& tensor) {
  if (options_.devices > 1) {
    return Status::Error(Code::kUnsupported, "weight \"%.200s\" of type %s cannot be cut for several devices",
                         tensor.name().c_str(), onnx::DataTypeName(tensor.data_type()));
  }
  RONDO_ASSIGN_OR_RETURN(PackedTensor packed, PackedBytesOf(tensor));
  RONDO_ASSIGN_OR_RETURN(onnx::TensorValue value, LoadTensor(packed.bytes));
  const std::shared_ptr<ir::ConstantData> data = DataOf(value, tensor.name());
  if (!value.missing) {  // copies the bytes, which may belong to `packed`
    const auto owned = std::make_shared<std::vector<uint8_t>>(value.bytes.begin(), value.bytes.end());
    data->bytes = *owned;
    data->keep = owned;
  }
  Value narrow;
  narrow.node = Widened(builder_, builder_.Constant(data), packed);
  narrow.bits = packed.bits;
  narrow.narrow = std::make_shared<NarrowCodes>(NarrowCodes{data, packed.shape, packed.bits, packed.is_signed,
                                                            packed.type, packed.is_fnuz, packed.is_power});
  return narrow;
}

}  // namespace rondo::importer
