#include "compiler/import/importer.h"

#include <algorithm>
#include <cmath>

#include "compiler/import/data_sizes.h"
#include "compiler/import/device_hints.h"
#include "compiler/import/executable_nodes.h"
#include "compiler/import/import_call.h"
#include "compiler/import/kept_regions.h"
#include "compiler/import/place_by_place.h"
#include "compiler/import/sizes_of_data.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {
namespace {

// A name for a function that no other (domain, name, overload) shares.
std::string FunctionKey(const std::string& domain, const std::string& name, const std::string& overload) {
  return (domain == "ai.onnx" ? "" : domain) + '\n' + name + '\n' + overload;
}

// Whether an annotation that names the node itself says where it runs (`stream`, `graph`, `fuse`).
bool IsPlaced(const Statements& bindings) {
  return std::any_of(bindings.begin(), bindings.end(), [](const auto& entry) {
    const Statement& said = entry.second;
    return Binds(entry.first, said.value) && entry.first != "keep" && entry.first != kRegionKey &&
           !IsChoice(entry.first) && IsNamed(said);
  });
}

// Whether a kernel computes one of the nodes from `first` on.
bool RunsFrom(const ir::Graph& graph, NodeId first) {
  for (NodeId id = first; id < graph.size(); ++id) {
    if (!graph.node(id).dead && IsExecutable(graph.node(id))) return true;
  }
  return false;
}

}  // namespace

std::map<std::string, int64_t> Opsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, int64_t> out;
  for (const auto& opset : imports) out[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
  return out;
}

int64_t OpsetFor(const Frame& frame, const std::string& domain) {
  auto found = frame.opsets.find(domain == "ai.onnx" ? "" : domain);
  return found == frame.opsets.end() ? 1 : found->second;
}

std::string NodeName(const onnx::NodeProto& node) {
  if (!node.name().empty() || node.output_size() == 0) return node.name();
  return node.output(0);
}

Importer::Importer(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                   ImportReport* report, ir::Graph* graph)
    : model_(model),
      options_(options),
      report_(report),
      builder_(graph),
      control_(model->proto(), options.annotations),
      allowance_(model->file_bytes(), options.max_nodes, graph) {
  for (const onnx::FunctionProto& f : model->proto().functions()) {
    functions_[FunctionKey(f.domain(), f.name(), f.overload())] = &f;
  }
}

void Importer::Follow(ir::Sizes* sizes, std::function<void(ir::Builder*)> name_sizes) {
  builder_.Follow(sizes);
  name_sizes_ = std::move(name_sizes);
}

const OpInfo* Importer::FindCustom(const onnx::NodeProto& node, const Frame& frame) const {
  if (options_.ops == nullptr || node.domain().empty()) return nullptr;
  const int64_t opset = std::clamp<int64_t>(OpsetFor(frame, node.domain()), 0, UINT32_MAX);
  return options_.ops->Find(node.domain(), node.op_type(), static_cast<uint32_t>(opset));
}

Status Importer::Run() {
  const onnx::GraphProto& graph = model_->proto().graph();
  Frame frame;
  frame.opsets = Opsets(model_->proto().opset_import());
  if (frame.opsets.count("") != 0) RONDO_RETURN_IF_ERROR(CheckOpset(OpsetFor(frame, "")));
  Scope scope;
  RONDO_RETURN_IF_ERROR(AddInitializers(graph, &scope));
  RONDO_RETURN_IF_ERROR(AddInputs(&scope));
  if (name_sizes_) name_sizes_(&builder_);
  Names wanted;
  for (const onnx::ValueInfoProto& output : graph.output()) wanted.insert(output.name());
  const std::vector<bool> needed = NeededWithOrder(graph.node(), wanted, frame);
  report_->skipped_nodes = std::count(needed.begin(), needed.end(), false);
  RONDO_RETURN_IF_ERROR(ListUnknown(graph.node(), needed, frame));
  RONDO_RETURN_IF_ERROR(ImportNodes(graph.node(), needed, &scope, frame));
  RONDO_RETURN_IF_ERROR(AddOutputs(&scope));
  report_->annotated = control_.used();
  RONDO_RETURN_IF_ERROR(control_.AddTo(&builder_.graph()));
  RONDO_RETURN_IF_ERROR(KeepRegions(&builder_.graph()));
  return options_.shared_over > 1 ? ReadHints(scope) : Status::Ok();
}

