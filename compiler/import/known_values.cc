// What import knows of a model's numbers before any run, told to who compares imports; and what it is asked
// to take for unknown.
#include "compiler/import/importer.h"

namespace rondo::importer {

// Adds the placeholder to the inputs of node `output` that are to be known in a run only.
Status Importer::HideKnown(const std::string& output, std::vector<Value>* inputs) {
  for (size_t i = 0; i < inputs->size() && !options_.known_in_run.empty(); ++i) {
    Value& value = (*inputs)[i];
    if (options_.known_in_run.count({output, static_cast<int>(i)}) == 0 || value.node == kNoNode) continue;
    if (!loop_.empty()) {
      return Status::Error(
          Code::kUnsupported,
          "in the body of a loop, it decides by a number that depends on how much is cached");
    }
    if (placeholder_ == kNoNode) placeholder_ = builder_.Input(kPlaceholder, DType::kI64, Shape{});
    const DType dtype = builder_.dtype(value.node);
    const NodeId zero = builder_.Cast(placeholder_, dtype);
    value.node = builder_.Binary(dtype == DType::kBool ? TapeOp::kBitOr : TapeOp::kAdd, value.node, zero);
  }
  return Status::Ok();
}

bool Importer::DependsOnInputs(NodeId id) {
  const ir::Graph& graph = builder_.graph();
  for (auto next = static_cast<NodeId>(of_inputs_.size()); next < graph.size(); ++next) {
    const ir::Node& node = graph.node(next);
    bool depends = node.op == ir::Op::kInput || node.op == ir::Op::kCall || node.op == ir::Op::kCollective;
    for (const NodeId input : node.inputs)
      depends = depends || input >= next || of_inputs_[static_cast<size_t>(input)];
    of_inputs_.push_back(depends);
  }
  return of_inputs_[static_cast<size_t>(id)];
}

KnownValue Importer::Known(const Value& value) {
  constexpr int64_t kMostBytes = 4 * ir::kFoldBytes;  // of what may be folded
  if (value.node == kNoNode) return {};
  KnownValue known{true, builder_.dtype(value.node), builder_.shape(value.node), nullptr};
  const ir::Node& base = builder_.graph().node(builder_.graph().BaseOf(value.node));
  const bool large = base.shape.elements() * ByteSize(base.dtype) > kMostBytes ||
                     known.shape.elements() * ByteSize(known.dtype) > kMostBytes;
  known.folded = base.op == ir::Op::kConstant;
  if (large || value.bits != 0) return known;
  if (auto data = EvaluateConstant(builder_.graph(), value.node); data.ok()) known.data = data.Take();
  return known;
}

// Of nodes whose results depend on no input, and are so small that they may decide something.
void Importer::NoteKnown(const std::string& output, const OpContext& c) {
  if (c.num_inputs() == 0 || c.num_outputs() == 0) return;
  const bool is_sequence = c.outputs()[0].is_sequence;
  const NodeId result = c.outputs()[0].node;
  if (!is_sequence && (result == kNoNode || DependsOnInputs(result))) return;
  KnownNode node{output, c.proto.op_type(), {}, is_sequence ? KnownValue() : Known(c.outputs()[0])};
  if (!is_sequence && node.result.data == nullptr) return;
  node.gives_others = c.num_outputs() > 1 && c.Wants(1);
  node.axis = c.Int("axis", 0);
  node.reverse = c.Int("reverse", 0) != 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const bool unread = c.InValue(i).is_sequence;
    const bool of_run = !unread && c.InValue(i).node != kNoNode && DependsOnInputs(c.InValue(i).node);
    node.inputs.push_back(unread || of_run ? KnownValue() : Known(c.InValue(i)));
  }
  report_->known_nodes.push_back(std::move(node));
}

}  // namespace rondo::importer
