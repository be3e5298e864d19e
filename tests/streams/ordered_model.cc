#include "tests/streams/ordered_model.h"

#include <algorithm>
#include <numeric>

#include "core/arena.h"
#include "formats/plan/check/order.h"

namespace rondo {
namespace {

int Pick(std::mt19937* rng, int low, int high) { return std::uniform_int_distribution<int>(low, high)(*rng); }

// Whether the edges (to, from) among `nodes` nodes have a cycle.
bool HasCycle(int nodes, const std::set<std::pair<int, int>>& edges) {
  std::vector<int> waiting(static_cast<size_t>(nodes), 0);
  for (const auto& [to, from] : edges) ++waiting[static_cast<size_t>(to)];
  int done = 0;
  for (bool more = true; more;) {
    more = false;
    for (int n = 0; n < nodes; ++n) {
      if (waiting[static_cast<size_t>(n)] != 0) continue;
      waiting[static_cast<size_t>(n)] = -1;
      ++done;
      more = true;
      for (const auto& [to, from] : edges) waiting[static_cast<size_t>(to)] -= from == n;
    }
  }
  return done < nodes;
}

}  // namespace

OrderedModel::OrderedModel(std::mt19937* rng, int nodes, bool with_views) {
  maker.Input("x", {4, 4});
  std::vector<float> weight;
  for (int i = 0; i < 16; ++i) weight.push_back(static_cast<float>(i * 7 % 11) / 8 - 0.5f);
  maker.Floats("w", {4, 4}, weight);
  maker.Ints("axis", {1});
  const std::vector<std::string> ops = {"Tanh",   "Sigmoid", "Add",        "Mul",
                                        "MatMul", "Softmax", "ReduceMean", "Transpose"};
  const auto value = [](int node) { return node < 0 ? std::string("x") : "v" + std::to_string(node); };
  for (int n = 0; n < nodes; ++n) {
    const std::string& op = ops[static_cast<size_t>(Pick(rng, 0, with_views ? 7 : 6))];
    std::vector<int> from = {Pick(rng, std::max(-1, n - 6), n - 1)};
    if (op == "Add" || op == "Mul") from.push_back(Pick(rng, std::max(-1, n - 6), n - 1));
    std::vector<std::string> inputs;
    for (int f : from) inputs.push_back(value(f));
    if (op == "MatMul") inputs.push_back("w");
    if (op == "ReduceMean") inputs.push_back("axis");
    onnx::NodeProto* node = maker.Node(op, inputs, {value(n)});
    node->set_name(Name(n));
    std::erase(from, -1);
    reads.push_back(from);
    views.push_back(op == "Transpose");
    // A row mean has another shape, which broadcasts, but does not fit matmuls.
    if (op == "ReduceMean") {
      node->mutable_output()->Clear();
      node->add_output(value(n) + "row");
      maker.Node("Expand", {value(n) + "row", "shape"}, {value(n)})->set_name("wide" + std::to_string(n));
    }
  }
  maker.Ints("shape", {4, 4});
  alive.assign(static_cast<size_t>(nodes), false);
  for (int n = nodes; n-- > 0;) {
    const bool output = n == nodes - 1 || Pick(rng, 0, 5) == 0;
    if (output) {
      maker.Node("Exp", {value(n)}, {"y" + std::to_string(n)});
      maker.Output("y" + std::to_string(n));
      alive[static_cast<size_t>(n)] = true;
    }
    if (!Alive(n)) continue;
    for (int f : reads[static_cast<size_t>(n)]) alive[static_cast<size_t>(f)] = true;
  }
}

bool OrderedModel::Reads(int late, int early) const {
  const auto& from = reads[static_cast<size_t>(late)];
  return std::any_of(from.begin(), from.end(), [&](int f) { return f == early || Reads(f, early); });
}

std::set<std::pair<int, int>> OrderedModel::Consistent(std::mt19937* rng, int pairs) const {
  const int nodes = static_cast<int>(reads.size());
  std::vector<int> place(reads.size(), -1);  // positions in a random order that data allows
  for (int next = 0; next < nodes; ++next) {
    std::vector<int> ready;
    for (int n = 0; n < nodes; ++n) {
      const auto& from = reads[static_cast<size_t>(n)];
      const bool all =
          std::all_of(from.begin(), from.end(), [&](int f) { return place[static_cast<size_t>(f)] >= 0; });
      if (all && place[static_cast<size_t>(n)] < 0) ready.push_back(n);
    }
    place[static_cast<size_t>(ready[static_cast<size_t>(Pick(rng, 0, static_cast<int>(ready.size()) - 1))])] =
        next;
  }
  std::set<std::pair<int, int>> orders;
  for (int i = 0; i < pairs; ++i) {
    int late = Pick(rng, 0, nodes - 1), early = Pick(rng, 0, nodes - 1);
    if (late == early) continue;
    if (place[static_cast<size_t>(late)] < place[static_cast<size_t>(early)]) std::swap(late, early);
    orders.insert({late, early});
  }
  return orders;
}

std::set<std::pair<int, int>> OrderedModel::Effective(const std::set<std::pair<int, int>>& orders) const {
  std::set<std::pair<int, int>> all = orders, effective;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [late, middle] : std::set<std::pair<int, int>>(all)) {
      if (RunsSomething(middle)) continue;
      for (const auto& [from, early] : orders) {
        if (from == middle) more = all.insert({late, early}).second || more;
      }
    }
  }
  for (const auto& order : all) {
    if (RunsSomething(order.first) && RunsSomething(order.second)) effective.insert(order);
  }
  return effective;
}