Status Importer::ReadHints(const Scope& scope) {
  Shape shape;
  const auto shape_of = [&](const std::string& name) -> const Shape* {
    if (const auto value = scope.values.find(name); value != scope.values.end()) {
      return value->second.is_sequence ? nullptr : &builder_.shape(value->second.node);
    }
    const auto weight = scope.initializers.find(name);
    if (weight == scope.initializers.end() || weight->second->dims_size() > kMaxRank) return nullptr;
    shape = Shape();
    for (int64_t dim : weight->second->dims()) shape.dims[shape.rank++] = dim;
    return &shape;
  };
  RONDO_ASSIGN_OR_RETURN(report_->hints, ReadDeviceHints(model_->proto(), options_.shared_over, shape_of));
  return Status::Ok();
}

const onnx::FunctionProto* Importer::FindFunction(const onnx::NodeProto& node) const {
  auto found = functions_.find(FunctionKey(node.domain(), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

Result<onnx::TensorValue> Importer::LoadTensor(const onnx::TensorProto& tensor) {
  RONDO_ASSIGN_OR_RETURN(onnx::TensorValue value, model_->Load(tensor, options_.allow_synthetic));
  allowance_.Load(value);
  return value;
}

Result<Value> Importer::Lookup(const std::string& name, Scope* scope) {
  for (Scope* s = scope; s != nullptr; s = s->parent) {
    if (auto found = s->values.find(name); found != s->values.end()) return found->second;
    auto initializer = s->initializers.find(name);
    if (initializer == s->initializers.end()) continue;
    RONDO_ASSIGN_OR_RETURN(s->values[name], LoadInitializer(*initializer->second));
    return s->values[name];
  }
  return Status::Error(Code::kCorrupt,
                       "value \"%.200s\" is given by no input, initializer or node, or by one that needs "
                       "this node's own result; "
                       "the file is damaged: export the model again",
                       name.c_str());
}

Result<std::vector<Value>> Importer::GatherInputs(const onnx::NodeProto& node, Scope* scope) {
  std::vector<Value> inputs(static_cast<size_t>(node.input_size()));
  for (int i = 0; i < node.input_size(); ++i) {
    if (node.input(i).empty()) continue;
    auto value = Lookup(node.input(i), scope);
    if (!value.ok()) return value.status().At("input %d", i);
    inputs[static_cast<size_t>(i)] = value.Take();
  }
  return inputs;
}

Status Importer::ImportNodes(const Nodes& nodes, const std::vector<bool>& needed, Scope* scope,
                             const Frame& frame) {
  for (int i = 0; i < nodes.size(); ++i) {
    const onnx::NodeProto& node = nodes.Get(i);
    if (frame.depth == 0) allowance_.Begin(node);
    // Every IR node that the node becomes carries its full name.
    allowance_.Take(static_cast<int64_t>(frame.prefix.size() + NodeName(node).size()));
    RONDO_RETURN_IF_ERROR(allowance_.Check());
    control_.Exists(node, frame.prefix);
    RONDO_ASSIGN_OR_RETURN(const Statements bindings, Bind(node, frame, needed[static_cast<size_t>(i)]));
    if (!needed[static_cast<size_t>(i)]) {
      if (frame.prefix.empty()) report_->unneeded.push_back(node.op_type() + " \"" + NodeName(node) + "\"");
      continue;
    }
    ++report_->onnx_nodes;
    const NodeId first = builder_.graph().size();
    Status status = ImportNode(node, scope, frame, bindings);
    if (status.ok()) NoteOrder(node, first, *scope, frame);
    if (!status.ok()) {
      std::string name = frame.prefix + NodeName(node);
      // The status already names an inner node.
      if (status.source_node()[0] != '\0') return status;
      return status.At("%.100s \"%.300s\"", node.op_type().c_str(), name.c_str())
          .FromNode(node.op_type() + " \"" + name + "\"");
    }
    if (!frame.prefix.empty()) continue;
    for (const std::string& value : node.output()) {
      if (!value.empty()) report_->values.push_back({value, node.op_type() + " \"" + NodeName(node) + "\""});
    }
  }
  return allowance_.Check();
}

// Records the nodes that stand for this one, for annotations that order nodes.
void Importer::NoteOrder(const onnx::NodeProto& node, NodeId first, const Scope& scope, const Frame& frame) {
  if (!control_.any()) return;
  std::vector<NodeId> outputs;
  for (const std::string& name : node.output()) {
    const auto value = scope.values.find(name);
    if (value == scope.values.end()) continue;
    if (value->second.node != kNoNode) outputs.push_back(value->second.node);
    outputs.insert(outputs.end(), value->second.sequence.begin(), value->second.sequence.end());
  }
  control_.Imported(frame.prefix + NodeName(node), {first, builder_.graph().size()}, outputs, loop_);
}

// The annotations that bind the node. They are recorded, so that they can be checked later.
Result<Statements> Importer::Bind(const onnx::NodeProto& node, const Frame& frame, bool needed) {
  const NamedNode named = {node, frame.prefix + NodeName(node), frame.prefix};
  RONDO_ASSIGN_OR_RETURN(Statements bindings,
                         BindingsOf(named, bound_nodes_ + 1, options_.annotations, &frame.bindings));
  if (bindings.empty()) return bindings;
  ++bound_nodes_;
  const std::string source = node.op_type() + " \"" + named.name + "\"";
  // An annotation of a call is looked for in the called nodes.
  const bool calls = needed && FindCustom(node, frame) == nullptr && FindFunction(node) != nullptr;
  for (const auto& [key, said] : bindings) {
    const auto add = [&](std::set<std::string>* sources) {
      sources->insert(source);
      sources->insert(frame.sources.begin(), frame.sources.end());
    };
    std::string region;
    for (const Statement& one : said.nest) {
      region += (region.empty() ? "" : "/") + one.value;
      if (!calls) report_->bound.push_back({source, key, region, one.by, needed, one.owner});
    }
    if (key == kRegionKey) {
      add(&report_->sources_in[region]);
      continue;
    }
    if (!calls) report_->bound.push_back({source, key, said.value, said.by, needed, said.owner});
    if (key == "fuse") add(&report_->sources_of[said.owner]);
  }
  return bindings;
}

Status Importer::ImportNode(const onnx::NodeProto& node, Scope* scope, const Frame& frame,
                            const Statements& bindings) {
  must_know_.clear();
  const OpInfo* custom = FindCustom(node, frame);
  const onnx::FunctionProto* function = custom == nullptr ? FindFunction(node) : nullptr;
  if (function != nullptr) return CallFunction(*function, node, scope, frame, bindings);
  const OpRow* row = FindOp(node.domain(), node.op_type(), OpsetFor(frame, node.domain()));
  if (row == nullptr && custom == nullptr)
    return Status::Error(Code::kUnsupported, "the operator is not supported");
  AttributeMap attributes;
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.ref_attr_name().empty()) {
      attributes[a.name()] = &a;
    } else if (auto found = frame.attributes.find(a.ref_attr_name()); found != frame.attributes.end()) {
      attributes[a.name()] = found->second;
    }
  }
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> inputs, GatherInputs(node, scope));

  std::vector<std::string> sources = {node.op_type() + " \"" + frame.prefix + NodeName(node) + "\""};
  sources.insert(sources.end(), frame.sources.begin(), frame.sources.end());
  builder_.SetSources(std::move(sources));
  std::map<std::string, std::string> annotations = AnnotationsFor(bindings);
  annotations.merge(OrdersOf({node, frame.prefix + NodeName(node), frame.prefix}, options_.annotations));
  builder_.SetAnnotations(std::move(annotations));
  const auto data_sized =
      std::find_if(inputs.begin(), inputs.end(), [](const Value& v) { return v.data_size != nullptr; });
  if (custom != nullptr && data_sized != inputs.end())
    return RefuseDataSize(*data_sized, "a custom op's input has it");
  Scope* outer_scope = scope_;
  const Frame* outer_frame = frame_;
  const onnx::NodeProto* outer_node = node_;
  const Statements* outer_bindings = bindings_;
  bindings_ = &bindings;
  node_ = &node;
  scope_ = scope;
  frame_ = &frame;
  const NodeId first = builder_.graph().size();
  OpContext c(&builder_, this, node, OpsetFor(frame, node.domain()), std::move(attributes),
              std::move(inputs));
  Status status = custom != nullptr
                      ? ImportCall(*custom, node.op_type() + " \"" + frame.prefix + NodeName(node) + "\"",
                                   options_.calls_outside_graphs, c)
                      : CallHandler(*row, c);
  scope_ = outer_scope;
  frame_ = outer_frame;
  node_ = outer_node;
  bindings_ = outer_bindings;
  RONDO_RETURN_IF_ERROR(status);
  if (names_ != nullptr) RONDO_RETURN_IF_ERROR(HasRoom(first));
  // A node that runs no kernel (a view or an identity) becomes a copy if IsPlaced.
  const bool computes = RunsFrom(builder_.graph(), first), copies = IsPlaced(bindings) && !computes;

  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    Value value = c.outputs()[static_cast<size_t>(i)];
    const DataSizeFact* fact = value.data_size.get();
    if (names_ != nullptr && loop_.empty() && fact != nullptr && fact->dim != nullptr &&
        fact->dim->counts == kNoNode)
      value = names_->RealPlaces(builder_, value);
    if (!value.is_sequence) {
      if (value.node == kNoNode) return Status::Error(Code::kUnsupported, "output %d is not supported", i);
      value.node = NumbersAsSizes(Normalise(value.node));
      if (copies && value.bits == 0 && value.data_size == nullptr)
        value.node = builder_.Pointwise({TapeOp::kCast, 0}, builder_.dtype(value.node), {value.node});
    }
    RONDO_RETURN_IF_ERROR(Assert(node, i, frame, bindings, computes || copies, &value));
    if (!value.is_sequence) {
      std::string& own = builder_.graph().node(value.node).name;
      if (own.empty()) own = name;
    }
    allowance_.Take(static_cast<int64_t>(name.size() + value.sequence.size() * sizeof(NodeId)));
    if (!scope->values.emplace(name, std::move(value)).second) {
      return Status::Error(Code::kCorrupt, "value \"%.200s\" is defined twice", name.c_str());
    }
  }
  return Status::Ok();
}

