#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <cstdio>

#include "compiler/memory/in_place.h"
#include "compiler/memory/packing.h"

namespace rondo {
namespace {

// Limits of a search: looks at a value in the exact search (about half a second), values times orders.
constexpr int64_t kSearchWork = 100'000'000, kOrderWork = 1'000'000;

}  // namespace

MemoryPlan PlanMemory(const LoweredProgram& program) {
  MemoryPlan plan;
  plan.lives = Lifetimes(program);
  const StreamOrder order(program);
  plan.takes_over = TakesOver(program, order, plan.lives);
  const size_t count = program.values.size();

  // Values that take over one another are one buffer of the packing problem, named by their first value. A
  // value can come before the one it takes over in the list, so follow each chain to its end.
  std::vector<size_t> root(count, count);
  for (size_t v = 0; v < count; ++v) {
    size_t end = v;
    while (root[end] == count && plan.takes_over[end] >= 0) end = static_cast<size_t>(plan.takes_over[end]);
    if (root[end] < count) end = root[end];
    for (size_t at = v; root[at] == count; at = static_cast<size_t>(plan.takes_over[at])) {
      root[at] = end;
      if (at == end) break;
    }
    if (plan.takes_over[v] >= 0) ++plan.in_place;
  }
  const ArenaProblem problem = MakeArenaProblem(program, order, plan.lives, root);
  PackingOptions options;
  const auto values = static_cast<int64_t>(count) + 1;
  options.work = kSearchWork;
  options.capacity = problem.least_bytes;
  options.rounds = static_cast<int>(std::min<int64_t>(kOrderWork / values, 2000));
  const PackingSolution solution = Pack(problem.packing, options);
  plan.offsets.resize(count);
  for (size_t v = 0; v < count; ++v) plan.offsets[v] = solution.offsets[root[v]];
  plan.arena_bytes = solution.height;
  plan.lower_bound = problem.least_bytes;

  char text[256];
  const int64_t over = plan.arena_bytes - plan.lower_bound;
  std::snprintf(text, sizeof text,
                "arena %lld bytes, %s the lower bound of %lld; %d values in place of others",
                static_cast<long long>(plan.arena_bytes), over == 0 ? "which is" : "above",
                static_cast<long long>(plan.lower_bound), plan.in_place);
  plan.text = text;
  if (!order.total()) plan.text += "; on " + std::to_string(order.streams()) + " streams";
  if (problem.widened) plan.text += ", too many values at once to compare one by one";
  return plan;
}

}  // namespace rondo
