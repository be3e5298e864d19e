#include "compiler/schedule/overlap.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "compiler/schedule/find_overlap.h"
#include "compiler/schedule/least_memory.h"
#include "compiler/schedule/op_times.h"
#include "formats/plan/peer_times.h"

namespace rondo {
namespace {

constexpr double kRounding = 1e-9;   // share of the run
constexpr double kLeastGain = 1e-4;  // share of the run; a larger gain starts another round
constexpr int kMostRounds = 4;
constexpr size_t kMostTriedAgain = 1000;  // ops of all devices; more get orders from only one beginning

TimedDevice TimedDeviceOf(const ProgramOnDevice& on, const CostModel& costs) {
  TimedDevice timed;
  timed.device = on.device;
  timed.steps = TimedStepsOf(costs, *on.program);
  timed.order.resize(on.program->ops.size());
  std::iota(timed.order.begin(), timed.order.end(), 0);
  for (const LoweredCollective& c : on.program->collectives) timed.groups.push_back(c.group);
  return timed;
}

// Counts the moves between the given order and `order`.
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

// The programs of a run's devices while their orders are improved.
class Devices {
 public:
  Devices(const std::vector<ProgramOnDevice>& programs, const OverlapOptions& options)
      : programs_(programs), options_(options) {
    for (const ProgramOnDevice& program : programs) {
      timed_.push_back(TimedDeviceOf(program, options.costs));
      ops_ += program.program->ops.size();
      given_.found.push_back(OverlapFinder(*program.program, options, {timed_.back().steps, {}})
                                 .Given(program.ahead, program.uncut_arena));
    }
    const Meetings meetings(timed_);
    given_.end = meetings.EndOfRun(timed_);
    lines_before_ = Lines(meetings.Times(timed_));
    state_ = given_;
  }

  // If devices wait for each other, the best order of one depends on the others'. The search goes device by
  // device, from several beginnings, until the run ends no earlier.
  void Find() {
    if (!Meetings(timed_).any()) return FindOnce(false);
    State best = given_;
    for (const bool alone : {true, false}) {
      for (const bool backwards : {false, true}) {
        FindFrom(alone, backwards);
        if (state_.end < best.end * (1 - kRounding)) best = state_;
        if (ops_ > kMostTriedAgain) return Put(best);
      }
    }
    Put(best);
  }

  // Applies the orders found to the programs.
  std::vector<OverlapReport> Finish() {
    const std::vector<PeerTimes> peers = Meetings(timed_).Times(timed_);
    const std::vector<Timeline> lines = Lines(peers);
    std::vector<OverlapReport> reports;
    for (size_t d = 0; d < programs_.size(); ++d) {
      reports.push_back(ReportOf(d, lines[d], peers[d]));
      Reorder(timed_[d].order, programs_[d].program);
    }
    return reports;
  }

 private:
  struct State {
    std::vector<FoundOverlap> found;  // by program
    double end = 0;                   // of the run on all devices
  };

  std::vector<Timeline> Lines(const std::vector<PeerTimes>& peers) const {
    std::vector<Timeline> lines;
    for (size_t d = 0; d < timed_.size(); ++d)
      lines.push_back(Simulate(timed_[d].steps, timed_[d].order, peers[d], true));
    return lines;
  }

  // Starts from the given orders, or from those that are best if nobody waits.
  void FindFrom(bool alone, bool backwards) {
    Put(given_);
    if (alone) {
      std::vector<size_t> all(timed_.size());
      std::iota(all.begin(), all.end(), 0);
      std::vector<FoundOverlap> now;
      for (size_t d : all) now.push_back(Finder(d, {timed_[d].steps, {}}).Find(given_.found[d]));
      Take(all, std::move(now));
    }
    for (int round = 0; round < kMostRounds; ++round) {
      const double end = state_.end;
      FindOnce(backwards);
      if (state_.end >= end * (1 - kLeastGain)) break;
    }
  }

  // Handles one kind of device after the other.
  void FindOnce(bool backwards) {
    const std::vector<size_t> kinds = KindsOf(timed_);
    std::vector<bool> done(programs_.size(), false);
    for (size_t i = 0; i < programs_.size(); ++i) {
      const size_t d = backwards ? programs_.size() - 1 - i : i;
      if (done[d]) continue;
      const std::vector<PeerTimes> peers = Meetings(timed_).Times(timed_);
      std::vector<size_t> alike;
      for (size_t e = 0; e < programs_.size(); ++e) {
        if (done[e] || kinds[e] != kinds[d] || peers[e] != peers[d]) continue;
        alike.push_back(e);
        done[e] = true;
      }
      FindFor(alike, peers[d]);
    }
  }

