// Random ONNX models with annotations that order their nodes, and the meaning of these, computed
// independently of the compiler.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "core/plan.h"
#include "tests/import/model_maker.h"

namespace rondo {

// Nodes "n0", "n1", ... in an order in which each reads earlier ones; no output needs some of them.
struct OrderedModel {
  OrderedModel(std::mt19937* rng, int nodes, bool with_views);

  std::string Name(int node) const { return "n" + std::to_string(node); }
  bool Alive(int node) const { return alive[static_cast<size_t>(node)]; }
  // Whether a kernel computes the node: it is needed, and it is no view.
  bool RunsSomething(int node) const { return Alive(node) && !views[static_cast<size_t>(node)]; }
  // Whether `late` depends on `early` by data.
  bool Reads(int late, int early) const;
  // Random {late, early} pairs that contradict neither data nor one another, in the model's order or in
  // another that data allows.
  std::set<std::pair<int, int>> Consistent(std::mt19937* rng, int pairs) const;
  // The order of nodes that run that follows from `orders`, also through nodes that run nothing.
  std::set<std::pair<int, int>> Effective(const std::set<std::pair<int, int>>& orders) const;
  // Whether no order satisfies all of `orders` and the data order of the needed nodes. For models without
  // views.
  bool Contradicts(const std::set<std::pair<int, int>>& orders) const;
  std::vector<NodeAnnotation> Annotations(const std::set<std::pair<int, int>>& orders) const;

  ModelMaker maker;
  std::vector<std::vector<int>> reads;  // by node
  std::vector<bool> alive, views;
};

// The steps of `plan` that are not in the order that `after` ({late, early}) demands, or "". One step may
// compute both nodes only if data orders them.
std::string OutOfOrder(const PlanData& plan, const OrderedModel& model,
                       const std::set<std::pair<int, int>>& after);

}  // namespace rondo
