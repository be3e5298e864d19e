#include "compiler/passes/match.h"

#include <algorithm>

#include "compiler/ir/walk.h"
#include "core/scalar.h"

namespace rondo::passes {

const Node* AsPointwise(const Graph& graph, NodeId id, TapeOp op) {
  const Node& n = graph.node(id);
  return n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == op ? &n : nullptr;
}

int64_t BlockAlong(const ir::View& view, int along) {
  ir::LoopNest nest(view.shape());
  if (!ir::RefineLoops(view, &nest)) return 0;
  const std::optional<ir::AffineMap> map = ir::MapOver(view, nest);
  if (!map) return 0;
  size_t loop = 0;
  for (int d = 0; d < along; ++d) loop += nest.factors[static_cast<size_t>(d)].size();
  const std::vector<int64_t>& factors = nest.factors[static_cast<size_t>(along)];
  int64_t block = 1;
  for (size_t i = factors.size(); i-- > 0 && (map->strides[loop + i] == 0 || factors[i] == 1);)
    block *= factors[i];
  return block;
}

std::optional<double> UniformValue(const Graph& graph, NodeId id) {
  const Node& base = graph.node(graph.BaseOf(id));
  if (base.op != Op::kConstant || graph.node(id).shape.elements() == 0) return std::nullopt;
  const ir::ConstantData& data = *base.As<ir::ConstantAttrs>().data;
  if (data.synthetic) return std::nullopt;
  auto value = [&](int64_t at) {
    return IsFloat(data.dtype)
               ? scalar::Load<double>(data.dtype, data.bytes.data(), at)
               : static_cast<double>(scalar::Load<int64_t>(data.dtype, data.bytes.data(), at));
  };
  constexpr int64_t kMostElements = 1 << 16;
  const ir::View once = ShownOnce(graph.ViewOf(id));
  constexpr int64_t kMostTimes = 64;  // repetitions of each element
  if (once.shape().elements() > std::min(kMostElements, kMostTimes * data.shape.elements()))
    return std::nullopt;
  std::optional<double> found;
  bool same = true;
  ir::ForEachElement(once, [&](int64_t, int64_t at) {
    if (!found) found = value(at);
    same = same && value(at) == *found && std::signbit(value(at)) == std::signbit(*found);
  });
  return same ? found : std::nullopt;
}

std::optional<ScalarUse> WithScalar(const Graph& graph, NodeId id, TapeOp op) {
  const Node* n = AsPointwise(graph, id, op);
  if (n == nullptr) return std::nullopt;
  for (size_t k : {1, 0}) {
    if (std::optional<double> value = UniformValue(graph, n->inputs[k]))
      return ScalarUse{n->inputs[1 - k], *value};
  }
  return std::nullopt;
}

bool IsReshape(const Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  return n.op != Op::kView ||
         ir::IsDense(n.As<ir::ViewAttrs>().view, graph.node(n.inputs[0]).shape.elements());
}

bool IsCastOfFloats(const Graph& graph, NodeId id) {
  const Node* cast = AsPointwise(graph, id, TapeOp::kCast);
  const auto wide = [](DType t) { return IsFloat(t) && !IsFp8(t); };
  return cast != nullptr && wide(cast->dtype) && wide(graph.node(cast->inputs[0]).dtype);
}

NodeId SkipCasts(const Graph& graph, NodeId id) {
  for (;;) {
    if (graph.node(id).op == Op::kView && IsReshape(graph, id)) {
      id = graph.BaseOf(id);
      continue;
    }
    if (!IsCastOfFloats(graph, id)) return id;
    id = graph.node(id).inputs[0];
  }
}

NodeId ShownInput(ir::Builder& b, NodeId id, size_t i) {
  const Graph& graph = b.graph();
  const NodeId input = graph.node(graph.BaseOf(id)).inputs[i];
  const ir::View view = ir::Compose(graph.ViewOf(input), graph.ViewOf(id));
  const NodeId base = graph.BaseOf(input);
  return view == ir::DenseView(graph.node(base).shape) ? base : b.ViewNode(base, view);
}

NodeId ShownOnce(ir::Builder& b, NodeId id) {
  if (id == ir::kNoNode) return id;
  const ir::View view = b.graph().ViewOf(id), once = ShownOnce(view);
  return once == view ? id : b.ViewNode(b.graph().BaseOf(id), once);
}

ir::View ShownOnce(ir::View view) {
  for (int d = 0; d < view.shape().rank; ++d) {
    if (view.shape()[d] > 1 && BlockAlong(view, d) == view.shape()[d]) view = ir::Slice(view, d, 0, 1, 1);
  }
  return view;
}

bool IsInjective(const ir::View& view) {
  if (view.shape().elements() <= 1) return true;
  ir::LoopNest nest(view.shape());
  if (!ir::RefineLoops(view, &nest)) return false;
  std::optional<ir::AffineMap> map = ir::MapOver(view, nest);
  if (!map) return false;
  // Sorted by stride, each loop steps over the range of all smaller ones.
  std::vector<int64_t> extents = nest.extents();
  std::vector<std::pair<int64_t, int64_t>> loops;
  for (size_t l = 0; l < extents.size(); ++l) {
    if (extents[l] > 1) loops.emplace_back(std::abs(map->strides[l]), extents[l]);
  }
  std::sort(loops.begin(), loops.end());
  int64_t reach = 0;
  for (auto [stride, extent] : loops) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

void Tidy(Graph* graph) {
  graph->RemoveDead();
  graph->Compact();
}

ir::Builder BuilderLike(Graph* graph, NodeId like) {
  ir::Builder b(graph);
  b.SetSources(graph->node(like).sources);
  b.SetAnnotations(graph->node(like).annotations);
  return b;
}

std::string Count(int64_t n, const char* thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

}  // namespace rondo::passes
