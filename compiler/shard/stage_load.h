// The loads of a pipeline's stages: the order of the nodes that can be cut, and the memory, work and
// communication of each run of them.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/costs.h"
#include "compiler/shard/state_rows.h"

namespace rondo::shard {

// The nodes that belong to one stage. Not views, inputs and constants, and not what every stage computes for
// itself from inputs and small constants, because that is less than to send it.
struct StageOrder {
  std::vector<ir::NodeId> nodes;  // in the order that is asked for
  std::vector<int> position;      // by node: among `nodes`, or -1
};
// In the order of `all`, a topological one. `repeat` false: those, too, for graphs of too little work
// otherwise.
StageOrder OrderStages(const ir::Graph& graph, const Costs& costs, const std::vector<ir::NodeId>& all,
                       bool repeat = true);

// Borrows the graph. All in the currency of costs.h.
class StageLoads {
 public:
  StageLoads(const ir::Graph& graph, const Costs& costs, const StageOrder& order,
             const std::vector<StateRows>& states);

  // Of what nodes before position `cut` make and others behind it read: to send it.
  double Sent(size_t cut) const { return sent_[cut]; }
  // Of the weights and states that nodes [first, end) use, and of their work.
  double Of(size_t first, size_t end) const;
  // Whether nodes on both sides must stay together: they touch one row of a state, or are parts of one call
  // or loop.
  bool Parts(size_t cut) const { return together_[cut] > 0; }
  // The constants that are first used at each position, of more than a few bytes.
  const std::vector<std::vector<ir::NodeId>>& weights() const { return weights_; }

 private:
  struct Again {
    size_t before, at;
    double bytes;
  };
  void FindWeights(const StageOrder& order);
  void FindSent(const StageOrder& order, const Costs& costs, const std::vector<StateRows>& states);
  void KeepTogether(size_t first, size_t last);
  void KeepStates(const StageOrder& order, const std::vector<StateRows>& states);

  const ir::Graph& g_;
  std::vector<double> sent_, sum_;  // by cut: sum_ of what positions before it hold and do
  std::vector<int> together_;       // by cut: how many reasons there are not to cut there
  std::vector<Again> again_;        // weights that are used at more than one position
  std::vector<std::vector<ir::NodeId>> weights_;
};

}  // namespace rondo::shard
