#include "compiler/import/op_context.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/import/sizes_of_data.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/packed.h"
#include "core/scalar.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 44;
constexpr int64_t kMaxEvaluated = int64_t{1} << 26;  // bytes of one value that EvaluateConstant makes

using Data = std::shared_ptr<const ir::ConstantData>;

Status NotConstant(const char* what) {
  return Status::Error(Code::kUnsupported,
                       "%s must be known when the model is compiled, but depends on its inputs", what);
}

// The unpacked elements of a packed constant.
Data Expanded(const ir::ConstantData& data) {
  const std::vector<float> numbers = ir::Unpacked(*data.packed);
  std::vector<uint8_t> bytes(numbers.size() * static_cast<size_t>(ByteSize(data.dtype)));
  for (size_t i = 0; i < numbers.size(); ++i)
    scalar::Store<float>(data.dtype, bytes.data(), static_cast<int64_t>(i), numbers[i]);
  return ir::ConstantData::Own(data.dtype, data.shape, std::move(bytes));
}

}  // namespace

std::vector<std::string> InputsBehind(const ir::Graph& graph, NodeId id) {
  std::vector<std::string> names;
  std::unordered_set<NodeId> seen = {id};
  for (std::vector<NodeId> stack = {id}; !stack.empty();) {
    const ir::Node& node = graph.node(stack.back());
    stack.pop_back();
    if (node.op == ir::Op::kInput) names.push_back(node.name);
    for (NodeId input : node.inputs) {
      if (seen.insert(input).second) stack.push_back(input);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Text(const Shape& shape) {
  char text[160];
  return Format(shape, text, sizeof(text));
}

Result<Data> EvaluateConstant(const ir::Graph& graph, NodeId id) {
  std::unordered_map<NodeId, Data> done;
  std::vector<NodeId> stack = {id};
  while (!stack.empty()) {
    NodeId at = stack.back();
    const ir::Node& node = graph.node(at);
    if (done.count(at) != 0) {
      stack.pop_back();
      continue;
    }
    if (node.op == ir::Op::kInput) return NotConstant("its value");
    if (node.op == ir::Op::kConstant) {
      const Data& data = node.As<ir::ConstantAttrs>().data;
      if (data->synthetic && data->packed == nullptr) return NotConstant("its value (a synthetic weight)");
      done[at] = data->packed != nullptr ? Expanded(*data) : data;
      stack.pop_back();
      continue;
    }
    if (node.shape.elements() * ByteSize(node.dtype) > kMaxEvaluated)
      return NotConstant("its value (too large)");
    bool ready = true;
    ir::Values values;
    for (NodeId input : node.inputs) {
      if (auto found = done.find(input); found != done.end()) {
        values.push_back(found->second);
      } else {
        stack.push_back(input);
        ready = false;
      }
    }
    if (!ready) continue;
    if (!ir::SpendOnFolding(graph, node, 0)) {
      return Status::Error(Code::kUnsupported,
                           "its value must be known when the model is compiled, and takes more work than a "
                           "model of this size may ask for: put a constant in its place");
    }
    RONDO_ASSIGN_OR_RETURN(done[at], ir::EvaluateNode(node, values));
    stack.pop_back();
  }
  return done[id];
}

OpContext::OpContext(ir::Builder* builder, Host* importer, const onnx::NodeProto& node, int64_t version,
                     AttributeMap attributes, std::vector<Value> inputs)
    : b(*builder),
      host(*importer),
      proto(node),
      opset(version),
      inputs_(std::move(inputs)),
      outputs_(static_cast<size_t>(node.output_size())),
      attributes_(std::move(attributes)) {}

bool OpContext::Has(int i) const {
  return i >= 0 && i < num_inputs() && inputs_[static_cast<size_t>(i)].node != kNoNode;
}

bool OpContext::Wants(int i) const { return i < num_outputs() && !proto.output(i).empty(); }

void OpContext::SetValue(int i, Value value) {
  if (i < num_outputs()) outputs_[static_cast<size_t>(i)] = std::move(value);
}

const onnx::AttributeProto* OpContext::Find(const char* name) const {
  auto found = attributes_.find(name);
  return found == attributes_.end() ? nullptr : found->second;
}

void OpContext::Note(const char* name, AttributeRead::Kind kind, bool is_other, int line) const {
  if (std::vector<AttributeRead>* reads = host.attribute_reads())
    reads->push_back({proto.domain(), proto.op_type(), name, kind, is_other, line});
}

const onnx::AttributeProto* OpContext::Attribute(const char* name, int line) const {
  const onnx::AttributeProto* a = Find(name);
  Note(name, AttributeRead::kWhole, a != nullptr, line);
  return a;
}

bool OpContext::HasAttribute(const char* name, int line) const {
  const onnx::AttributeProto* a = Find(name);
  Note(name, AttributeRead::kPresence, a != nullptr, line);
  return a != nullptr;
}

int64_t OpContext::Int(const char* name, int64_t otherwise, int line) const {
  const onnx::AttributeProto* a = Find(name);
  const int64_t value = a != nullptr && a->has_i() ? a->i() : otherwise;
  Note(name, AttributeRead::kValue, value != otherwise, line);
  return value;
}

float OpContext::Float(const char* name, float otherwise, int line) const {
  const onnx::AttributeProto* a = Find(name);
  const float value = a != nullptr && a->has_f() ? a->f() : otherwise;
  Note(name, AttributeRead::kValue, value != otherwise, line);
  return value;
}

std::string OpContext::String(const char* name, const char* otherwise, int line) const {
  const onnx::AttributeProto* a = Find(name);
  std::string value = a != nullptr && a->has_s() ? a->s() : otherwise;
  Note(name, AttributeRead::kValue, value != otherwise, line);
  return value;
}

std::vector<int64_t> OpContext::Ints(const char* name, int64_t each, int line) const {
  const onnx::AttributeProto* a = Find(name);
  std::vector<int64_t> values;
  if (a != nullptr) values = {a->ints().begin(), a->ints().end()};
  const bool is_other =
      std::any_of(values.begin(), values.end(), [each](int64_t value) { return value != each; });
  Note(name, AttributeRead::kValue, is_other, line);
  return values;
}

std::vector<float> OpContext::Floats(const char* name, int line) const {
  const onnx::AttributeProto* a = Find(name);
  Note(name, AttributeRead::kValue, a != nullptr && a->floats_size() != 0, line);
  if (a == nullptr) return {};
  return {a->floats().begin(), a->floats().end()};
}

std::vector<std::string> OpContext::Strings(const char* name, int line) const {
  const onnx::AttributeProto* a = Find(name);
  Note(name, AttributeRead::kValue, a != nullptr && a->strings_size() != 0, line);
  if (a == nullptr) return {};
  return {a->strings().begin(), a->strings().end()};
}

Result<NodeId> OpContext::Tensor(const onnx::TensorProto& tensor) const {
  RONDO_ASSIGN_OR_RETURN(onnx::TensorValue value, host.LoadTensor(tensor));
  auto data = std::make_shared<ir::ConstantData>();
  data->dtype = value.dtype;
  data->shape = value.shape;
  data->bytes = {value.bytes.data(), value.bytes.size()};
  data->keep = value.owner;
  data->name = tensor.name();
  return b.Constant(data);
}

// A tensor whose dims are symbolic has no known elements, even if all elements are equal.
static Status RequireKnownDims(const OpContext& c, int i) {
  const ir::Dims dims = c.SizesOf(i);
  if (std::all_of(dims.begin(), dims.end(), [](const ir::Size& dim) { return dim.known(); }))
    return Status::Ok();
  return Status::Error(Code::kUnsupported, "input %d: how long it is, only a run knows", i);
}

Result<Data> OpContext::Known(NodeId node) const {
  Result<Data> data = EvaluateConstant(b.graph(), node);
  if (data.ok()) return data;
  const std::vector<std::string> inputs = InputsBehind(b.graph(), node);
  host.MustKnow(inputs);
  if (inputs.empty()) return data;
  std::string list;
  for (const std::string& name : inputs) list += (list.empty() ? "\"" : "\", \"") + name.substr(0, 100);
  return Status::Error(
      Code::kUnsupported,
      "its value must be known when the model is compiled, but depends on the model's inputs %s\": "
      "give them values (--bind %.100s=VALUE, or =FILE.npy)",
      list.c_str(), inputs[0].c_str());
}

Result<std::vector<int64_t>> OpContext::ConstantInts(int i) const {
  std::vector<int64_t> values;
  if (!Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
  if (IsFloat(dtype(i))) return Status::Error(Code::kCorrupt, "input %d must hold integers", i);
  if (b.sizes() != nullptr && b.sizes()->exact()) {
    if (const std::optional<ir::Dims> numbers = NumbersOf(i)) {
      for (const ir::Size& number : *numbers) values.push_back(number.extent());
      return values;
    }
  }
  RONDO_RETURN_IF_ERROR(RequireKnownDims(*this, i));
  auto data = Known(In(i));
  if (!data.ok()) return data.status().At("input %d", i);
  int64_t count = (*data)->shape.elements();
  for (int64_t e = 0; e < count; ++e) {
    values.push_back(scalar::Load<int64_t>((*data)->dtype, (*data)->bytes.data(), e));
  }
  return values;
}

Result<std::vector<double>> OpContext::ConstantFloats(int i) const {
  std::vector<double> values;
  if (!Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
  RONDO_RETURN_IF_ERROR(RequireKnownDims(*this, i));
  auto data = Known(In(i));
  if (!data.ok()) return data.status().At("input %d", i);
  int64_t count = (*data)->shape.elements();
  for (int64_t e = 0; e < count; ++e) {
    values.push_back(scalar::Load<double>((*data)->dtype, (*data)->bytes.data(), e));
  }
  return values;
}

std::optional<ir::Dims> OpContext::NumbersOf(int i) const {
  std::optional<ir::Dims> numbers = Has(i) ? b.Numbers(In(i)) : std::nullopt;
  const auto unknown = [](const ir::Size& number) { return number.unknown(); };
  if (numbers && std::any_of(numbers->begin(), numbers->end(), unknown)) return std::nullopt;
  return numbers;
}

bool OpContext::DataDecide(int i) const { return !NumbersOf(i) && !EvaluateConstant(b.graph(), In(i)).ok(); }

Result<ir::Dims> OpContext::Sizes(int i) {
  if (std::optional<ir::Dims> numbers = NumbersOf(i); numbers && !b.sizes()->exact())
    return std::move(*numbers);
  const Result<std::vector<int64_t>> values = ConstantInts(i);
  if (values.ok()) return ir::Dims(values->begin(), values->end());
  SizesOfData* names = Has(i) && !IsFloat(dtype(i)) ? host.NameSizes() : nullptr;
  return names != nullptr ? names->Numbers(*this, i) : values.status();
}

Result<std::vector<int64_t>> OpContext::IntsFrom(int i, const char* attribute, bool* given, int line) const {
  *given = true;
  if (Has(i)) return ConstantInts(i);
  if (attribute != nullptr && HasAttribute(attribute, line)) return Ints(attribute, 0, line);
  *given = false;
  return std::vector<int64_t>();
}

Result<int> OpContext::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    return Status::Error(Code::kCorrupt, "axis %lld is out of range for %d dimensions",
                         static_cast<long long>(axis), rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int>> OpContext::Axes(const std::vector<int64_t>& axes, int rank) const {
  std::vector<int> out;
  for (int64_t axis : axes) {
    RONDO_ASSIGN_OR_RETURN(int a, Axis(axis, rank));
    out.push_back(a);
  }
  std::sort(out.begin(), out.end());
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i] == out[i - 1]) return Status::Error(Code::kCorrupt, "axis %d is named twice", out[i]);
  }
  return out;
}

Result<Shape> OpContext::MakeShape(const std::vector<int64_t>& dims) const {
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return Status::Error(Code::kUnsupported,
                         "a tensor of %zu dimensions; the limit is %d: join neighbours before the "
                         "export (Reshape)",
                         dims.size(), kMaxRank);
  }
  Shape shape;
  int64_t elements = 1;
  for (int64_t d : dims) {
    if (d < 0) return Status::Error(Code::kCorrupt, "an extent of %lld", static_cast<long long>(d));
    if (__builtin_mul_overflow(elements, d == 0 ? 1 : d, &elements) || elements > kMaxElements) {
      return Status::Error(Code::kUnsupported, "a tensor of more than %lld elements",
                           static_cast<long long>(kMaxElements));
    }
    shape.dims[shape.rank++] = d;
  }
  return shape;
}

Result<Shape> OpContext::ExtentsOf(const ir::Dims& dims) const {
  std::vector<int64_t> extents;
  for (const ir::Size& dim : dims) extents.push_back(dim.extent());
  return MakeShape(extents);
}

Result<Shape> OpContext::Broadcast(const Shape& a, const Shape& c) const {
  Shape out;
  if (!ir::BroadcastShapes(a, c, &out)) {
    return Status::Error(Code::kCorrupt, "shapes %s and %s do not broadcast", Text(a).c_str(),
                         Text(c).c_str());
  }
  return MakeShape({out.begin(), out.end()});
}

Status OpContext::RequireFloat(int i) const {
  if (IsFloat(dtype(i))) return Status::Ok();
  return Status::Error(Code::kUnsupported, "input %d of type %s; a float type is needed", i, Name(dtype(i)));
}

Status OpContext::RequireInteger(int i) const {
  if (!IsFloat(dtype(i)) && dtype(i) != DType::kBool) return Status::Ok();
  return Status::Error(Code::kUnsupported, "input %d of type %s; an integer type is needed", i,
                       Name(dtype(i)));
}

Status OpContext::RequireSameType(int i, int j) const {
  if (dtype(i) == dtype(j)) return Status::Ok();
  return Status::Error(Code::kCorrupt, "inputs %d and %d have types %s and %s", i, j, Name(dtype(i)),
                       Name(dtype(j)));
}

Status OpContext::RequireFloats(int i, int j) const {
  RONDO_RETURN_IF_ERROR(RequireFloat(i));
  return RequireSameType(i, j);
}

Status OpContext::RequireRank(int i, int least, int most) const {
  if (rank(i) >= least && rank(i) <= most) return Status::Ok();
  return Status::Error(Code::kUnsupported, "input %d has shape %s; %d to %d dimensions are needed", i,
                       Text(shape(i)).c_str(), least, most);
}

}  // namespace rondo::importer
