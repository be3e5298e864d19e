#include "compiler/schedule/overlap.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>

#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/communication_passes.h"
#include "compiler/schedule/least_memory.h"
#include "compiler/schedule/partition.h"

namespace rondo {
namespace {

constexpr int64_t kSimulationWork = 100'000'000;  // ops looked at: about a second
constexpr int kMostArenas = 9;                    // orders whose arenas are planned
constexpr double kEqual = 1e-6;                   // times that differ by less are the same

// Runs of ops that no other may leave or enter.
std::vector<int> SegmentsOf(const LoweredProgram& program, const std::vector<std::string>& break_before) {
  std::vector<std::string> found;
  const std::vector<SeamStep> steps = SeamSteps(program, break_before, &found);
  std::vector<int> segments(steps.size(), 0);
  for (size_t i = 1; i < steps.size(); ++i) {
    const bool cut = !steps[i].user_break.empty() || !steps[i].unsafe.empty() ||
                     !steps[i - 1].unsafe.empty() || program.ops[i].loop != program.ops[i - 1].loop;
    segments[i] = segments[i - 1] + cut;
  }
  return segments;
}

struct Candidate {
  std::vector<int> order;
  double end = 0;
};

class Overlap {
 public:
  Overlap(const LoweredProgram& program, const OverlapOptions& options)
      : program_(program),
        model_(program),
        times_(OpTimes(options.costs, program)),
        segments_(SegmentsOf(program, options.break_before)),
        work_(kSimulationWork) {}

  const std::vector<double>& times() const { return times_; }

  // Orders whose live bytes stay within `limit`, those that end first first: what the passes make of the
  // order given, what a beam search finds, and what they make of that.
  std::vector<Candidate> Candidates(int64_t limit) {
    Arrangement arrangement(program_, model_, segments_, limit);
    std::vector<Candidate> candidates = {Improve(&arrangement)};
    if (const auto order = BeamOrder(arrangement, model_, times_, limit)) {
      arrangement.Take(*order);
      candidates.push_back(Now(arrangement));
      candidates.push_back(Improve(&arrangement));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.end < b.end * (1 - kEqual); });
    return candidates;
  }

  // Why what is exposed of collective `c` in `order` is not hidden.
  std::string LimitOf(const std::vector<int>& order, int c) {
    Arrangement free(program_, model_, segments_, std::numeric_limits<int64_t>::max());
    free.Take(order);
    const int maker = free.KeptFromEarlier(free.start(c)), reader = free.KeptFromLater(free.wait(c));
    RaiseCollectives(&free);
    SinkWaits(&free);
    MoveComputeBesideCollectives(times_, c, &free, &work_);
    if (EndOf(free.order()) < EndOf(order) * (1 - kEqual)) return "memory";
    return "nothing else is ready between " + Name(maker, "the start") + " and " + Name(reader, "the end");
  }

 private:
  Candidate Improve(Arrangement* arrangement) {
    RaiseCollectives(arrangement);
    SinkWaits(arrangement);
    MoveComputeBesideCollectives(times_, -1, arrangement, &work_);
    SinkWaits(arrangement);
    return Now(*arrangement);
  }
  Candidate Now(const Arrangement& arrangement) const {
    return {arrangement.order(), EndOf(arrangement.order())};
  }
  double EndOf(const std::vector<int>& order) const { return Simulate(program_, times_, order).end; }
  std::string Name(int op, const char* none) const {
    if (op < 0) return none;
    const std::vector<std::string>& sources = program_.ops[static_cast<size_t>(op)].sources;
    return sources.empty() ? "step " + std::to_string(op) : sources.front();
  }