bool OrderedModel::Contradicts(const std::set<std::pair<int, int>>& orders) const {
  const int nodes = static_cast<int>(reads.size());
  if (HasCycle(nodes, orders)) return true;
  std::set<std::pair<int, int>> edges = Effective(orders);
  for (int n = 0; n < nodes; ++n) {
    if (!Alive(n)) continue;
    for (int f : reads[static_cast<size_t>(n)]) edges.insert({n, f});
  }
  return HasCycle(nodes, edges);
}

std::vector<NodeAnnotation> OrderedModel::Annotations(const std::set<std::pair<int, int>>& orders) const {
  std::vector<NodeAnnotation> annotations;
  for (const auto& [late, early] : orders) annotations.push_back({Name(late), "after", Name(early)});
  return annotations;
}

std::string OutOfOrder(const PlanData& plan, const OrderedModel& model,
                       const std::set<std::pair<int, int>>& after) {
  for (const Program& program : plan.programs) {
    check::StepOrder order;
    Arena arena;
    if (!order.Build(program, arena).ok()) return "the order of the steps is not known";
    const auto steps_of = [&](int node) {
      std::vector<uint32_t> steps;
      for (uint32_t s = 0; s < program.steps.size(); ++s) {
        const uint32_t source = program.steps[s].source;
        // Collectives that join the devices' shares do not belong to the node.
        const bool own = source != kNone && program.steps[s].sync_point == kNone;
        if (own && plan.sources[source].find("\"" + model.Name(node) + "\"") != std::string_view::npos)
          steps.push_back(s);
      }
      return steps;
    };
    for (const auto& [late, early] : after) {
      const std::vector<uint32_t> before = steps_of(early), behind = steps_of(late);
      // A kernel that computes a pattern does not name all of its nodes.
      const std::string what = model.Name(late) + " after " + model.Name(early);
      for (uint32_t b : before) {
        for (uint32_t l : behind) {
          const bool one_device = program.steps[b].device == program.steps[l].device;
          const bool kept = b == l ? model.Reads(late, early) : order.Before(b, l);
          if (one_device && !kept) return what + ": step " + std::to_string(l) + " and " + std::to_string(b);
        }
      }
    }
  }
  return "";
}

}  // namespace rondo
