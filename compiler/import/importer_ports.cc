// Inputs and outputs of a model: static shapes and distinct names.
#include <algorithm>
#include <cmath>

#include "compiler/import/cache_ports.h"
#include "compiler/import/data_sizes.h"
#include "compiler/import/dim_expression.h"
#include "compiler/import/importer.h"
#include "compiler/import/narrow_weight.h"
#include "core/scalar.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {

Result<ir::Dims> Importer::InputShape(const onnx::ValueInfoProto& info, OpenDims* open) {
  ir::Dims dims;
  if (auto given = options_.input_shapes.find(info.name()); given != options_.input_shapes.end()) {
    dims = given->second;
  } else {
    if (!info.type().tensor_type().has_shape()) open->AddInput(info.name());
    int axis = 0;
    bool unnamed = false;
    for (const auto& dim : info.type().tensor_type().shape().dim()) {
      const std::string& text = dim.dim_param();
      std::vector<std::string> missing;
      if (dim.has_dim_value()) {
        dims.push_back(dim.dim_value());
      } else if (IsPlaceholder(text) && options_.symbols.count(text) == 0) {
        dims.push_back(1);
        unnamed = true;
        open->AddAxis(info.name(), axis);
      } else {
        dims.push_back(EvaluateDim(text, options_.symbols, &missing).value_or(1));
      }
      for (const std::string& symbol : missing) open->AddSymbol(symbol, info.name(), axis);
      ++axis;
    }
    if (unnamed) {
      const Shape shape = ir::ExtentsOf(dims);
      open->AddShape(info.name(), {shape.begin(), shape.end()});
    }
  }
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return Status::Error(
        Code::kUnsupported,
        "input \"%.200s\" has %zu dimensions; the limit is %d: join neighbours before the export (a "
        "Reshape outside the model)",
        info.name().c_str(), dims.size(), kMaxRank);
  }
  int64_t elements = 1;
  for (const ir::Size& dim : dims) {
    const int64_t d = dim.extent();
    if (d < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(d, 1), &elements) ||
        elements > int64_t{1} << 44) {
      return Status::Error(Code::kInvalidArgument, "input \"%.200s\" has an impossible extent of %lld",
                           info.name().c_str(), static_cast<long long>(d));
    }
  }
  return dims;
}

namespace {

// Checks that a value of `dtype` can be `number`.
Status CheckNumber(const std::string& name, DType dtype, double number) {
  const bool whole = number == std::floor(number) && std::abs(number) < 0x1p53;
  if (IsFloat(dtype) || (dtype == DType::kBool ? number == 0 || number == 1 : whole)) return Status::Ok();
  return Status::Error(Code::kInvalidArgument, "input \"%.200s\" is %s and cannot be %g", name.c_str(),
                       Name(dtype), number);
}

// The constant of a bound input. The array must have the dims that the model states.
Result<NodeId> BoundConstant(ir::Builder& b, const onnx::ValueInfoProto& info, DType dtype,
                             const Tensor& array) {
  const auto& dims = info.type().tensor_type().shape().dim();
  bool fits = !info.type().tensor_type().has_shape() || dims.size() == array.shape.rank;
  for (int d = 0; fits && d < dims.size(); ++d)
    fits = !dims[d].has_dim_value() || dims[d].dim_value() == array.shape[d];
  if (!fits) {
    return Status::Error(Code::kInvalidArgument,
                         "input \"%.200s\" is bound to an array of shape %s, which is not the model's",
                         info.name().c_str(), Text(array.shape).c_str());
  }
  std::vector<uint8_t> bytes = array.bytes;
  if (dtype != array.dtype) {
    bytes.assign(static_cast<size_t>(array.shape.elements() * ByteSize(dtype)), 0);
    for (int64_t i = 0; i < array.shape.elements(); ++i) {
      const auto number = scalar::Load<double>(array.dtype, array.bytes.data(), i);
      RONDO_RETURN_IF_ERROR(CheckNumber(info.name(), dtype, number));
      scalar::Store<double>(dtype, bytes.data(), i, number);
    }
  }
  return b.Constant(ir::ConstantData::Own(dtype, array.shape, std::move(bytes)));
}

Status NoValueOf(const onnx::ValueInfoProto& info, int type) {
  return Status::Error(Code::kUnsupported,
                       "input \"%.200s\" is of %s and cannot be bound: make it an initializer of the model",
                       info.name().c_str(), onnx::DataTypeName(type));
}

// Whether `info` is an input although the model has `value` for it. That is so if the caller gives its shape
// or value, or gives its dims while the value has no elements (an adapter of rank 0 to be replaced).
bool IsWanted(const onnx::ValueInfoProto& info, const onnx::TensorProto& value,
              const ImportOptions& options) {
  if (options.input_shapes.count(info.name()) != 0 || options.bound_inputs.count(info.name()) != 0)
    return true;
  if (std::find(value.dims().begin(), value.dims().end(), 0) == value.dims().end()) return false;
  const auto& dims = info.type().tensor_type().shape().dim();
  return std::all_of(dims.begin(), dims.end(), [&](const auto& dim) {
    if (dim.dim_param().empty()) return dim.dim_value() > 0;
    std::vector<std::string> missing;
    return EvaluateDim(dim.dim_param(), options.symbols, &missing).value_or(0).extent() > 0 &&
           missing.empty();
  });
}

}  // namespace

