#include "compiler/model_shapes.h"

#include <algorithm>
#include <set>

#include "compiler/import/dim_expression.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo {

namespace {

constexpr int64_t kAsTheModelSays = -1;

// Fills in the dims of `given` that are left to the model.
Status FillDims(const onnx::ValueInfoProto& input, const std::map<std::string, ir::Size>& symbols,
                ir::Dims* given) {
  const auto& declared = input.type().tensor_type().shape();
  for (size_t d = 0; d < given->size(); ++d) {
    if (!((*given)[d] == kAsTheModelSays)) continue;
    std::vector<std::string> missing;
    std::optional<ir::Size> value;
    if (static_cast<int>(d) < declared.dim_size()) {
      const auto& dim = declared.dim(static_cast<int>(d));
      if (dim.has_dim_value()) value = dim.dim_value();
      if (!dim.dim_param().empty()) value = importer::EvaluateDim(dim.dim_param(), symbols, &missing);
    }
    if (!value || value->extent() < 0) {
      return Status::Error(Code::kInvalidArgument,
                           "shape \"%s\": dimension %zu is -1, which leaves it to the model, and the model "
                           "leaves it open: give a number",
                           input.name().c_str(), d);
    }
    (*given)[d] = *value;
  }
  return Status::Ok();
}

// Checks that the model allows the shape given for an input, and binds the model's symbols to its dims. If
// both the input and the symbol are in `own`, a difference is a remark instead of an error, and each keeps
// its value.
Status BindShape(const onnx::ValueInfoProto& input, const ir::Dims& given, const std::set<std::string>& own,
                 std::map<std::string, ir::Size>* symbols, std::vector<std::string>* remarks) {
  const auto& declared = input.type().tensor_type().shape();
  if (!input.type().tensor_type().has_shape()) return Status::Ok();
  if (static_cast<size_t>(declared.dim_size()) != given.size()) {
    return Status::Error(Code::kInvalidArgument, "shape \"%s\": %zu dimensions are given; the model has %d",
                         input.name().c_str(), given.size(), declared.dim_size());
  }
  for (int d = 0; d < declared.dim_size(); ++d) {
    const auto& dim = declared.dim(d);
    const long long value = given[static_cast<size_t>(d)].extent();
    if (value == kAsTheModelSays || (!dim.dim_param().empty() && importer::IsPlaceholder(dim.dim_param())))
      continue;
    long long fixed = dim.has_dim_value() && dim.dim_value() > 0 ? dim.dim_value() : value;
    if (!dim.dim_param().empty()) fixed = symbols->emplace(dim.dim_param(), value).first->second.extent();
    if (fixed == value) continue;
    const std::string& name = dim.dim_param();
    if (own.count(input.name()) != 0 && own.count(name) != 0) {
      remarks->push_back("dimension " + std::to_string(d) + " of \"" + input.name() + "\" is " +
                         std::to_string(value) + " as given, where what else is \"" + name + "\" is " +
                         std::to_string(fixed));
      continue;
    }
    return Status::Error(
        Code::kInvalidArgument, "shape \"%s\": dimension %d%s is given as %lld, but is %lld%s",
        input.name().c_str(), d, name.empty() ? "" : (" (\"" + name + "\")").c_str(), value, fixed,
        name.empty() ? ""
                     : ("; where a model has one name for two lengths, give both for its program: "
                        "--shape PROGRAM:" +
                        input.name() + "=..., --shape PROGRAM:" + name + "=...")
                           .c_str());
  }
  return Status::Ok();
}

// Checks that a dimension declared as an expression of known symbols has the value of the expression.
Status CheckExpressions(const onnx::ValueInfoProto& input, const ir::Dims& given,
                        std::map<std::string, ir::Size> symbols) {
  const auto& declared = input.type().tensor_type().shape();
  for (int d = 0; d < declared.dim_size(); ++d) {
    const std::string& text = declared.dim(d).dim_param();
    if (importer::IsPlaceholder(text) || importer::SymbolsOf(text) == std::vector<std::string>{text})
      continue;
    symbols.erase(text);
    std::vector<std::string> missing;
    const std::optional<ir::Size> value = importer::EvaluateDim(text, symbols, &missing);
    if (!value || *value == given[static_cast<size_t>(d)]) continue;
    return Status::Error(
        Code::kInvalidArgument, "shape \"%s\": dimension %d (\"%s\") is given as %lld, but is %lld",
        input.name().c_str(), d, text.c_str(), static_cast<long long>(given[static_cast<size_t>(d)].extent()),
        static_cast<long long>(value->extent()));
  }
  return Status::Ok();
}

}  // namespace

