#include "compiler/import/select_by_text_length.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "compiler/ir/walk.h"

namespace rondo::importer {
namespace {

using ir::Builder;
using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

class Chooser {
 public:
  Chooser(Builder* builder, NodeId cached, int64_t rows)
      : b_(*builder), g_(builder->graph()), cached_(cached), rows_(rows) {}

  void Run(const std::vector<ElementOf>& totals) {
    for (const ElementOf& total : totals) {
      if (g_.node(total.node).shape.elements() == 1) Start(total.node, total.slope);
      for (const NodeId user : g_.UsersOf(total.node)) {
        const Node& n = g_.node(user);
        if (n.op == Op::kView && n.shape.elements() == 1 &&
            ir::ResolveAll(n.As<ir::ViewAttrs>().view)[0] == total.element)
          Start(user, total.slope);
      }
    }
    const NodeId end = g_.size();
    for (NodeId id = 0; id < end; ++id) {
      if (IsGreatestPosition(g_.node(id))) Start(id, 1);
    }
    if (starts_.empty() || HasPort()) return;
    // In the order of ids, inputs come first, except for nodes that replaced others.
    std::vector<NodeId> work;
    for (const auto& [id, slope] : starts_) work.push_back(id);
    while (!work.empty()) {
      const NodeId id = work.back();
      work.pop_back();
      for (const NodeId user : g_.UsersOf(id)) {
        if (!IsOne(user) || g_.IsOutput(user)) continue;
        const Node& n = g_.node(user);
        if (n.dtype == DType::kBool ? ChoosesFloats(user, 0) : IsOfLength(user) && Bends(n)) {
          chosen_.insert(user);
        } else if (n.dtype != DType::kBool && IsOfLength(user) && of_length_.insert(user).second) {
          work.push_back(user);
        }
      }
    }
    for (const NodeId id : chosen_) g_.Replace(id, Ahead(id));
    if (text_length_ != kNoNode) g_.outputs.push_back({std::string(kTextLength) + "_out", text_length_});
  }

 private:
  void Start(NodeId id, double slope) {
    if (g_.node(id).dead) return;
    starts_.emplace(id, slope);
    of_length_.insert(id);
  }

  bool HasPort() const {
    const std::string out = std::string(kTextLength) + "_out";
    return std::any_of(g_.inputs.begin(), g_.inputs.end(),
                       [](const auto& i) { return i.name == kTextLength; }) ||
           std::any_of(g_.outputs.begin(), g_.outputs.end(), [&](const auto& o) { return o.name == out; });
  }

  // Whether the node is a view or pointwise node of one element.
  bool IsOne(NodeId id) const {
    const Node& n = g_.node(id);
    return !n.dead && n.shape.elements() == 1 && (n.op == Op::kView || n.op == Op::kPointwise);
  }
  // Whether its other inputs are constants: `total + 1`, not `total - cached`.
  bool IsOfLength(NodeId id) const {
    const std::vector<NodeId>& inputs = g_.node(id).inputs;
    return std::all_of(inputs.begin(), inputs.end(), [&](NodeId in) {
      return of_length_.count(in) != 0 || g_.node(g_.BaseOf(in)).op == Op::kConstant;
    });
  }

  // Whether the node turns a length into something that is no position: a base of angles, a factor of scores.
  // A value that merely grows with the length may be the last position.
  static bool Bends(const Node& n) {
    if (n.op != Op::kPointwise || !IsFloat(n.dtype)) return false;
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    return op == TapeOp::kPow || op == TapeOp::kLog || op == TapeOp::kSqrt || op == TapeOp::kExp ||
           op == TapeOp::kMax;
  }