Status Importer::CallHandler(const OpRow& row, OpContext& c) {
  for (int i = 0; i < row.least_inputs; ++i) {
    bool sequence = row.takes_sequences && i < c.num_inputs() && c.InValue(i).is_sequence;
    if (!sequence && !c.Has(i)) {
      return Status::Error(Code::kCorrupt, "input %d is missing", i);
    }
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.InValue(i).bits == 0 || row.takes_narrow) continue;
    if (c.InValue(i).narrow != nullptr && c.InValue(i).narrow->is_power) {
      return Status::Error(Code::kUnsupported,
                           "input %d is of FLOAT8E8M0, which rondo knows as scales (DequantizeLinear, "
                           "QuantizeLinear, QMoE): put a Cast between",
                           i);
    }
    return Status::Error(Code::kUnsupported,
                         "input %d is a weight of %d bits, which rondo knows only where it is dequantised "
                         "(DequantizeLinear, GatherBlockQuantized): put one of them between",
                         i, c.InValue(i).bits);
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.InValue(i).data_size != nullptr) return CallWithDataSizes(row, c);
  }
  return row.handler(c);
}

void Importer::Remark(std::string text) {
  std::vector<std::string>& said = report_->remarks;
  if (std::find(said.begin(), said.end(), text) == said.end()) said.push_back(std::move(text));
}

