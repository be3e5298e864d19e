// Caches of a fixed length (--cache-length) hold something up to the last row that this run writes; what lies
// behind is left from before. Attention gets a limit there, whatever the model masks. From the state on,
// everything that shows a cache is followed, through views, writes and scalar operations, up to attention.
#include <algorithm>
#include <set>

#include "compiler/ir/versions.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

// What follows from one cache.
struct Followed {
  std::set<NodeId> shows;      // nodes that hold or show positions of it
  std::set<NodeId> attention;  // that reads them as keys or values
  NodeId place = kNoNode;      // the index of a write: the positions of this run's rows
};

Status Refuse(const Graph& g, const std::string& cache, NodeId id) {
  const Node& n = g.node(id);
  const std::string source = n.sources.empty() ? ir::Name(n.op) : n.sources[0];
  return Status::Error(
             Code::kUnsupported,
             "--cache-length: %s reads the cache \"%s\" other than as keys or values of attention that rondo "
             "recognises, so that it would see positions that hold nothing; export the model with attention "
             "as one operator, or compile it for one number of cached positions (--shape)",
             source.c_str(), cache.c_str())
      .FromNode(source);
}

// Whether a matmul's rows are positions, each by itself: what multiplies them is a weight. Of a product that
// adds up over positions the import has seen that both sides are of a cache.
bool ProjectsRows(const Graph& g, const Node& n, NodeId from) {
  return n.op == Op::kMatMul && n.inputs[0] == from && n.inputs[1] != from &&
         g.IsConstant(g.BaseOf(n.inputs[1]));
}

// Whether `reader` hands positions on that it gets through one of its inputs, or ends them.
Status Follow(Graph* g, const std::string& cache, NodeId from, Followed* found, std::vector<NodeId>* work) {
  for (NodeId reader : g->UsersOf(from)) {
    const Node& n = g->node(reader);
    if (n.dead) continue;
    if (n.op == Op::kAttention) {
      const bool only =
          n.inputs[0] != from && std::find(n.inputs.begin() + 3, n.inputs.end(), from) == n.inputs.end();
      if (!only) return Refuse(*g, cache, reader);
      found->attention.insert(reader);
      continue;
    }
    const bool writes = n.op == Op::kIndexedWrite && n.inputs[0] == from;
    if (writes && !n.As<ir::IndexedAttrs>().dims.empty()) found->place = n.inputs[2];
    const bool placed =
        n.op == Op::kIndexedWrite && n.inputs[1] == from && n.As<ir::IndexedAttrs>().dims.empty();
    if (!writes && !placed && !ProjectsRows(*g, n, from) && n.op != Op::kView && n.op != Op::kPointwise &&
        n.op != Op::kConcat)
      return Refuse(*g, cache, reader);
    if (found->shows.insert(reader).second) work->push_back(reader);
  }
  return Status::Ok();
}

// The number of positions that hold something after this run: i64 [].
NodeId Cached(Graph* g, NodeId place) {
  ir::Builder b = BuilderLike(g, place);
  const ir::View once = ShownOnce(g->ViewOf(place));
  NodeId few = b.ViewNode(g->BaseOf(place), once);
  std::vector<int> axes;
  for (int d = 0; d < b.shape(few).rank; ++d) axes.push_back(d);
  NodeId last = axes.empty() ? few : b.Reduce(ir::ReduceKind::kMax, few, axes, false);
  return b.BinaryScalar(TapeOp::kAdd, b.Cast(last, DType::kI64), 1);
}

void Limit(Graph* g, NodeId id, NodeId cached) {
  const ir::AttentionInputs in = ir::AttentionInputsOf(g->node(id));
  const ir::AttentionAttrs attrs = g->node(id).As<ir::AttentionAttrs>();
  ir::Builder b = BuilderLike(g, id);
  NodeId limit = cached;
  if (in.limit != kNoNode) {
    const NodeId once = b.ViewNode(g->BaseOf(in.limit), ShownOnce(g->ViewOf(in.limit)));
    limit = b.Binary(TapeOp::kMin, once, cached);
  }
  g->Replace(id, b.Attention(in.q, in.k, in.v, in.mask, limit, attrs, in.sink));
}

}  // namespace

Result<PassResult> LimitToCached(Graph* graph, const PassOptions& options) {
  PassResult result;
  std::set<NodeId> done;
  for (const std::string& name : options.fixed_caches) {
    const auto input = std::find_if(graph->inputs.begin(), graph->inputs.end(),
                                    [&](const ir::GraphInput& i) { return i.name == name; });
    if (input == graph->inputs.end()) continue;
    Followed found;
    std::vector<NodeId> work = {input->node};
    while (!work.empty()) {
      const NodeId id = work.back();
      work.pop_back();
      RONDO_RETURN_IF_ERROR(Follow(graph, name, id, &found, &work));
    }
    if (found.place == kNoNode) continue;  // nothing is written: every position is the caller's
    const NodeId cached = Cached(graph, found.place);
    for (NodeId id : found.attention) {
      if (graph->node(id).dead || done.count(id) != 0) continue;
      if (graph->node(id).As<ir::AttentionAttrs>().limit_is_cached) continue;
      const NodeId next = graph->size();
      Limit(graph, id, cached);
      for (NodeId made = next; made < graph->size(); ++made) done.insert(made);
      ++result.changes;
    }
  }
  Tidy(graph);
  result.text = options.fixed_caches.empty()
                    ? "no cache was given a length"
                    : Count(result.changes, "attention") + " limited to what is cached";
  return result;
}

}  // namespace rondo::passes
