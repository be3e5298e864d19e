#include <map>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

// The node below views and float casts.
NodeId Below(const Graph& g, NodeId id) {
  for (;;) {
    id = g.BaseOf(id);
    if (!IsCastOfFloats(g, id)) return id;
    id = g.node(id).inputs[0];
  }
}

const Node* BelowOp(const Graph& g, NodeId id, TapeOp op) { return AsPointwise(g, Below(g, id), op); }

class Labeller {
 public:
  explicit Labeller(Graph* g) : g_(g) {}

  void Visit(NodeId id) {
    const Node& n = g_->node(id);
    if (n.op == Op::kAttention) return Mark("attention", {id});
    if (n.op != Op::kPointwise) return;
    switch (n.As<ir::PointwiseAttrs>().op) {
      case TapeOp::kRsqrt: return Norm(id);
      case TapeOp::kReciprocal:
        if (BelowOp(*g_, n.inputs[0], TapeOp::kSqrt) != nullptr) Norm(id);
        return;
      case TapeOp::kDiv: return Quotient(id);
      case TapeOp::kAdd: return Rotary(id);
      case TapeOp::kMul: return Gated(id);
      default: return;
    }
  }

  PassResult Result() const {
    PassResult result;
    for (const auto& [label, count] : counts_) {
      result.changes += count;
      result.text += (result.text.empty() ? "" : ", ") + std::to_string(count) + " " + label;
    }
    return result;
  }

 private:
  void Mark(const char* label, const std::vector<NodeId>& ids) {
    ++counts_[label];
    for (NodeId id : ids) {
      Node& n = g_->node(id);
      if (n.op != Op::kConstant && n.op != Op::kInput) n.annotations.emplace("label", label);
    }
  }

  // rsqrt(mean(d * d) + eps): d is x (RMS norm) or x - mean(x) (layer norm).
  void Norm(NodeId id) {
    NodeId at = Below(*g_, g_->node(id).inputs[0]);
    if (const Node* sqrt = AsPointwise(*g_, at, TapeOp::kSqrt)) at = Below(*g_, sqrt->inputs[0]);
    std::optional<ScalarUse> plus = WithScalar(*g_, at, TapeOp::kAdd);
    if (!plus) return;
    NodeId mean = Below(*g_, plus->x), sum = kNoNode;
    if (const Node* div = AsPointwise(*g_, mean, TapeOp::kDiv)) sum = Below(*g_, div->inputs[0]);
    if (std::optional<ScalarUse> mul = WithScalar(*g_, mean, TapeOp::kMul)) sum = Below(*g_, mul->x);
    if (sum == kNoNode || g_->node(sum).op != Op::kReduce) return;
    const Node* square = BelowOp(*g_, g_->node(sum).inputs[0], TapeOp::kMul);
    if (square == nullptr || square->inputs[0] != square->inputs[1]) return;
    const Node* d = BelowOp(*g_, square->inputs[0], TapeOp::kSub);
    Mark(d != nullptr ? "layer_norm" : "rms_norm", {id, at, mean, sum, square->id});
  }

  // exp(x) / sum(exp(x)).
  void Quotient(NodeId id) {
    const Node& n = g_->node(id);
    NodeId exp = Below(*g_, n.inputs[0]), sum = Below(*g_, n.inputs[1]);
    if (AsPointwise(*g_, exp, TapeOp::kExp) == nullptr || g_->node(sum).op != Op::kReduce) return;
    if (Below(*g_, g_->node(sum).inputs[0]) == exp) Mark("softmax", {id, exp, sum});
  }

  // x * cos + rotated(x) * sin: both products read one tensor, the second through another view or with signs.
  void Rotary(NodeId id) {
    const Node& n = g_->node(id);
    const Node* products[2];
    for (size_t k = 0; k < 2; ++k) {
      products[k] = BelowOp(*g_, n.inputs[k], TapeOp::kMul);
      if (products[k] == nullptr) return;
    }
    for (NodeId straight : products[0]->inputs) {
      for (NodeId turned : products[1]->inputs) {
        for (auto [x, y] : {std::pair(straight, turned), std::pair(turned, straight)}) {
          // y: a multiplication by constant signs of another view of x's base.
          const Node* signs = BelowOp(*g_, y, TapeOp::kMul);
          if (signs == nullptr || signs == products[0] || signs == products[1]) continue;
          for (size_t k = 0; k < 2; ++k) {
            NodeId sign = signs->inputs[k], base = signs->inputs[1 - k];
            if (!g_->IsConstant(g_->BaseOf(sign)) || g_->BaseOf(base) != g_->BaseOf(x)) continue;
            return Mark("rotary", {id, products[0]->id, products[1]->id, signs->id});
          }
        }
      }
    }
  }

  // act(a) * b: silu is a * sigmoid(a), gelu ends in a multiplication with erf or tanh.
  void Gated(NodeId id) {
    const Node& n = g_->node(id);
    for (size_t k = 0; k < 2; ++k) {
      const Node* silu = BelowOp(*g_, n.inputs[k], TapeOp::kMul);
      if (silu == nullptr) continue;
      for (size_t j = 0; j < 2; ++j) {
        const Node* sigmoid = BelowOp(*g_, silu->inputs[j], TapeOp::kSigmoid);
        if (sigmoid == nullptr || Below(*g_, sigmoid->inputs[0]) != Below(*g_, silu->inputs[1 - j])) continue;
        NodeId gate = Below(*g_, silu->inputs[1 - j]), up = Below(*g_, n.inputs[1 - k]);
        if (g_->node(gate).op == Op::kMatMul && g_->node(up).op == Op::kMatMul) {
          return Mark("swiglu", {id, silu->id, sigmoid->id});
        }
      }
    }
  }

  Graph* g_;
  std::map<std::string, int64_t> counts_;
};

}  // namespace

Result<PassResult> Label(ir::Graph* graph, const PassOptions&) {
  Labeller labeller(graph);
  for (NodeId id : graph->TopologicalOrder()) labeller.Visit(id);
  return labeller.Result();
}

}  // namespace rondo::passes
