#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <cstdio>

#include "compiler/memory/packing.h"

namespace rondo {
namespace {

// What a search may cost: looks at a value in the exact search (about half a second), values times orders.
constexpr int64_t kSearchWork = 100'000'000, kOrderWork = 1'000'000;

// When a value needs its memory: its life, and step 0 for inputs and the last step for outputs that no step
// touches.
Life MemoryLife(const LoweredProgram& program, const LoweredValue& value, Life life) {
  if (life.used()) return life;
  const int last_step = std::max(static_cast<int>(program.ops.size()) - 1, 0);
  if (value.kind == BufferKind::kInput) return {0, 0};
  if (value.kind == BufferKind::kOutput) return {last_step, last_step};
  return life;
}

}  // namespace

MemoryPlan PlanMemory(const LoweredProgram& program) {
  MemoryPlan plan;
  plan.lives = Lifetimes(program);
  plan.takes_over = Donations(program, plan.lives);
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
    if (plan.takes_over[v] >= 0) ++plan.donations;
  }
  PackingProblem problem;
  problem.alignment = kArenaAlignment;
  problem.buffers.resize(count);
  for (size_t v = 0; v < count; ++v) {
    const LoweredValue& value = program.values[v];
    const Life life = MemoryLife(program, value, plan.lives[v]);
    if (!InArena(value.kind) || !life.used()) continue;
    PackingBuffer& buffer = problem.buffers[root[v]];
    const bool first = buffer.size == 0;
    buffer.lower = first ? life.first : std::min<int64_t>(buffer.lower, life.first);
    buffer.upper = first ? life.last + 1 : std::max<int64_t>(buffer.upper, life.last + 1);
    buffer.size = std::max(buffer.size, value.bytes);
  }

  PackingOptions options;
  const auto values = static_cast<int64_t>(count) + 1;
  options.work = kSearchWork;
  options.rounds = static_cast<int>(std::min<int64_t>(kOrderWork / values, 2000));
  const PackingSolution solution = Pack(problem, options);
  plan.offsets.resize(count);
  for (size_t v = 0; v < count; ++v) plan.offsets[v] = solution.offsets[root[v]];
  plan.arena_bytes = solution.height;
  plan.lower_bound = solution.lower_bound;

  char text[256];
  const int64_t over = plan.arena_bytes - plan.lower_bound;
  std::snprintf(text, sizeof text,
                "arena %lld bytes, %s the lower bound of %lld; %d values in place of others",
                static_cast<long long>(plan.arena_bytes), over == 0 ? "which is" : "above",
                static_cast<long long>(plan.lower_bound), plan.donations);
  plan.text = text;
  return plan;
}

}  // namespace rondo
