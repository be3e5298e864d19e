// Rematerialise: small, cheap values with several readers are recomputed by each small reader.
//
// A node is computed in one kernel, so at least one of two readers waits for another kernel first. In a
// decoder step, positions are one number for each text: the angles and numbers of keys derived from them
// would be a chain of kernels with next to no work.
//
// So is what follows from a tensor's combined extremes (ir::CombinesIntoOne), such as its scale and zero
// point. Those are recomputed by whatever quantises the tensor as well, however large it is.
#include <algorithm>
#include <set>
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
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (ir::CombinesIntoOne(g_.node(id))) of_tensors_.insert(g_.BaseOf(g_.node(id).inputs[1]));
    }
    for (NodeId id : g_.TopologicalOrder()) {
      if (IsStepOfTensor(id)) of_tensors_.insert(id);
    }
  }

  // Lets `id` recompute inputs that others read as well: small ones if it is small, and numbers that follow
  // from extremes if it is such a number or quantises. Returns the number of inputs.
  int64_t Give(NodeId id) {
    const bool small = IsSmallMap(id), by_range = IsOfExtremes(id) || IsStepOfTensor(id);
    int64_t given = 0;
    std::unordered_map<NodeId, NodeId> copies;
    for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
      const NodeId base = g_.BaseOf(g_.node(id).inputs[k]);
      int nodes = 0;
      if (g_.node(base).op != Op::kPointwise || !IsShared(base)) continue;
      if (!(small && IsCopied(base, &nodes)) && !(by_range && IsOfExtremes(base))) continue;
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
  // Whether it is a single number derived from combined extremes and constants alone.
  bool IsOfExtremes(NodeId id) {
    const auto known = of_extremes_.find(id);
    if (known != of_extremes_.end()) return known->second;
    const Node& node = g_.node(id);
    bool only = node.op == Op::kPointwise && node.shape.elements() == 1, any = false;
    for (size_t k = 0; only && k < node.inputs.size(); ++k) {
      const Node& base = g_.node(g_.BaseOf(node.inputs[k]));
      const bool extreme = ir::CombinesIntoOne(base) || IsOfExtremes(base.id);
      any |= extreme;
      only = extreme || (base.op == Op::kConstant && base.shape.elements() == 1);
    }
    return of_extremes_[id] = only && any;
  }
  // Whether it is a step from a tensor with combined extremes, possibly padded, to its bytes.
  bool IsStepOfTensor(NodeId id) const {
    const Node& node = g_.node(id);
    if (node.op != Op::kPointwise && node.op != Op::kIndexedRead) return false;
    if (node.dtype != DType::kF32 && ByteSize(node.dtype) != 1) return false;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
      const NodeId base = g_.BaseOf(input);
      return of_tensors_.count(base) != 0 && g_.node(base).dtype == DType::kF32;
    });
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
  std::vector<bool> kept_;       // by node
  std::set<NodeId> of_tensors_;  // tensors with combined extremes, and the steps from them to bytes
  std::unordered_map<NodeId, bool> of_extremes_;
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