int64_t Importer::RowsAdded(NodeId cache) {
  const ir::Graph& graph = builder_.graph();
  NodeId base = graph.BaseOf(cache);
  for (NodeId from = OperandOf(graph, base); from != kNoNode; from = OperandOf(graph, base))
    base = graph.BaseOf(from);
  const ir::Node& n = graph.node(base);
  const bool grows = n.op == ir::Op::kInput && options_.growing.count(n.name) != 0;
  return grows ? options_.rows_of_run : 0;
}

int64_t Importer::BoundOf(const onnx::NodeProto& node) {
  std::vector<std::string> names = {node.name()};
  names.insert(names.end(), node.output().begin(), node.output().end());
  for (const std::string& name : names) {
    const auto found = options_.bounds.find(name);
    if (name.empty() || found == options_.bounds.end()) continue;
    report_->bounds_used.insert(name);
    return found->second;
  }
  return 0;
}

// A loop's body is followed separately, without names.
SizesOfData* Importer::NameSizes() {
  data_decide_ = true;
  return loop_.empty() ? names_ : nullptr;
}

// An error if a size that data decide can exceed its room in one of the nodes from `first` on.
Status Importer::HasRoom(NodeId first) {
  for (NodeId id = first; id < builder_.graph().size(); ++id) {
    for (const ir::Size& size : builder_.SizesOf(id)) {
      if (size.unknown() || size.most() <= size.extent()) continue;
      return Status::Error(
          Code::kUnsupported,
          "a length of %.200s, which data decide, may be more than the %lld that there would "
          "be room for: export the model with the length as an input",
          size.Text().c_str(), static_cast<long long>(size.extent()));
    }
  }
  return Status::Ok();
}

