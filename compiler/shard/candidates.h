// Candidates: the shardings that each value of a graph may take, and the rules that lead from one to another.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/rules.h"

namespace rondo::shard {

// The shardings of the states that a plan's programs share, by StateKey.
using StateShardings = std::map<std::string, Sharding>;
// The shardings in which the programs before hold weights, by WeightKey: one may have several.
using WeightShardings = std::map<std::string, std::vector<Sharding>>;
// What a weight is known by in all programs; empty for one without a name.
std::string WeightKey(const ir::ConstantData& data);
// Name, dtype and shape of input `input`: what states of several programs are matched by.
std::string StateKey(const ir::Graph& graph, size_t input);

inline constexpr size_t kMostShardings = 8;  // of one value

// By node. Every list begins with what is always possible: kWhole (kPartial is the second sharding of a value
// that can be summed), and the rule of which all inputs are whole.
struct Candidates {
  std::vector<std::vector<Sharding>> shardings;
  std::vector<std::vector<Rule>> rules;
  // By node, empty if there are none: a sharding that the model itself gives (given_shardings.h), in which
  // alone it is there once it has been computed; kUnknown: none.
  std::vector<Sharding> given;

  // By node, empty if there are none: shardings (bit i is sharding i) in which another program holds the
  // weight.
  std::vector<uint16_t> held;

  Sharding GivenTo(ir::NodeId id) const { return given.empty() ? kUnknown : given[static_cast<size_t>(id)]; }

  bool IsHeld(ir::NodeId id, Sharding sharding) const;

  // The number of `sharding` among those of `id`; -1 if it has not got it.
  int IndexOf(ir::NodeId id, Sharding sharding) const;
};

// Carries the shardings that the graph's weights suggest (FirstRules) along every node, to what it reads and
// to who reads it, until none is new. As much work as there are nodes times kMostShardings. The graph must be
// compact. `state_shardings` are those that other programs have settled (assign.h), `given`, by node or
// empty, those that the model gives. Deterministic; thread-safe.
Candidates FindCandidates(const ir::Graph& graph, const Costs& costs, const StateShardings& state_shardings,
                          const std::vector<Sharding>& given = {});

// Notes which of the candidates for weights other programs hold.
void NoteHeld(const ir::Graph& graph, const WeightShardings& weights, Candidates* candidates);

}  // namespace rondo::shard
