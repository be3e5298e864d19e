// Rules: the shardings of a node's inputs that need no communication, and the sharding of its result.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/costs.h"
#include "compiler/shard/sharding.h"

namespace rondo::shard {

struct Rule {
  std::vector<Sharding> inputs;  // one an input of the node
  Sharding output = kWhole;
  friend bool operator==(const Rule& a, const Rule& b) = default;
};

// All inputs whole: holds of every node.
Rule WholeRule(const ir::Node& node);

// The rules in which input `slot` (or, -1, the result) is split into runs of `sharding`. Pure; thread-safe.
std::vector<Rule> RulesWith(const ir::Graph& graph, const ir::Node& node, int slot, Sharding sharding,
                            int64_t devices);

// The rules of sums that stay unsummed: sums of summands, and what is linear in one.
std::vector<Rule> PartialRules(const ir::Graph& graph, const ir::Node& node);

// The rules from which sharding begins: matmuls with weights by columns and by rows of the weight, tables by
// rows where that pays for a message, attention by heads, convolutions by channels. In equal contiguous
// shares, where they divide.
std::vector<Rule> FirstRules(const ir::Graph& graph, const ir::Node& node, const Costs& costs);

}  // namespace rondo::shard