// Collects `inputs` and `symbols` of a model's inputs; initializers have no symbols.
void CollectNames(const onnx::Model& model, std::set<std::string>* inputs, std::set<std::string>* symbols) {
  std::set<std::string> constants;
  for (const onnx::TensorProto& value : model.proto().graph().initializer()) {
    if (std::find(value.dims().begin(), value.dims().end(), 0) == value.dims().end())
      constants.insert(value.name());
  }
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    inputs->insert(input.name());
    if (constants.count(input.name()) != 0) continue;  // no input, unless it is named itself
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (!dim.has_dim_param()) continue;
      symbols->insert(dim.dim_param());
      for (const std::string& name : importer::SymbolsOf(dim.dim_param())) symbols->insert(name);
    }
  }
}

// Adds the names that `shapes` uses for the tensors of sequences: NAME.0, NAME.1, ...
void AddElements(const onnx::Model& model, const std::map<std::string, std::vector<int64_t>>& shapes,
                 std::set<std::string>* inputs) {
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    if (input.type().has_tensor_type()) continue;
    for (const auto& [name, dims] : shapes) {
      if (name.starts_with(input.name() + ".")) inputs->insert(name);
    }
  }
}

std::set<std::string> ShapeNames(const onnx::Model& model) {
  std::set<std::string> names;
  CollectNames(model, &names, &names);
  return names;
}

std::set<std::string> LengthNames(const onnx::Model& model) {
  std::set<std::string> inputs, symbols;
  CollectNames(model, &inputs, &symbols);
  for (const std::string& input : inputs) symbols.erase(input);
  return symbols;
}

Status SplitShapes(const onnx::Model& model, const std::map<std::string, std::vector<int64_t>>& shapes,
                   const std::set<std::string>& own, ImportOptions* options, std::vector<std::string>* found,
                   std::vector<std::string>* remarks) {
  std::set<std::string> inputs, symbols;
  CollectNames(model, &inputs, &symbols);
  AddElements(model, shapes, &inputs);
  for (const auto& [name, dims] : shapes) {
    for (int64_t dim : dims) {
      if (dim >= 1 || dim == kAsTheModelSays || (dim == 0 && inputs.count(name) != 0)) continue;
      return Status::Error(Code::kInvalidArgument, "shape \"%s\": dimension %lld is below 1", name.c_str(),
                           static_cast<long long>(dim));
    }
    const bool is_input = inputs.count(name) != 0, is_symbol = symbols.count(name) != 0;
    if (!is_input && !is_symbol) continue;
    found->push_back(name);
    if (is_input) {
      options->input_shapes[name] = ir::Dims(dims.begin(), dims.end());
    } else if (dims.size() == 1) {
      if (dims[0] != kAsTheModelSays) options->symbols[name] = dims[0];
    } else {
      return Status::Error(Code::kInvalidArgument,
                           "shape \"%s\" is one dimension of the model's inputs; %zu values are given",
                           name.c_str(), dims.size());
    }
  }
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    const auto given = options->input_shapes.find(input.name());
    if (given == options->input_shapes.end()) continue;
    RONDO_RETURN_IF_ERROR(BindShape(input, given->second, own, &options->symbols, remarks));
  }
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    const auto given = options->input_shapes.find(input.name());
    if (given == options->input_shapes.end()) continue;
    RONDO_RETURN_IF_ERROR(FillDims(input, options->symbols, &given->second));
    RONDO_RETURN_IF_ERROR(CheckExpressions(input, given->second, options->symbols));
  }
  return Status::Ok();
}

void BindInputs(const onnx::Model& model, const BoundValues& bound, ImportOptions* options) {
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    const auto given = bound.find(input.name());
    if (given != bound.end()) options->bound_inputs.insert(*given);
  }
}

}  // namespace rondo
