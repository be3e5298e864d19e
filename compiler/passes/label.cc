#include <map>

#include "compiler/passes/passes.h"
#include "compiler/passes/pattern.h"

namespace rondo::passes {

namespace {

// The node behind views and float casts.
NodeId Behind(const Graph& g, NodeId id) {
  for (;;) {
    id = g.BaseOf(id);
    if (!IsCastOfFloats(g, id)) return id;
    id = g.node(id).inputs[0];
  }
}

struct Labelled {
  const char* label;
  pattern::Pattern pattern;
};

// The first pattern that matches gives its label to the nodes that have no name in it.
std::vector<Labelled> Patterns() {
  using namespace pattern;
  const auto norm = [](const Pattern& d) {
    const Pattern sum = Sum(d * d), variance = (sum / y | sum * b) + a;
    return Rsqrt(variance) | Rsqrt(Sqrt(variance)) | Reciprocal(Sqrt(variance));
  };
  const Pattern difference(TapeOp::kSub, {}), matmul(Op::kMatMul), constant(Op::kConstant);
  return {
      {"attention", Op::kAttention},
      // 1 / sqrt(mean((x - mean(x))^2) + epsilon), and the same of x itself
      {"layer_norm", norm(difference.As(x))},
      {"rms_norm", norm(x)},
      {"softmax", Exp(x) / Sum(Exp(x))},
      // x * cos + rotated(x) * sin: the second product reads another view of x, with signs
      {"rotary", x * y + (x * constant) * z},
      {"swiglu", (matmul.As(x) * Sigmoid(x)) * matmul.As(y)},
  };
}

}  // namespace

Result<PassResult> Label(ir::Graph* graph, const PassOptions&) {
  const std::vector<Labelled> patterns = Patterns();
  PatternIndex index;
  for (const Labelled& one : patterns) index.Add(one.pattern);
  Match match(graph, Behind);
  std::map<std::string, int64_t> counts;
  for (NodeId id : graph->TopologicalOrder()) {
    const std::vector<size_t>& possible = index.At(graph->node(id));
    const auto found = std::find_if(possible.begin(), possible.end(),
                                    [&](size_t p) { return match.At(patterns[p].pattern, id); });
    if (found == possible.end()) continue;
    const char* const label = patterns[*found].label;
    ++counts[label];
    for (NodeId part : match.nodes()) {
      if (!graph->IsConstant(part)) graph->node(part).annotations.emplace("label", label);
    }
  }
  PassResult result;
  for (const auto& [label, count] : counts) {
    result.changes += count;
    result.text += (result.text.empty() ? "" : ", ") + std::to_string(count) + " " + label;
  }
  return result;
}

}  // namespace rondo::passes
