// Caches of a fixed length (--cache-length) are valid up to the last row that this run writes; the rest is
// unused. Attention gets a limit there, whatever the model masks. Everything that shows a cache is followed
// from the state on, through views, writes, scalar operations and matmuls that keep positions separate, up to
// attention, or to outputs of the model, where the import has removed unused positions
// (compiler/import/fixed_caches.cc). A softmax of such scores that the model outputs is limited to the cached
// positions.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/ir/port_names.h"
#include "compiler/ir/versions.h"
#include "compiler/ir/view_axis.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

// Everything derived from one cache.
struct Followed {
  std::set<NodeId> attention;       // nodes that read it as keys or values
  std::map<NodeId, int> maxima_of;  // numbers, one for each position, whose maximum is taken
  std::map<NodeId, NodeId> sums;    // sums over exp(x - something): the x of each
  NodeId place = kNoNode;           // the index of a write: the positions of this run's rows
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

// Follows caches, one after another.
class Follower {
 public:
  explicit Follower(Graph* graph) : g_(graph) {}

  // kUnsupported, with the node, if an operation mixes positions of the cache `input`.
  Result<Followed> Follow(const std::string& cache, NodeId input) {
    Followed found;
    std::vector<NodeId> work = {input};
    while (!work.empty()) {
      const NodeId from = work.back();
      work.pop_back();
      for (NodeId reader : g_->UsersOf(from)) {
        if (g_->node(reader).dead || Drops(from, reader)) continue;
        if (!HandsOn(from, reader, &found)) return Refuse(*g_, cache, reader);
        const Op op = g_->node(reader).op;
        if (op == Op::kAttention || (op == Op::kReduce && !KeepsPositions(from, reader))) continue;
        if (op == Op::kMatMul) products_.emplace(reader, cache);
        if (shows_.insert(reader).second) work.push_back(reader);
      }
    }
    for (const auto& [sum, of] : found.sums) {
      if (found.maxima_of.count(of) == 0) return Refuse(*g_, cache, sum);
    }
    return found;
  }

  // Call it after all caches have been followed. For a matmul that sums over positions, the import has
  // checked that both sides come from caches; if one does not, each position is multiplied by itself.
  Status CheckMatmuls() const {
    for (const auto& [id, cache] : products_) {
      const std::vector<NodeId>& in = g_->node(id).inputs;
      if (shows_.count(in[0]) != 0 && shows_.count(in[1]) != 0) return Refuse(*g_, cache, id);
    }
    return Status::Ok();
  }

 private:
  // Whether `reader` keeps the cached positions of `from`, and has a single value at the others; import has
  // proved that this is equivalent (compiler/import/mask_uncached_scores.h).
  bool Drops(NodeId from, NodeId reader) const {
    const Node& n = g_->node(reader);
    return n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().drops_uncached && n.inputs[1] == from &&
           n.inputs[0] != from && n.inputs[2] != from;
  }

  // The dim of `id` along which positions run; -1 if unknown.
  int AxisOf(NodeId id, int depth = 0) const {
    constexpr int kMostSteps = 64;
    const Node& n = g_->node(id);
    if (depth > kMostSteps || shows_.count(id) == 0) return -1;
    if (n.op == Op::kIndexedWrite) return AxisOfWrite(n);
    if (n.op == Op::kView || n.op == Op::kReduce) {
      const int axis = AxisOf(n.inputs[0], depth + 1);
      if (axis < 0 || n.op == Op::kReduce) return axis;  // its other dims are reduced
      return ir::AxisThrough(n.As<ir::ViewAttrs>().view, g_->node(n.inputs[0]).shape, axis);
    }
    if (n.op != Op::kPointwise && n.op != Op::kMatMul) return -1;
    int found = -1;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (shows_.count(n.inputs[k]) == 0) continue;
      if (g_->node(n.inputs[k]).shape.rank != n.shape.rank) return -1;
      const int axis = AxisOf(n.inputs[k], depth + 1);
      // A matmul has the rows of its lhs and the columns of its rhs.
      const bool summed = n.op == Op::kMatMul && axis == n.shape.rank - (k == 0 ? 1 : 2);
      if (axis < 0 || summed || (found >= 0 && axis != found)) return -1;
      found = axis;
    }
    return found;
  }

  static int AxisOfWrite(const Node& n) {
    const std::vector<ir::IndexedDim>& dims = n.As<ir::IndexedAttrs>().dims;
    int64_t stride = 1;
    for (int d = n.shape.rank; dims.size() == 1 && d-- > 0; stride *= n.shape[d]) {
      if (dims[0].stride == stride && dims[0].extent == n.shape[d]) return d;
    }
    return -1;
  }