// A sequence becomes one input per tensor, NAME.0, NAME.1, ..., with the shapes in the options; NAME itself
// with shape [0] is an empty sequence.
Status Importer::AddSequence(const std::string& name, const onnx::TypeProto& of, Scope* scope) {
  Value sequence{kNoNode, true, {}};
  const auto dtype = onnx::DTypeOf(of.tensor_type().elem_type());
  if (!dtype.ok()) return dtype.status().At("input \"%.200s\"", name.c_str());
  for (;;) {
    const std::string element = name + "." + std::to_string(sequence.sequence.size());
    const auto given = options_.input_shapes.find(element);
    if (given == options_.input_shapes.end()) break;
    onnx::ValueInfoProto info;
    info.set_name(element);
    OpenDims none;
    RONDO_ASSIGN_OR_RETURN(const ir::Dims dims, InputShape(info, &none));
    sequence.sequence.push_back(builder_.Input(element, *dtype, ir::ExtentsOf(dims)));
  }
  const auto itself = options_.input_shapes.find(name);
  const bool empty = itself != options_.input_shapes.end() && itself->second == ir::Dims{0};
  if (sequence.sequence.empty() && !empty) {
    return Status::Error(
        Code::kInvalidArgument,
        "input \"%.200s\" is a sequence: give the shape of each of its tensors (--shape %.100s.0=2x3 "
        "--shape %.100s.1=4x3, or --shape %.100s=0 if it holds none)",
        name.c_str(), name.c_str(), name.c_str(), name.c_str());
  }
  scope->values[name] = std::move(sequence);
  return Status::Ok();
}

Status Importer::AddInputs(Scope* scope) {
  OpenDims unknown;
  for (const onnx::ValueInfoProto& info : model_->proto().graph().input()) {
    if (const auto value = scope->initializers.find(info.name()); value != scope->initializers.end()) {
      if (!IsWanted(info, *value->second, options_)) continue;
      scope->initializers.erase(value);
    }
    // An optional is imported as its element.
    const onnx::TypeProto& held =
        info.type().has_optional_type() ? info.type().optional_type().elem_type() : info.type();
    if (held.has_sequence_type()) {
      RONDO_RETURN_IF_ERROR(AddSequence(info.name(), held.sequence_type().elem_type(), scope));
      continue;
    }
    if (!held.has_tensor_type()) {
      return Status::Error(Code::kUnsupported, "input \"%.200s\" is not a dense tensor or a sequence of such",
                           info.name().c_str());
    }
    onnx::ValueInfoProto plain = info;
    *plain.mutable_type() = held;
    const int type = held.tensor_type().elem_type();
    const auto port = onnx::PortTypeOf(type, Shape{});
    if (!port.ok()) return port.status().At("input \"%.200s\"", info.name().c_str());
    const DType dtype = port->dtype;
    const bool narrow = NarrowBits(type) != 0;
    if (scope->values.count(info.name()) != 0) {
      return Status::Error(Code::kCorrupt, "two inputs are named \"%.200s\"", info.name().c_str());
    }
    const auto bound = options_.bound_inputs.find(info.name());
    if (bound != options_.bound_inputs.end() && bound->second.array != nullptr) {
      if (narrow) return NoValueOf(info, type);
      RONDO_ASSIGN_OR_RETURN(const NodeId value, BoundConstant(builder_, plain, dtype, *bound->second.array));
      scope->values[info.name()] = Value{value, false, {}};
      continue;
    }
    RONDO_ASSIGN_OR_RETURN(const ir::Dims dims, InputShape(plain, &unknown));
    const Shape shape = ir::ExtentsOf(dims);
    if (bound != options_.bound_inputs.end()) {
      if (narrow) return NoValueOf(info, type);
      RONDO_RETURN_IF_ERROR(CheckNumber(info.name(), dtype, bound->second.number));
      const NodeId number = builder_.Scalar(dtype, bound->second.number);
      scope->values[info.name()] = Value{builder_.ExpandTo(number, dims), false, {}};
      continue;
    }
    RONDO_ASSIGN_OR_RETURN(const onnx::PortType codes, onnx::PortTypeOf(type, shape));
    const NodeId input = builder_.Input(info.name(), dtype, codes.shape);
    if (builder_.sizes() != nullptr && !narrow) builder_.sizes()->Set(input, dims);
    scope->values[info.name()] = narrow ? FromPort(builder_, input, type, shape) : Value{input, false, {}};
  }
  if (unknown.empty()) return Status::Ok();
  std::string hint = options_.open_dims_hint.value_or("");
  if (!options_.open_dims_hint) {
    const CachePorts ports = FindGrowingCaches(*model_, {});
    const std::string states = ports.caches.empty() ? StatesToTry(*model_, ports) : "";
    if (!ports.caches.empty()) hint = ", or --cache-length N for the caches";
    if (!states.empty()) hint = ", or --cache-length N if it has caches that grow, with " + states;
  }
  return Status::Error(
      Code::kInvalidArgument,
      "the model leaves dims open that must be given (--shape NAME=VALUE%s): %s; to copy, with your "
      "numbers: %s",
      hint.c_str(), unknown.Text().c_str(), unknown.Line().c_str());
}

