// Inputs and outputs of a model: shapes that are static, names that occur once.
#include <algorithm>
#include <cmath>

#include "compiler/import/cache_ports.h"
#include "compiler/import/dim_expression.h"
#include "compiler/import/importer.h"
#include "compiler/import/ragged.h"
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
    return Status::Error(Code::kUnsupported, "input \"%.200s\" has %zu dimensions; the limit is %d",
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

// Whether a value of `dtype` can be `number`.
Status CheckBound(const std::string& name, DType dtype, double number) {
  const bool whole = number == std::floor(number) && std::abs(number) < 0x1p53;
  if (IsFloat(dtype) || (dtype == DType::kBool ? number == 0 || number == 1 : whole)) return Status::Ok();
  return Status::Error(Code::kInvalidArgument, "input \"%.200s\" is %s and cannot be %g", name.c_str(),
                       Name(dtype), number);
}

// Whether `info`, of which the model has `value`, is an input all the same: the caller says what it is, or
// what its dims are where the value has no elements (an adapter of rank 0, in whose place others are given).
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

Status Importer::AddInputs(Scope* scope) {
  OpenDims unknown;
  for (const onnx::ValueInfoProto& info : model_->proto().graph().input()) {
    if (const auto value = scope->initializers.find(info.name()); value != scope->initializers.end()) {
      if (!IsWanted(info, *value->second, options_)) continue;
      scope->initializers.erase(value);
    }
    if (!info.type().has_tensor_type()) {
      return Status::Error(Code::kUnsupported, "input \"%.200s\" is not a dense tensor", info.name().c_str());
    }
    auto dtype = onnx::DTypeOf(info.type().tensor_type().elem_type());
    if (!dtype.ok()) return dtype.status().At("input \"%.200s\"", info.name().c_str());
    RONDO_ASSIGN_OR_RETURN(const ir::Dims dims, InputShape(info, &unknown));
    const Shape shape = ir::ExtentsOf(dims);
    if (scope->values.count(info.name()) != 0) {
      return Status::Error(Code::kCorrupt, "two inputs are named \"%.200s\"", info.name().c_str());
    }
    const auto bound = options_.bound_inputs.find(info.name());
    if (bound != options_.bound_inputs.end()) {
      RONDO_RETURN_IF_ERROR(CheckBound(info.name(), *dtype, bound->second));
      const NodeId number = builder_.Scalar(*dtype, bound->second);
      scope->values[info.name()] = Value{builder_.ExpandTo(number, dims), false, {}};
      continue;
    }
    const NodeId input = builder_.Input(info.name(), *dtype, shape);
    if (builder_.sizes() != nullptr) builder_.sizes()->Set(input, dims);
    scope->values[info.name()] = Value{input, false, {}};
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
  std::unordered_set<std::string> names;
  for (const onnx::ValueInfoProto& info : model_->proto().graph().output()) {
    if (!names.insert(info.name()).second) {
      return Status::Error(Code::kUnsupported,
                           "two of the outputs are named \"%.200s\": give one of them another name",
                           info.name().c_str());
    }
    auto value = Lookup(info.name(), scope);
    if (!value.ok()) return value.status().At("output \"%.200s\"", info.name().c_str());
    if (value->is_sequence || value->node == kNoNode) {
      return Status::Error(Code::kUnsupported, "output \"%.200s\" is a sequence of tensors",
                           info.name().c_str());
    }
    if (value->bits != 0) {
      return Status::Error(
          Code::kUnsupported,
          "output \"%.200s\" has numbers of %d bits, which are no type of a port: dequantise them",
          info.name().c_str(), value->bits);
    }
    if (value->ragged != nullptr)
      return RefuseRagged(*value, "the output \"" + info.name().substr(0, 200) + "\" has it");
    DType dtype = builder_.dtype(value->node);
    if (info.type().tensor_type().elem_type() != 0) {
      auto declared = onnx::DTypeOf(info.type().tensor_type().elem_type());
      if (!declared.ok() || *declared != dtype) {
        return Status::Error(Code::kCorrupt, "output \"%.200s\" is declared as %s, but its value is %s",
                             info.name().c_str(), onnx::DataTypeName(info.type().tensor_type().elem_type()),
                             Name(dtype));
      }
    }
    // A branch that a bound input has chosen may have nothing to say of what the other one gives.
    if (!options_.bound_inputs.empty() && builder_.shape(value->node).elements() == 0) {
      report_->empty_outputs.push_back(info.name());
      continue;
    }
    graph.outputs.push_back({info.name(), value->node});
  }
  if (graph.outputs.empty()) return Status::Error(Code::kCorrupt, "the model has no outputs");
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