  // Whether `reader` keeps positions of `from` separate, or is attention or part of a softmax.
  bool HandsOn(NodeId from, NodeId reader, Followed* found) const {
    const Node& n = g_->node(reader);
    switch (n.op) {
      case Op::kAttention:
        found->attention.insert(reader);
        return n.inputs[0] != from && std::find(n.inputs.begin() + 3, n.inputs.end(), from) == n.inputs.end();
      case Op::kIndexedWrite: {
        const bool placed = n.As<ir::IndexedAttrs>().dims.empty();
        if (n.inputs[0] == from && !placed) found->place = n.inputs[2];
        return n.inputs[0] == from || (placed && n.inputs[1] == from);
      }
      case Op::kReduce: return KeepsPositions(from, reader) || IsOfSoftmax(from, reader, found);
      case Op::kView:
      case Op::kPointwise:
      case Op::kConcat:
      case Op::kMatMul: return true;
      default: return false;
    }
  }

  // A reduction that keeps positions separate.
  bool KeepsPositions(NodeId from, NodeId reader) const {
    const std::vector<int>& axes = g_->node(reader).As<ir::ReduceAttrs>().axes;
    const int axis = AxisOf(from);
    return axis >= 0 && std::find(axes.begin(), axes.end(), axis) == axes.end();
  }

  // A maximum over the positions, or a sum over exp(x - something) whose x has such a maximum.
  bool IsOfSoftmax(NodeId from, NodeId reader, Followed* found) const {
    const ir::ReduceAttrs& attrs = g_->node(reader).As<ir::ReduceAttrs>();
    const int axis = AxisOf(from);
    if (axis < 0 || attrs.axes != std::vector<int>{axis} || !IsFloat(g_->node(from).dtype)) return false;
    if (attrs.kind == ir::ReduceKind::kMax) {
      found->maxima_of.emplace(from, axis);
      return true;
    }
    const Node* exponential = AsPointwise(*g_, SkipCasts(*g_, from), TapeOp::kExp);
    const Node* lessened =
        exponential == nullptr ? nullptr : AsPointwise(*g_, exponential->inputs[0], TapeOp::kSub);
    if (attrs.kind != ir::ReduceKind::kSum || lessened == nullptr || shows_.count(lessened->inputs[1]) != 0)
      return false;
    found->sums.emplace(reader, lessened->inputs[0]);
    return true;
  }

  Graph* g_;
  std::set<NodeId> shows_;                  // nodes that show positions of some cache
  std::map<NodeId, std::string> products_;  // matmuls with one such input, and the cache
};

// The number of cached positions after this run: i64 [].
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

// Replaces `id`, numbers of the positions along dim `axis`, by -inf behind the cached ones for all readers.
void DropBehind(Graph* g, NodeId id, int axis, NodeId cached) {
  const std::vector<NodeId> readers = g->UsersOf(id);
  ir::Builder b = BuilderLike(g, id);
  const Shape shape = b.shape(id);
  Shape line = shape;
  for (int d = 0; d < line.rank; ++d) line[d] = d == axis ? shape[d] : 1;
  const NodeId holds = b.Binary(TapeOp::kLess, b.Iota(line, axis), cached);
  const NodeId least = b.Scalar(b.dtype(id), -std::numeric_limits<double>::infinity());
  const NodeId instead = b.Select(holds, id, least);
  for (NodeId reader : readers) {
    for (size_t k = 0; k < g->node(reader).inputs.size(); ++k) {
      if (g->node(reader).inputs[k] == id) g->SetInput(reader, k, instead);
    }
  }
}

}  // namespace

Result<PassResult> LimitToCached(Graph* graph, const PassOptions& options) {
  PassResult result;
  Follower follower(graph);
  std::vector<Followed> caches;
  for (const std::string& name : options.fixed_caches) {
    const int at = ir::FindPort(graph->inputs, name);
    if (at < 0) continue;
    RONDO_ASSIGN_OR_RETURN(Followed found,
                           follower.Follow(name, graph->inputs[static_cast<size_t>(at)].node));
    // If nothing is written, all positions are the caller's.
    if (found.place != kNoNode) caches.push_back(std::move(found));
  }
  RONDO_RETURN_IF_ERROR(follower.CheckMatmuls());
  std::set<NodeId> done;
  for (const Followed& found : caches) {
    const NodeId cached = Cached(graph, found.place);
    for (const auto& [of, axis] : found.maxima_of) {
      if (done.insert(of).second) DropBehind(graph, of, axis, cached);
    }
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
