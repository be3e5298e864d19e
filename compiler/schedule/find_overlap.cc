#include "compiler/schedule/find_overlap.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/keep_together.h"
#include "compiler/schedule/least_memory.h"
#include "compiler/schedule/partition.h"

namespace rondo {
namespace {

constexpr int64_t kSimulationWork = 100'000'000;  // ops that are looked at, about a second
constexpr int kMostTries = 3;                     // limits of live bytes that are tried
constexpr double kEqual = 1e-6;                   // times that differ by a smaller share are equal

// By op: its segment. No op leaves or enters a segment.
std::vector<int> SegmentsOf(const LoweredProgram& program, const std::vector<std::string>& break_before) {
  std::vector<std::string> found;
  const std::vector<SeamStep> steps = SeamSteps(program, break_before, &found);
  std::vector<int> segments(steps.size(), 0);
  for (size_t i = 1; i < steps.size(); ++i) {
    const bool cut = !steps[i].user_break.empty() || !steps[i].unsafe.empty() ||
                     !steps[i - 1].unsafe.empty() || program.ops[i].loop != program.ops[i - 1].loop ||
                     RegionOf(program.ops[i]) != RegionOf(program.ops[i - 1]);
    segments[i] = segments[i - 1] + cut;
  }
  return segments;
}

int64_t ArenaOf(const LoweredProgram& program, const std::vector<int>& order) {
  LoweredProgram ordered = program;
  Reorder(order, &ordered);
  return PlanMemory(ordered).arena_bytes;
}

}  // namespace

OverlapFinder::OverlapFinder(const LoweredProgram& program, const OverlapOptions& options,
                             Estimates estimates)
    : program_(program),
      budget_(options.budget),
      model_(program, MemoryModel::TakeOvers::kByOrder),
      estimates_(std::move(estimates)),
      segments_(SegmentsOf(program, options.break_before)),
      work_(kSimulationWork) {}

FoundOverlap OverlapFinder::Given(int64_t ahead, int64_t uncut_arena) const {
  FoundOverlap found;
  found.order.resize(program_.ops.size());
  std::iota(found.order.begin(), found.order.end(), 0);
  found.end = EndOf(found.order);
  found.arena_after = ArenaOf(program_, found.order);
  found.arena_before = std::max(found.arena_after, uncut_arena);
  found.arena_limit =
      found.arena_before + ahead + static_cast<int64_t>(static_cast<double>(found.arena_before) * budget_);
  return found;
}

FoundOverlap OverlapFinder::Find(FoundOverlap found) {
  found.end = EndOf(found.order);
  // Live bytes are a lower bound on the arena. If packing or streams need more, fewer live bytes are allowed.
  int64_t live = found.arena_limit;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const int64_t over = TryWith(live, &found);
    if (over <= 0 || over > live) break;
    live -= over;
  }
  return found;
}

// Takes the best order with at most `live` live bytes whose arena is within the limit. Returns by how many
// bytes the smallest arena of the orders that end earlier exceeds the limit; not positive if one was taken.
int64_t OverlapFinder::TryWith(int64_t live, FoundOverlap* found) {
  int64_t least_over = std::numeric_limits<int64_t>::max();
  for (Candidate& candidate : Candidates(live)) {
    if (candidate.end >= found->end * (1 - kEqual)) continue;
    const int64_t arena = ArenaOf(program_, candidate.order);
    least_over = std::min(least_over, arena - found->arena_limit);
    if (arena > found->arena_limit) continue;
    found->end = candidate.end;
    found->order = std::move(candidate.order);
    found->arena_after = arena;
  }
  return least_over;
}

// Orders whose live bytes stay within `limit`, those that end first in front: the given order improved by the
// passes, the beam search's order, and that order improved by the passes.
std::vector<OverlapFinder::Candidate> OverlapFinder::Candidates(int64_t limit) {
  Arrangement arrangement(program_, model_, segments_, limit);
  std::vector<Candidate> candidates = {Improve(&arrangement)};
  if (const auto order = BeamOrder(arrangement, model_, estimates_, limit)) {
    arrangement.Take(*order);
    candidates.push_back(Now(arrangement));
    candidates.push_back(Improve(&arrangement));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.end < b.end * (1 - kEqual); });
  return candidates;
}

std::string OverlapFinder::LimitOf(const std::vector<int>& order, int c, int64_t arena_limit) {
  Arrangement free(program_, model_, segments_, std::numeric_limits<int64_t>::max());
  free.Take(order);
  const int maker = free.KeptFromEarlier(free.start(c)), reader = free.KeptFromLater(free.wait(c));
  RaiseCollectives(&free);
  SinkWaits(&free);
  MoveComputeBesideCollectives(estimates_, c, &free, &work_);
  if (EndOf(free.order()) < EndOf(order) * (1 - kEqual)) {
    return "memory: " + std::to_string(CostOf(model_, order).peak) +
           " bytes live at the peak, and there would be " + std::to_string(free.peak()) +
           " where the arena may have " + std::to_string(arena_limit);
  }
  const CollectiveTimes times =
      Simulate(estimates_.steps, order, estimates_.peers).collectives[static_cast<size_t>(c)];
  if (2 * (times.begin - times.arrive) > times.exposed) return "other devices come to it later";
  return "nothing else is ready between " + Name(maker, "the start") + " and " + Name(reader, "the end");
}

OverlapFinder::Candidate OverlapFinder::Improve(Arrangement* arrangement) {
  RaiseCollectives(arrangement);
  SinkWaits(arrangement);
  MoveComputeBesideCollectives(estimates_, -1, arrangement, &work_);
  SinkWaits(arrangement);
  return Now(*arrangement);
}

OverlapFinder::Candidate OverlapFinder::Now(const Arrangement& arrangement) const {
  return {arrangement.order(), EndOf(arrangement.order())};
}

double OverlapFinder::EndOf(const std::vector<int>& order) const { return estimates_.Of(order).end; }

std::string OverlapFinder::Name(int op, const char* none) const {
  if (op < 0) return none;
  const std::vector<std::string>& sources = program_.ops[static_cast<size_t>(op)].sources;
  return sources.empty() ? "step " + std::to_string(op) : sources.front();
}

}  // namespace rondo