  // Whether the node is the maximum of an integer input with "position" in its name.
  bool IsGreatestPosition(const Node& n) const {
    if (n.dead || n.op != Op::kReduce || n.shape.elements() != 1 || IsFloat(n.dtype)) return false;
    if (n.As<ir::ReduceAttrs>().kind != ir::ReduceKind::kMax) return false;
    NodeId from = g_.BaseOf(n.inputs[0]);
    while (g_.node(from).op == Op::kPointwise && g_.node(from).inputs.size() == 1 &&
           !IsFloat(g_.node(from).dtype))
      from = g_.BaseOf(g_.node(from).inputs[0]);
    const Node& input = g_.node(from);
    return input.op == Op::kInput && !IsFloat(input.dtype) &&
           input.name.find("position") != std::string::npos;
  }

  // Whether the bool `id` is used only to select floats, or becomes a float.
  bool ChoosesFloats(NodeId id, int depth) {
    constexpr int kMostDepth = 32;
    const std::vector<NodeId> users = g_.UsersOf(id);
    if (depth > kMostDepth || g_.IsOutput(id) || users.empty()) return false;
    return std::all_of(users.begin(), users.end(), [&](NodeId user) {
      const Node& n = g_.node(user);
      if (n.dead) return true;
      if (n.op == Op::kView) return ChoosesFloats(user, depth + 1);
      if (n.op != Op::kPointwise) return false;
      if (n.dtype == DType::kBool) return ChoosesFloats(user, depth + 1);
      return IsFloat(n.dtype);
    });
  }

  // The value of `id` as if the run ended where the text does.
  NodeId Ahead(NodeId id) {
    const auto known = ahead_.find(id);
    if (known != ahead_.end()) return known->second;
    NodeId made = id;
    if (const auto start = starts_.find(id); start != starts_.end()) {
      const DType type = b_.dtype(id), wide = IsFloat(type) ? DType::kF32 : DType::kI64;
      const NodeId behind =
          b_.BinaryScalar(TapeOp::kMul, b_.Cast(b_.Reshape(Behind(), Shape{}), wide), start->second);
      made = b_.Cast(b_.Add(b_.Cast(id, wide), b_.Expand(behind, b_.shape(id))), type);
    } else if (IsOne(id) && (of_length_.count(id) != 0 || chosen_.count(id) != 0)) {
      const Node n = g_.node(id);  // a copy: the graph grows
      if (n.op == Op::kView) {
        made = b_.Reshape(Ahead(n.inputs[0]), n.shape);
      } else {
        std::vector<NodeId> inputs;
        for (const NodeId in : n.inputs) inputs.push_back(b_.Reshape(Ahead(in), n.shape));
        made = b_.Pointwise(n.As<ir::PointwiseAttrs>(), n.dtype, inputs);
      }
    }
    ahead_.emplace(id, made);
    return made;
  }

  // The distance from the run's end to the text's end, i64 []. It is negative if other tokens follow a
  // prompt's last tokens in the run.
  NodeId Behind() {
    if (behind_ != kNoNode) return behind_;
    text_length_ = b_.Input(kTextLength, DType::kI64, {1});
    const NodeId length = b_.Reshape(text_length_, Shape{});
    const NodeId end = b_.BinaryScalar(TapeOp::kAdd, cached_, static_cast<double>(rows_));
    behind_ =
        b_.Select(b_.Binary(TapeOp::kLess, cached_, length), b_.Sub(length, end), b_.Scalar(DType::kI64, 0));
    return behind_;
  }

  Builder& b_;
  Graph& g_;
  const NodeId cached_;
  const int64_t rows_;
  std::map<NodeId, double> starts_;      // positions, with their slopes
  std::set<NodeId> of_length_, chosen_;  // numbers computed from them; choices by those
  std::map<NodeId, NodeId> ahead_;
  NodeId behind_ = kNoNode, text_length_ = kNoNode;
};

}  // namespace

void SelectByTextLength(Builder* builder, NodeId cached, int64_t rows, const std::vector<ElementOf>& totals) {
  Chooser(builder, cached, rows).Run(totals);
}

}  // namespace rondo::importer
