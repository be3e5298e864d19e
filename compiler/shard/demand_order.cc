#include "compiler/shard/demand_order.h"

#include <algorithm>

#include "compiler/shard/candidates.h"

namespace rondo::shard {
namespace {

constexpr int64_t kWorthKnowing = 256;  // bytes of a constant that counts as a weight, not a number

class Demand {
 public:
  explicit Demand(const Graph& graph)
      : g_(graph), given_(graph.TopologicalOrder()), asked_(static_cast<size_t>(graph.size()), false) {
    Weigh();
  }

  std::vector<NodeId> Run() {
    // Outputs of a layer that nothing else reads come with the layer; outputs that no layer makes come last.
    const std::vector<bool> read = Read();
    std::vector<NodeId> wanted;
    for (const ir::GraphOutput& output : g_.outputs) {
      if (!read[static_cast<size_t>(g_.BaseOf(output.node))]) wanted.push_back(output.node);
    }
    std::stable_sort(wanted.begin(), wanted.end(), [&](NodeId a, NodeId b) {
      const double x = Weight(a), y = Weight(b);
      return (x == 0) != (y == 0) ? y == 0 : x < y;
    });
    wanted.insert(wanted.end(), given_.begin(), given_.end());  // the rest: effects only, or already placed
    for (NodeId id : wanted) Ask(id);
    return std::move(order_);
  }

 private:
  double Weight(NodeId id) const { return weight_[static_cast<size_t>(id)]; }

  // By node: whether a node reads it, itself or through views.
  std::vector<bool> Read() const {
    std::vector<bool> read(static_cast<size_t>(g_.size()), false);
    for (NodeId id : given_) {
      if (g_.node(id).op == ir::Op::kView) continue;
      for (NodeId in : g_.node(id).inputs) read[static_cast<size_t>(g_.BaseOf(in))] = true;
    }
    return read;
  }

  // Finds the bytes of weights on the heaviest path to each node.
  void Weigh() {
    weight_.assign(static_cast<size_t>(g_.size()), 0);
    for (NodeId id : given_) {
      double own = 0, most = 0;
      for (NodeId in : g_.node(id).inputs) {
        if (g_.IsConstant(g_.BaseOf(in))) {
          const int64_t bytes = BytesOf(g_.node(g_.BaseOf(in)));
          if (bytes >= kWorthKnowing) own += static_cast<double>(bytes);
        } else {
          most = std::max(most, Weight(in));
        }
      }
      weight_[static_cast<size_t>(id)] = own + most;
    }
  }

  // The nodes that must come before a node, the heaviest last, because they go on a stack.
  std::vector<NodeId> Before(NodeId id) const {
    const Node& node = g_.node(id);
    std::vector<NodeId> before;
    for (const auto* list : {&node.inputs, &node.weak_after, &node.strong_after}) {
      for (NodeId in : *list)
        if (!g_.node(in).dead) before.push_back(in);
    }
    std::reverse(before.begin(), before.end());
    std::stable_sort(before.begin(), before.end(), [&](NodeId a, NodeId b) { return Weight(a) < Weight(b); });
    return before;
  }

  void Ask(NodeId first) {
    struct Waiting {
      NodeId node;
      std::vector<NodeId> before;
    };
    std::vector<Waiting> stack;
    const auto push = [&](NodeId id) {
      if (asked_[static_cast<size_t>(id)]) return;
      asked_[static_cast<size_t>(id)] = true;
      stack.push_back({id, Before(id)});
    };
    for (push(first); !stack.empty();) {
      std::vector<NodeId>& before = stack.back().before;
      if (before.empty()) {
        order_.push_back(stack.back().node);
        stack.pop_back();
        continue;
      }
      const NodeId next = before.back();
      before.pop_back();
      push(next);
    }
  }

  const Graph& g_;
  const std::vector<NodeId> given_;
  std::vector<bool> asked_;
  std::vector<double> weight_;
  std::vector<NodeId> order_;
};

}  // namespace

std::vector<NodeId> OrderByDemand(const Graph& graph) { return Demand(graph).Run(); }

}  // namespace rondo::shard
