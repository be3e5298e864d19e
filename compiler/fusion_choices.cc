#include "compiler/fusion_choices.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/memory/lifetimes.h"

namespace rondo {
namespace {

using ir::NodeId;
using ir::Op;

constexpr double kLeastExposed = 1;  // microseconds

bool IsLeaf(const ir::Node& node) { return node.op == Op::kInput || node.op == Op::kConstant; }

bool IsDear(Op op) {
  return op == Op::kMatMul || op == Op::kConv || op == Op::kPool || op == Op::kAttention || op == Op::kReduce;
}

int64_t BytesOf(const ir::Node& node) { return node.shape.elements() * ByteSize(node.dtype); }

// A fused graph, with the step of each node.
class Fused {
 public:
  Fused(const ir::Graph& graph, const LoweredProgram& program) : graph_(graph), program_(program) {
    step_of_.assign(static_cast<size_t>(graph.size()), -1);
    readers_.resize(static_cast<size_t>(graph.size()));
    for (size_t s = 0; s < program.ops.size(); ++s) {
      for (NodeId id : NodesOf(s)) step_of_[static_cast<size_t>(id)] = static_cast<int>(s);
    }
    for (NodeId id = 0; id < graph.size(); ++id) {
      const ir::Node& node = graph.node(id);
      if (node.dead || node.op == Op::kView) continue;
      for (NodeId input : node.inputs) readers_[static_cast<size_t>(graph.BaseOf(input))].push_back(id);
    }
    for (const ir::GraphOutput& output : graph.outputs) outputs_.insert(graph.BaseOf(output.node));
  }

  const ir::Node& node(NodeId id) const { return graph_.node(id); }
  const std::vector<NodeId>& ReadersOf(NodeId id) const { return readers_[static_cast<size_t>(id)]; }
  bool IsOutput(NodeId id) const { return outputs_.count(id) != 0; }
  int StepOf(NodeId id) const { return step_of_[static_cast<size_t>(id)]; }
  // The step's nodes without the copies that fusion added; none for a step in a loop.
  std::vector<NodeId> NodesOf(size_t step) const {
    std::vector<NodeId> nodes;
    if (program_.ops[step].loop >= 0) return nodes;
    for (NodeId id : program_.ops[step].nodes) {
      if (id < graph_.size()) nodes.push_back(id);
    }
    return nodes;
  }
  // The bases that `id` reads, each once.
  std::vector<NodeId> ReadBy(NodeId id) const {
    std::vector<NodeId> read;
    for (NodeId input : node(id).inputs) {
      const NodeId base = graph_.BaseOf(input);
      if (std::find(read.begin(), read.end(), base) == read.end()) read.push_back(base);
    }
    return read;
  }
  // Whether `id` reads no node of its own step for which `waits` holds.
  template <typename Waits>
  bool IsFirstThere(NodeId id, const Waits& waits) const {
    const std::vector<NodeId> read = ReadBy(id);
    return std::none_of(read.begin(), read.end(),
                        [&](NodeId base) { return waits(base) && StepOf(base) == StepOf(id); });
  }
  // By node: whether it depends on `first`.
  std::vector<char> After(NodeId first) const {
    std::vector<char> after(static_cast<size_t>(graph_.size()), 0);
    std::vector<NodeId> work = {first};
    while (!work.empty()) {
      const NodeId at = work.back();
      work.pop_back();
      for (NodeId reader : ReadersOf(at)) {
        if (std::exchange(after[static_cast<size_t>(reader)], 1) == 0) work.push_back(reader);
      }
    }
    return after;
  }

 private:
  const ir::Graph& graph_;
  const LoweredProgram& program_;
  std::vector<int> step_of_;  // by node; -1: in no step
  std::vector<std::vector<NodeId>> readers_;
  std::unordered_set<NodeId> outputs_;
};

// The first step with the most live bytes.
int PeakOf(const LoweredProgram& program) {
  std::vector<int64_t> change(program.ops.size() + 1, 0);
  const std::vector<Life> lives = Lifetimes(program);
  for (size_t v = 0; v < lives.size(); ++v) {
    if (!lives[v].used() || !InArena(program.values[v].kind)) continue;
    change[static_cast<size_t>(lives[v].first)] += program.values[v].bytes;
    change[static_cast<size_t>(lives[v].last) + 1] -= program.values[v].bytes;
  }
  int64_t live = 0, most = -1;
  int peak = 0;
  for (size_t s = 0; s < program.ops.size(); ++s) {
    live += change[s];
    if (live > most) most = live, peak = static_cast<int>(s);
  }
  return peak;
}

// One kernel's pointwise work that could run before the peak.
class Earlier {
 public:
  Earlier(const Fused& fused, size_t step, int peak) : fused_(fused), peak_(peak) {
    for (NodeId id : fused.NodesOf(step)) members_.insert(id);
  }

