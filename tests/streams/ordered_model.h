// Random ONNX models whose nodes are told to run after one another, and what that means, worked out by
// itself.
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

// Nodes "n0", "n1", ... in an order in which each reads earlier ones; some are read by no output.
struct OrderedModel {
  OrderedModel(std::mt19937* rng, int nodes, bool with_views);

  std::string Name(int node) const { return "n" + std::to_string(node); }
  bool Alive(int node) const { return alive[static_cast<size_t>(node)]; }
  // Whether a kernel computes it: it is needed, and no view.
  bool RunsSomething(int node) const { return Alive(node) && !views[static_cast<size_t>(node)]; }
  // Whether `late` depends on `early` by data.
  bool Reads(int late, int early) const;
  // {late, early} pairs that no data contradicts, nor one another; in the model's order or in another that
  // data allows.
  std::set<std::pair<int, int>> Consistent(std::mt19937* rng, int pairs) const;
  // What `orders` say of nodes that run: through those that run nothing as well.
  std::set<std::pair<int, int>> Effective(const std::set<std::pair<int, int>>& orders) const;
  // Whether no order keeps all of `orders` and the data order of the nodes that are needed. Of models without
  // views.
  bool Contradicts(const std::set<std::pair<int, int>>& orders) const;
  std::vector<NodeAnnotation> Annotations(const std::set<std::pair<int, int>>& orders) const;

  ModelMaker maker;
  std::vector<std::vector<int>> reads;  // by node
  std::vector<bool> alive, views;
};

// What in `plan` is not in the order that `after` ({late, early}) says, or "". One step may compute both only
// if data orders them.
std::string OutOfOrder(const PlanData& plan, const OrderedModel& model,
                       const std::set<std::pair<int, int>>& after);

}  // namespace rondo
