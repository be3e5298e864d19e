#include "compiler/memory/arena_problem.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/memory/antichain.h"
#include "compiler/memory/stream_lives.h"

namespace rondo {
namespace {

// For the bound of problems with conflicts: the most values, and looks at pairs of them (well below a
// second).
constexpr size_t kMostForBound = 1500;
constexpr int64_t kBoundWork = 100'000'000;

// The lifetime of a value's memory: its life; inputs (outputs) that no step touches live at step 0 (at the
// last step).
Life MemoryLife(const LoweredProgram& program, const LoweredValue& value, Life life) {
  if (life.used()) return life;
  const int last_step = std::max(static_cast<int>(program.ops.size()) - 1, 0);
  if (IsInput(value.kind)) return {0, IsOutput(value.kind) ? last_step : 0};
  if (IsOutput(value.kind)) return {last_step, last_step};
  return life;
}

PackingProblem ByLifetimes(const LoweredProgram& program, const std::vector<Life>& lives,
                           const std::vector<size_t>& root_of) {
  PackingProblem problem;
  problem.alignment = kArenaAlignment;
  problem.buffers.resize(program.values.size());
  for (size_t v = 0; v < program.values.size(); ++v) {
    const LoweredValue& value = program.values[v];
    const Life life = MemoryLife(program, value, lives[v]);
    if (!InArena(value.kind) || !life.used()) continue;
    PackingBuffer& buffer = problem.buffers[root_of[v]];
    const bool first = buffer.size == 0;
    buffer.lower = first ? life.first : std::min<int64_t>(buffer.lower, life.first);
    buffer.upper = first ? life.last + 1 : std::max<int64_t>(buffer.upper, life.last + 1);
    buffer.size = std::max(buffer.size, value.bytes);
  }
  return problem;
}

// Pairs of buffers that live at one time if each lives until `until`: their number, the number of those that
// do so by their own lifetimes, and the number that conflict.
struct Pairs {
  int64_t until = 0, steps = 0, conflicts = 0;
  std::vector<std::vector<int>> named;  // as PackingProblem::conflicts
};

// False if there are more than `most` to look at.
bool FindPairs(const PackingProblem& problem, const std::vector<int64_t>& until, const StreamLives& lives,
               int64_t most, Pairs* pairs) {
  const std::vector<PackingBuffer>& buffers = problem.buffers;
  pairs->named.resize(buffers.size());
  std::vector<int> order(buffers.size()), live;
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int b) { return buffers[static_cast<size_t>(b)].size == 0; });
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return buffers[static_cast<size_t>(a)].lower < buffers[static_cast<size_t>(b)].lower;
  });
  for (int b : order) {
    const size_t new_one = static_cast<size_t>(b);
    const int64_t now = buffers[new_one].lower;
    std::erase_if(live, [&](int a) { return until[static_cast<size_t>(a)] <= now; });
    pairs->until += static_cast<int64_t>(live.size());
    if (pairs->until > most) return false;
    for (int a : live) {
      const size_t old_one = static_cast<size_t>(a);
      pairs->steps += buffers[old_one].upper > now;
      if (!lives.Conflict(old_one, new_one)) continue;
      ++pairs->conflicts;
      pairs->named[old_one].push_back(b);
      pairs->named[new_one].push_back(a);
    }
    live.push_back(b);
  }
  return true;
}

// The most bytes in use at once on some timing, if that is found quickly; otherwise 0.
int64_t MostAtOnce(const PackingProblem& problem, const StreamLives& lives) {
  std::vector<size_t> used;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].size != 0) used.push_back(b);
  }
  if (used.size() > kMostForBound) return 0;
  std::vector<int64_t> bytes;
  std::vector<std::vector<int>> after(used.size());
  for (size_t a = 0; a < used.size(); ++a) {
    bytes.push_back((problem.buffers[used[a]].size + kArenaAlignment - 1) / kArenaAlignment *
                    kArenaAlignment);
    for (size_t b = 0; b < used.size(); ++b) {
      if (a != b && lives.Before(used[a], used[b])) after[a].push_back(static_cast<int>(b));
    }
  }
  return HeaviestAntichain(bytes, after, kBoundWork).value_or(0);
}

}  // namespace

ArenaProblem MakeArenaProblem(const LoweredProgram& program, const StreamOrder& order,
                              const std::vector<Life>& lives, const std::vector<size_t>& root_of,
                              int64_t most_pairs) {
  ArenaProblem problem;
  problem.packing = ByLifetimes(program, lives, root_of);
  problem.least_bytes = PackingLowerBound(problem.packing);
  if (order.total()) return problem;
  std::vector<PackingBuffer>& buffers = problem.packing.buffers;
  StreamLives streams(program, order, lives);
  for (size_t v = 0; v < root_of.size(); ++v) {
    if (root_of[v] != v) streams.Merge(root_of[v], v);
  }
  std::vector<int64_t> until(buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].size != 0) until[b] = std::max<int64_t>(buffers[b].upper, streams.LastBeside(b) + 1);
  }
  Pairs pairs;
  problem.widened = !FindPairs(problem.packing, until, streams, most_pairs, &pairs);
  if (!problem.widened && pairs.conflicts == pairs.steps) return problem;
  if (!problem.widened && pairs.conflicts != pairs.until) {
    problem.packing.conflicts = std::move(pairs.named);
    problem.least_bytes = std::max(problem.least_bytes, MostAtOnce(problem.packing, streams));
    return problem;
  }
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].size != 0) buffers[b].upper = until[b];
  }
  if (!problem.widened) problem.least_bytes = PackingLowerBound(problem.packing);
  return problem;
}

}  // namespace rondo
