// Rematerialise: small, cheap values with several readers are recomputed by each small reader.
//
// A node is computed in one kernel, so at least one of two readers waits for another kernel first. In a
// decoder step, positions are one number for each text: the angles and numbers of keys derived from them
// would be a chain of kernels with next to no work.
#include <algorithm>
#include <unordered_map>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

constexpr int64_t kSmall = 2048;  // limit of a node that recomputes
constexpr int kMostNodes = 8;     // limit for one copy

bool IsQuick(TapeOp op) {
  constexpr TapeOp kQuick[] = {TapeOp::kAdd,  TapeOp::kSub, TapeOp::kMul,    TapeOp::kNeg,
                               TapeOp::kAbs,  TapeOp::kMin, TapeOp::kMax,    TapeOp::kCast,
                               TapeOp::kLess, TapeOp::kNot, TapeOp::kSelect, TapeOp::kLessEqual,
                               TapeOp::kEqual};
  return std::find(std::begin(kQuick), std::end(kQuick), op) != std::end(kQuick);
}

class Copies {
 public:
  explicit Copies(Graph* graph) : g_(*graph), kept_(static_cast<size_t>(graph->size()), false) {
    // Values that are updated in place keep their known readers, which run before the update.
    for (const ir::StatePair& pair : g_.states) kept_[g_.inputs[static_cast<size_t>(pair.input)].node] = true;
    for (const ir::Donation& donation : g_.donations)
      kept_[g_.inputs[static_cast<size_t>(donation.input)].node] = true;
  }

  // Lets `id`, if it is small, recompute inputs with other readers. Returns the number of inputs.
  int64_t Give(NodeId id) {
    if (!IsSmallMap(id)) return 0;
    int64_t given = 0;
    std::unordered_map<NodeId, NodeId> copies;
    for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
      const NodeId base = g_.BaseOf(g_.node(id).inputs[k]);
      int nodes = 0;
      if (g_.node(base).op != Op::kPointwise || !IsShared(base) || !IsCopied(base, &nodes)) continue;
      g_.SetInput(id, k, Copy(g_.node(id).inputs[k], &copies));
      ++given;
    }
    return given;
  }

 private:
  bool IsSmallMap(NodeId id) const {
    const Node& node = g_.node(id);
    const bool bound = std::any_of(node.annotations.begin(), node.annotations.end(),
                                   [](const auto& said) { return said.first != "label"; });
    return node.op == Op::kPointwise && node.shape.elements() <= kSmall && !bound &&
           node.weak_after.empty() && node.strong_after.empty();
  }
  // Whether it has other readers, through views or not.
  bool IsShared(NodeId base) const {
    int readers = 0;
    const auto count = [&](NodeId user) { readers += g_.node(user).op != Op::kView; };
    for (NodeId user : g_.UsersOf(base)) {
      count(user);
      if (g_.node(user).op == Op::kView) {
        for (NodeId behind : g_.UsersOf(user)) count(behind);
      }
    }
    return readers > 1 || g_.IsOutput(base);
  }
  // Whether it is cheap to compute from inputs and constants alone.
  bool IsCopied(NodeId base, int* nodes) const {
    const Node& node = g_.node(base);
    if (node.op == Op::kConstant) return true;
    if (node.op == Op::kInput) return !kept_[base];
    if (!IsSmallMap(base) || !IsQuick(node.As<ir::PointwiseAttrs>().op) || ++*nodes > kMostNodes)
      return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](NodeId input) { return IsCopied(g_.BaseOf(input), nodes); });
  }
  NodeId Copy(NodeId shown, std::unordered_map<NodeId, NodeId>* copies) {
    const NodeId base = g_.BaseOf(shown);
    if (g_.node(base).op != Op::kPointwise) return shown;
    if (copies->count(base) == 0) {
      std::vector<NodeId> inputs = g_.node(base).inputs;
      for (NodeId& input : inputs) input = Copy(input, copies);
      ir::Builder b = BuilderLike(&g_, base);
      const ir::PointwiseAttrs attrs = g_.node(base).As<ir::PointwiseAttrs>();
      (*copies)[base] = b.Pointwise(attrs, g_.node(base).dtype, inputs);
    }
    const NodeId made = copies->at(base);
    return shown == base ? made : BuilderLike(&g_, base).ViewNode(made, g_.ViewOf(shown));
  }

  Graph& g_;
  std::vector<bool> kept_;  // by node
};

}  // namespace

Result<PassResult> Rematerialise(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  Copies copies(graph);
  std::vector<NodeId> order = graph->TopologicalOrder();
  std::reverse(order.begin(), order.end());  // copies for a reader may leave an input with one reader less
  for (NodeId id : order) result.changes += copies.Give(id);
  Tidy(graph);
  result.text = Count(result.changes, "small input") + " computed by who reads it";
  return result;
}

}  // namespace rondo::passes