  // Improves the order of devices whose steps and peers are the same.
  void FindFor(const std::vector<size_t>& alike, const PeerTimes& peers) {
    std::vector<FoundOverlap> now;
    const Meetings meetings(timed_);
    std::vector<TimedDevice> tried;
    if (meetings.any()) tried = timed_;
    Estimates estimates{timed_[alike[0]].steps, peers};
    if (meetings.any()) {
      estimates.devices = static_cast<int>(timed_.size());
      estimates.end_of_run = [&](const std::vector<int>& order) {
        for (size_t d : alike) tried[d].order = order;
        return meetings.EndOfRun(tried);
      };
    }
    for (size_t d : alike) now.push_back(Finder(d, estimates).Find(given_.found[d]));
    Take(alike, std::move(now));
  }

  // Keeps the old orders if the run on all devices would end later.
  void Take(const std::vector<size_t>& devices, std::vector<FoundOverlap> now) {
    State had = state_;
    for (size_t i = 0; i < devices.size(); ++i) {
      state_.found[devices[i]] = std::move(now[i]);
      timed_[devices[i]].order = state_.found[devices[i]].order;
    }
    state_.end = Meetings(timed_).EndOfRun(timed_);
    if (state_.end > had.end * (1 + kRounding)) Put(std::move(had));
  }
  void Put(State state) {
    state_ = std::move(state);
    for (size_t d = 0; d < timed_.size(); ++d) timed_[d].order = state_.found[d].order;
  }
  OverlapFinder Finder(size_t d, Estimates estimates) const {
    return {*programs_[d].program, options_, std::move(estimates)};
  }

  OverlapReport ReportOf(size_t d, const Timeline& line, const PeerTimes& peers) const {
    const LoweredProgram& program = *programs_[d].program;
    OverlapFinder finder = Finder(d, {timed_[d].steps, peers});
    OverlapReport report;
    report.end_before = given_.end;
    report.end_after = state_.end;
    report.arena_before = state_.found[d].arena_before;
    report.arena_after = state_.found[d].arena_after;
    report.arena_limit = state_.found[d].arena_limit;
    for (size_t c = 0; c < program.collectives.size(); ++c) {
      const CollectiveTimes &was = lines_before_[d].collectives[c], &is = line.collectives[c];
      OverlapNote note;
      note.sync_point = static_cast<uint32_t>(c);
      note.time = is.end - is.begin;
      note.late = is.begin - is.arrive;
      note.beside_before = was.beside;
      note.beside_after = is.beside;
      note.exposed_before = was.exposed;
      note.exposed_after = is.exposed;
      CountMoves(program, timed_[d].order, static_cast<int>(c), &note);
      const LoweredCollective& collective = program.collectives[c];
      note.chunk = collective.chunk;
      note.chunks = collective.chunks;
      if (is.exposed > 0.01 * note.time) {
        note.limit = finder.LimitOf(timed_[d].order, static_cast<int>(c), report.arena_limit);
        if (!collective.whole_because.empty()) note.limit += "; not cut: " + collective.whole_because;
      }
      report.collectives.push_back(std::move(note));
    }
    report.text = Sentence(report);
    return report;
  }

  const std::vector<ProgramOnDevice>& programs_;
  const OverlapOptions& options_;
  size_t ops_ = 0;
  State given_, state_;
  std::vector<TimedDevice> timed_;  // by program; the orders are those of state_
  std::vector<Timeline> lines_before_;
};

}  // namespace

std::vector<OverlapReport> OverlapOnDevices(const std::vector<ProgramOnDevice>& programs,
                                            const OverlapOptions& options) {
  const bool none = std::all_of(programs.begin(), programs.end(),
                                [](const ProgramOnDevice& p) { return p.program->collectives.empty(); });
  if (none) {
    OverlapReport report;
    report.text = "no collectives";
    for (const ProgramOnDevice& on : programs) {
      const TimedDevice timed = TimedDeviceOf(on, options.costs);
      report.end_before = report.end_after =
          std::max(report.end_after, Simulate(timed.steps, timed.order).end);
    }
    return std::vector<OverlapReport>(programs.size(), report);
  }
  Devices devices(programs, options);
  devices.Find();
  return devices.Finish();
}

OverlapReport OverlapCollectives(LoweredProgram* program, const OverlapOptions& options) {
  return OverlapOnDevices({{0, program}}, options)[0];
}

}  // namespace rondo