bool Importer::IsRotaryCache(const std::string& name) const {
  const onnx::GraphProto& graph = model_->proto().graph();
  for (const onnx::NodeProto& node : graph.node()) {
    const bool attends = node.op_type() == "GroupQueryAttention", turns = node.op_type() == "RotaryEmbedding";
    const int first = attends ? 7 : turns && node.domain() == "com.microsoft" ? 2 : node.input_size();
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i) == name && i != first && i != first + 1) return false;
    }
  }
  return std::none_of(graph.output().begin(), graph.output().end(),
                      [&](const onnx::ValueInfoProto& output) { return output.name() == name; });
}

// A tensor without elements becomes a constant.
NodeId Importer::Normalise(NodeId id) {
  if (builder_.shape(id).elements() != 0 || builder_.graph().IsConstant(id)) return id;
  return builder_.Constant(ir::ConstantData::Own(builder_.dtype(id), builder_.shape(id), {}));
}

// Integers that follow from sizes: constants if they are known, otherwise one node per size.
NodeId Importer::NumbersAsSizes(NodeId id) {
  const std::optional<ir::Dims> numbers = builder_.Numbers(id);
  if (!numbers || numbers->empty() || builder_.graph().IsConstant(builder_.graph().BaseOf(id))) return id;
  const DType dtype = builder_.dtype(id);
  const Shape shape = builder_.shape(id);
  if (std::all_of(numbers->begin(), numbers->end(), [](const ir::Size& x) { return x.known(); })) {
    std::vector<int64_t> values;
    for (const ir::Size& number : *numbers) values.push_back(*number.value());
    return IsFloat(dtype) ? builder_.Floats(dtype, shape, {values.begin(), values.end()})
                          : builder_.Ints(dtype, shape, values);
  }
  const ir::Size& number = (*numbers)[0];
  if (numbers->size() != 1 || number.unknown() || (dtype != DType::kI64 && dtype != DType::kI32)) return id;
  const bool as_it_is =
      builder_.sizes()->NodeOf(number) == kNoNode && !number.is_sum() && dtype == DType::kI64;
  if (as_it_is) builder_.sizes()->SetNode(number, builder_.Reshape(id, Shape{}));
  return builder_.Reshape(builder_.Cast(builder_.Number(number), dtype), shape);
}