  // Follows the path from `id` in which each node is the only reader of the previous one. Returns the node
  // whose result saves most bytes if it is kept in place of the path's inputs; kNoNode if none saves any.
  NodeId BestFrom(NodeId id) const {
    NodeId best = ir::kNoNode;
    int64_t freed = 0, most = 0;
    std::unordered_set<NodeId> path;
    for (NodeId at = id; IsEarly(at, path);) {
      path.insert(at);
      for (NodeId read : fused_.ReadBy(at)) freed += IsKeptBy(read, path) ? BytesOf(fused_.node(read)) : 0;
      if (const int64_t saved = freed - BytesOf(fused_.node(at)); saved > most) best = at, most = saved;
      if (fused_.ReadersOf(at).size() != 1) break;
      at = fused_.ReadersOf(at)[0];
    }
    return best;
  }

 private:
  // Whether all inputs of `id` exist before the peak, and only its own kernel reads it.
  bool IsEarly(NodeId id, const std::unordered_set<NodeId>& path) const {
    const auto member = [&](NodeId other) { return members_.count(other) != 0; };
    if (!member(id) || fused_.node(id).op != Op::kPointwise || fused_.IsOutput(id)) return false;
    const std::vector<NodeId>& readers = fused_.ReadersOf(id);
    const std::vector<NodeId> read = fused_.ReadBy(id);
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), member) &&
           std::all_of(read.begin(), read.end(), [&](NodeId base) {
             const int step = fused_.StepOf(base);
             return path.count(base) != 0 || IsLeaf(fused_.node(base)) || (step >= 0 && step < peak_);
           });
  }
  // Whether only the path needs `id` from the peak on.
  bool IsKeptBy(NodeId id, const std::unordered_set<NodeId>& path) const {
    if (path.count(id) != 0 || IsLeaf(fused_.node(id)) || fused_.IsOutput(id)) return false;
    return std::all_of(fused_.ReadersOf(id).begin(), fused_.ReadersOf(id).end(), [&](NodeId reader) {
      return path.count(reader) != 0 || (fused_.StepOf(reader) >= 0 && fused_.StepOf(reader) < peak_);
    });
  }

  const Fused& fused_;
  const int peak_;
  std::unordered_set<NodeId> members_;
};

}  // namespace

std::vector<NodePair> WhatDelays(const ir::Graph& graph, const LoweredProgram& program,
                                 const std::vector<OverlapNote>& collectives) {
  const Fused fused(graph, program);
  std::vector<NodePair> found;
  for (const LoweredOp& start : program.ops) {
    if (start.kind != LoweredKind::kCollectiveStart || start.nodes.empty()) continue;
    const bool exposed = std::any_of(collectives.begin(), collectives.end(), [&](const OverlapNote& note) {
      return static_cast<int>(note.sync_point) == start.collective && note.exposed_after > kLeastExposed;
    });
    if (!exposed) continue;
    const std::vector<char> after = fused.After(start.nodes[0]);
    const auto waits = [&](NodeId id) { return after[static_cast<size_t>(id)] != 0; };
    for (size_t s = 0; s < program.ops.size(); ++s) {
      if (program.ops[s].kind != LoweredKind::kKernel) continue;
      const std::vector<NodeId> nodes = fused.NodesOf(s);
      for (NodeId dear : nodes) {
        if (waits(dear) || !IsDear(fused.node(dear).op)) continue;
        for (NodeId id : nodes) {
          if (waits(id) && fused.IsFirstThere(id, waits)) found.emplace_back(id, dear);
        }
      }
    }
  }
  return found;
}

std::vector<NodePair> WhatKeepsAlive(const ir::Graph& graph, const LoweredProgram& program) {
  const Fused fused(graph, program);
  const int peak = PeakOf(program);
  std::vector<NodePair> found;
  for (size_t s = static_cast<size_t>(peak) + 1; s < program.ops.size(); ++s) {
    if (program.ops[s].kind != LoweredKind::kKernel) continue;
    const Earlier earlier(fused, s, peak);
    for (NodeId id : fused.NodesOf(s)) {
      const NodeId best = earlier.BestFrom(id);
      if (best == ir::kNoNode) continue;
      for (NodeId reader : fused.ReadersOf(best)) found.emplace_back(best, reader);
    }
  }
  return found;
}

}  // namespace rondo
