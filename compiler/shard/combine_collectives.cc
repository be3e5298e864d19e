#include "compiler/shard/combine_collectives.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/shard/cut_rows.h"

namespace rondo::shard {
namespace {

using ir::CollectiveAttrs;
using ir::Graph;
using ir::Node;
using ir::NodeId;

constexpr int64_t kAligned = 64;  // bytes: alignment of the exchanged values

// The smaller of input and result, like SyncPoint::bytes.
int64_t BytesOf(const Graph& graph, const Node& node) {
  const int64_t made = node.shape.elements();
  return std::min(made, graph.node(node.inputs[0]).shape.elements()) * ByteSize(node.dtype);
}

bool IsKnown(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kReduceScatter;
}

// Whether the collective has few bytes and no annotation binds it.
bool MayBeOneOfSeveral(const Graph& graph, const Node& node, int64_t most) {
  if (node.inputs.empty() || !IsKnown(node.As<CollectiveAttrs>().op)) return false;
  const int64_t bytes = BytesOf(graph, node);
  return bytes > 0 && bytes <= most && bytes % kAligned == 0 && ir::BoundAlike(node, Node()) &&
         node.annotations.count(kChunkKey) == 0;
}

bool AreAlike(const Node& a, const Node& b) {
  const CollectiveAttrs &x = a.As<CollectiveAttrs>(), &y = b.As<CollectiveAttrs>();
  return x.op == y.op && a.dtype == b.dtype && x.devices == y.devices && x.group == y.group;
}

// Whether data flow from `from` to `to`.
bool LeadsTo(const Graph& graph, const ir::Users& users, NodeId from, NodeId to) {
  std::vector<char> seen(static_cast<size_t>(graph.size()), 0);
  std::vector<NodeId> work = {from};
  while (!work.empty()) {
    const NodeId at = work.back();
    work.pop_back();
    if (at == to) return true;
    for (NodeId user : users[static_cast<size_t>(at)]) {
      if (std::exchange(seen[static_cast<size_t>(user)], 1) == 0) work.push_back(user);
    }
  }
  return false;
}

class Combining {
 public:
  explicit Combining(Graph* graph) : g_(*graph), b_(graph) {}

  void Combine(const std::vector<NodeId>& members) {
    const CollectiveAttrs attrs = g_.node(members[0]).As<CollectiveAttrs>();
    ir::SourceList sources;
    for (NodeId member : members) sources.Add(g_.node(member).sources);
    b_.SetSources(sources.Take());
    // Shares lie in the last dimension; if each device has its own share, each share is a row.
    const bool rows_in = attrs.op == CollectiveOp::kReduceScatter,
               rows_out = attrs.op == CollectiveOp::kAllGather;
    std::vector<NodeId> pieces;
    for (NodeId member : members) {
      const NodeId input = g_.node(member).inputs[0];
      pieces.push_back(b_.Reshape(input, Flat(g_.node(input).shape, rows_in ? attrs.devices : 0)));
    }
    const NodeId joined = b_.Concat(pieces, rows_in ? 1 : 0);
    const NodeId all = b_.Collective(attrs.op, joined, attrs.devices, attrs.group);
    int64_t at = 0;
    for (NodeId member : members) {
      const Shape shape = g_.node(member).shape;
      const int64_t count = shape.elements() / (rows_out ? attrs.devices : 1);
      const NodeId piece = b_.Slice(all, rows_out ? 1 : 0, at, 1, count);
      g_.Replace(member, b_.Reshape(piece, shape));
      at += count;
    }
    auto& before = g_.node(all).weak_after;
    std::erase_if(before,
                  [&](NodeId id) { return std::find(members.begin(), members.end(), id) != members.end(); });
  }

 private:
  static Shape Flat(const Shape& shape, int64_t rows) {
    return rows == 0 ? Shape{shape.elements()} : Shape{rows, shape.elements() / rows};
  }

  Graph& g_;
  ir::Builder b_;
};

}  // namespace

std::vector<std::vector<size_t>> FindCombinable(const Graph& graph, const CombineLimits& limits) {
  const std::vector<NodeId> collectives = CollectivesOf(graph);
  const ir::Users users = graph.AllUsers();
  std::vector<std::vector<size_t>> sets;
  std::vector<size_t> set;
  int64_t bytes = 0;
  const auto close = [&] {
    if (set.size() > 1) sets.push_back(set);
    set.clear();
    bytes = 0;
  };
  for (size_t c = 0; c < collectives.size(); ++c) {
    const Node& node = graph.node(collectives[c]);
    const bool may = MayBeOneOfSeveral(graph, node, limits.each);
    const int64_t own = may ? BytesOf(graph, node) : 0;
    const bool fits = may && std::all_of(set.begin(), set.end(), [&](size_t member) {
                        return AreAlike(graph.node(collectives[member]), node) &&
                               !LeadsTo(graph, users, collectives[member], node.id);
                      });
    if (!fits || bytes + own > limits.total) close();
    if (!may) continue;
    set.push_back(c);
    bytes += own;
  }
  close();
  return sets;
}

bool CombineCollectives(Graph* graph, const std::vector<std::vector<size_t>>& sets) {
  const std::vector<NodeId> collectives = CollectivesOf(*graph);
  graph->Try();
  for (const std::vector<size_t>& set : sets) {
    std::vector<NodeId> members;
    for (size_t c : set) members.push_back(collectives[c]);
    Combining(graph).Combine(members);
  }
  if (!graph->Acyclic()) {
    graph->TakeBack();
    return false;
  }
  graph->Keep();
  graph->RemoveDead();
  graph->Compact();
  return true;
}

}  // namespace rondo::shard