  const LoweredProgram& program_;
  const MemoryModel model_;
  const std::vector<double> times_;
  const std::vector<int> segments_;
  int64_t work_;
};

// Between the given order and `order`.
void CountMoves(const LoweredProgram& program, const std::vector<int>& order, int collective,
                OverlapNote* note) {
  int start = 0, wait = 0;  // positions in the given order
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    if (op.collective == collective && op.kind == LoweredKind::kCollectiveStart) start = static_cast<int>(i);
    if (op.collective == collective && op.kind == LoweredKind::kCollectiveWait) wait = static_cast<int>(i);
  }
  bool started = false, over = false;
  for (int op : order) {
    if (op == start || op == wait) {
      (op == start ? started : over) = true;
      continue;
    }
    note->raised += op < start && started;
    note->sunk += op > wait && !over;
    note->moved += started && !over && (op < start || op > wait);
  }
}

int64_t ArenaOf(const LoweredProgram& program, const std::vector<int>& order) {
  LoweredProgram ordered = program;
  Reorder(order, &ordered);
  return PlanMemory(ordered).arena_bytes;
}

std::string Sentence(const OverlapReport& report) {
  double before = 0, after = 0;
  for (const OverlapNote& c : report.collectives) {
    before += c.exposed_before;
    after += c.exposed_after;
  }
  char text[240];
  std::snprintf(
      text, sizeof text,
      "%zu collectives: exposed %.1f -> %.1f us of a run of %.1f -> %.1f us by estimate; arena %lld -> "
      "%lld bytes, at most %lld",
      report.collectives.size(), before, after, report.end_before, report.end_after,
      static_cast<long long>(report.arena_before), static_cast<long long>(report.arena_after),
      static_cast<long long>(report.arena_limit));
  return text;
}

}  // namespace

OverlapReport OverlapCollectives(LoweredProgram* program, const OverlapOptions& options) {
  OverlapReport report;
  if (program->collectives.empty()) {
    report.text = "no collectives";
    return report;
  }
  std::vector<int> given(program->ops.size());
  std::iota(given.begin(), given.end(), 0);
  Overlap overlap(*program, options);
  const Timeline before = Simulate(*program, overlap.times(), given, true);
  report.arena_before = report.arena_after = ArenaOf(*program, given);
  report.arena_limit = report.arena_before + options.ahead +
                       static_cast<int64_t>(static_cast<double>(report.arena_before) * options.budget);

  // Live bytes say what an arena needs at least: where packing or streams take more, with less live.
  Candidate found;
  found.order = given;
  int64_t live = report.arena_limit;
  double end = before.end;
  for (int arenas = 0; arenas < kMostArenas;) {
    int64_t least_over = std::numeric_limits<int64_t>::max();
    for (Candidate& candidate : overlap.Candidates(live)) {
      if (candidate.end >= end * (1 - kEqual)) continue;
      const int64_t arena = ArenaOf(*program, candidate.order);
      ++arenas;
      least_over = std::min(least_over, arena - report.arena_limit);
      if (arena > report.arena_limit) continue;
      end = candidate.end;
      found = std::move(candidate);
      report.arena_after = arena;
    }
    if (least_over <= 0 || least_over > live) break;
    live -= least_over;
  }

  const Timeline after = Simulate(*program, overlap.times(), found.order, true);
  report.end_before = before.end;
  report.end_after = after.end;
  for (size_t c = 0; c < program->collectives.size(); ++c) {
    const CollectiveTimes &was = before.collectives[c], &is = after.collectives[c];
    OverlapNote note;
    note.sync_point = static_cast<uint32_t>(c);
    note.time = is.end - is.begin;
    note.beside_before = was.beside;
    note.beside_after = is.beside;
    note.exposed_before = was.exposed;
    note.exposed_after = is.exposed;
    CountMoves(*program, found.order, static_cast<int>(c), &note);
    if (is.exposed > 0.01 * note.time) note.limit = overlap.LimitOf(found.order, static_cast<int>(c));
    report.collectives.push_back(std::move(note));
  }
  Reorder(found.order, program);
  report.text = Sentence(report);
  return report;
}

}  // namespace rondo