Status Importer::CallFunction(const onnx::FunctionProto& function, const onnx::NodeProto& node, Scope* scope,
                              const Frame& frame, const Statements& bindings) {
  if (frame.depth >= kMaxCallDepth) {
    return Status::Error(Code::kUnsupported, "functions call one another more than %d deep", kMaxCallDepth);
  }
  if (node.input_size() > function.input_size()) {
    return Status::Error(Code::kCorrupt, "%d inputs for a function of %d", node.input_size(),
                         function.input_size());
  }
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> inputs, GatherInputs(node, scope));
  Scope inner_scope;
  for (int i = 0; i < function.input_size(); ++i) {
    bool given = i < node.input_size();
    inner_scope.values[function.input(i)] = given ? inputs[static_cast<size_t>(i)] : Value();
  }
  allowance_.Enter(function);
  RONDO_RETURN_IF_ERROR(allowance_.Check());
  Frame inner;
  inner.opsets = Opsets(function.opset_import());
  inner.depth = frame.depth + 1;
  inner.bindings = bindings;
  inner.prefix = frame.prefix + NodeName(node) + "/";
  inner.sources = frame.sources;
  inner.sources.insert(inner.sources.begin(), node.op_type() + " \"" + frame.prefix + NodeName(node) + "\"");
  for (const onnx::AttributeProto& a : function.attribute_proto()) inner.attributes[a.name()] = &a;
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.ref_attr_name().empty()) {
      inner.attributes[a.name()] = &a;
    } else if (auto found = frame.attributes.find(a.ref_attr_name()); found != frame.attributes.end()) {
      inner.attributes[a.name()] = found->second;
    }
  }
  Names wanted;
  for (int i = 0; i < node.output_size() && i < function.output_size(); ++i) {
    if (!node.output(i).empty()) wanted.insert(function.output(i));
  }
  RONDO_RETURN_IF_ERROR(
      ImportNodes(function.node(), NeededFor(function.node(), wanted, inner), &inner_scope, inner));
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    if (i >= function.output_size()) return Status::Error(Code::kCorrupt, "the function has no output %d", i);
    RONDO_ASSIGN_OR_RETURN(Value value, Lookup(function.output(i), &inner_scope));
    if (!scope->values.emplace(node.output(i), std::move(value)).second) {
      return Status::Error(Code::kCorrupt, "value \"%.200s\" is defined twice", node.output(i).c_str());
    }
  }
  return Status::Ok();
}

Result<std::vector<Value>> Importer::RunSubgraph(const onnx::GraphProto& graph,
                                                 const std::vector<Value>& inputs) {
  Frame frame = *frame_;
  if (++frame.depth >= kMaxCallDepth) {
    return Status::Error(Code::kUnsupported, "graphs lie within one another more than %d deep",
                         kMaxCallDepth);
  }
  frame.bindings = *bindings_;
  allowance_.Enter(graph);
  RONDO_RETURN_IF_ERROR(allowance_.Check());
  Scope scope;
  scope.parent = scope_;
  RONDO_RETURN_IF_ERROR(AddInitializers(graph, &scope));
  if (static_cast<size_t>(graph.input_size()) != inputs.size()) {
    return Status::Error(Code::kCorrupt, "a subgraph of %d inputs is given %zu", graph.input_size(),
                         inputs.size());
  }
  for (int i = 0; i < graph.input_size(); ++i) {
    scope.values[graph.input(i).name()] = inputs[static_cast<size_t>(i)];
  }
  Names wanted;
  for (const onnx::ValueInfoProto& output : graph.output()) wanted.insert(output.name());
  std::vector<bool> needed = NeededFor(graph.node(), wanted, frame);
  RONDO_RETURN_IF_ERROR(ListUnknown(graph.node(), needed, frame));
  std::vector<std::string> sources = builder_.sources();
  std::map<std::string, std::string> annotations = builder_.annotations();
  const std::string outer_loop = loop_;
  if (node_->op_type() != "If" && loop_.empty()) loop_ = frame.prefix + NodeName(*node_);
  const Status imported = ImportNodes(graph.node(), needed, &scope, frame);
  loop_ = outer_loop;
  RONDO_RETURN_IF_ERROR(imported);
  builder_.SetSources(std::move(sources));
  builder_.SetAnnotations(std::move(annotations));
  std::vector<Value> outputs;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    RONDO_ASSIGN_OR_RETURN(Value value, Lookup(output.name(), &scope));
    if (value.data_size != nullptr)
      return RefuseDataSize(value, "a subgraph's output \"" + output.name() + "\" has it");
    outputs.push_back(std::move(value));
  }
  return outputs;
}

}  // namespace rondo::importer