Status Importer::AddOutputs(Scope* scope) {
  ir::Graph& graph = builder_.graph();
  std::set<std::string> listed;
  for (const onnx::ValueInfoProto& info : model_->proto().graph().output()) {
    // An output that is listed twice is one port.
    if (!listed.insert(info.name()).second) continue;
    auto value = Lookup(info.name(), scope);
    if (!value.ok()) return value.status().At("output \"%.200s\"", info.name().c_str());
    if (value->is_sequence) {
      for (size_t i = 0; i < value->sequence.size(); ++i)
        graph.outputs.push_back({info.name() + "." + std::to_string(i), value->sequence[i]});
      continue;
    }
    if (value->node == kNoNode)
      return Status::Error(Code::kUnsupported, "output \"%.200s\" holds nothing", info.name().c_str());
    if (value->data_size != nullptr) {
      builder_.SetSources({"Output \"" + info.name() + "\""});
      RONDO_ASSIGN_OR_RETURN(const std::vector<ir::GraphOutput> outputs,
                             DataSizedOutputs(builder_, info.name(), *value));
      graph.outputs.insert(graph.outputs.end(), outputs.begin(), outputs.end());
      continue;
    }
    if (value->narrow != nullptr) {
      builder_.SetSources({"Output \"" + info.name() + "\""});
      value->node = ToPort(builder_, *value);
    }
    DType dtype = builder_.dtype(value->node);
    if (info.type().tensor_type().elem_type() != 0 && value->narrow == nullptr) {
      auto declared = onnx::DTypeOf(info.type().tensor_type().elem_type());
      if (!declared.ok() || *declared != dtype) {
        return Status::Error(Code::kCorrupt, "output \"%.200s\" is declared as %s, but its value is %s",
                             info.name().c_str(), onnx::DataTypeName(info.type().tensor_type().elem_type()),
                             Name(dtype));
      }
    }
    graph.outputs.push_back({info.name(), value->node});
  }
  if (graph.outputs.empty()) return Status::Error(Code::kCorrupt, "the model has no outputs");
  // A branch that a bound input has chosen may leave the other branch's outputs empty.
  const auto is_empty = [&](const ir::GraphOutput& output) {
    return builder_.shape(output.node).elements() == 0;
  };
  if (!options_.bound_inputs.empty() && !std::all_of(graph.outputs.begin(), graph.outputs.end(), is_empty)) {
    for (const ir::GraphOutput& output : graph.outputs) {
      if (is_empty(output)) report_->empty_outputs.push_back(output.name);
    }
    std::erase_if(graph.outputs, is_empty);
  }
  std::vector<bool> read(static_cast<size_t>(graph.size()));
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (NodeId input : graph.node(id).inputs) read[static_cast<size_t>(input)] = true;
  }
  for (const ir::GraphOutput& output : graph.outputs) read[static_cast<size_t>(output.node)] = true;
  for (const ir::GraphInput& input : graph.inputs) {
    if (!read[static_cast<size_t>(input.node)]) report_->unused_inputs.push_back(input.name);
  }
  return Status::Ok();
}

// ------------------------------------------------------------------------------ unknown operators

}  // namespace rondo::importer
