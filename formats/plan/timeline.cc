#include "formats/plan/timeline.h"

#include <algorithm>

namespace rondo {
namespace {

struct Interval {
  double begin, end;
};

// The end of compute of length `time` that begins at `begin`. `collectives` run one after another, and each
// takes its part of the device.
double EndOfCompute(double begin, double time, const std::vector<Interval>& collectives, double taken) {
  double end = begin + time;
  if (taken == 0) return end;
  const auto first = std::partition_point(collectives.begin(), collectives.end(),
                                          [&](const Interval& c) { return c.end <= begin; });
  for (auto c = first; c != collectives.end() && c->begin < end; ++c) {
    const double from = std::max(begin, c->begin), left = end - from;
    end = std::min(from + left / (1 - taken), end + (c->end - from) * taken);
  }
  return end;
}

double At(const std::vector<double>& times, size_t i) { return i < times.size() ? times[i] : 0; }

// Adds up the compute on all streams that runs beside each collective. Both are swept in order of their
// begins. Compute that runs on two streams at once counts twice.
void SumBeside(std::vector<Interval> computed, std::vector<CollectiveTimes>* collectives) {
  std::sort(computed.begin(), computed.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  double longest = 0;
  for (const Interval& interval : computed) longest = std::max(longest, interval.end - interval.begin);
  for (CollectiveTimes& c : *collectives) {
    const auto first = std::partition_point(computed.begin(), computed.end(), [&](const Interval& interval) {
      return interval.begin < c.begin - longest;
    });
    for (auto at = first; at != computed.end() && at->begin < c.end; ++at)
      c.beside += std::max(0.0, std::min(c.end, at->end) - std::max(c.begin, at->begin));
  }
}

}  // namespace

Timeline Simulate(const TimedSteps& steps, const std::vector<int>& order, const PeerTimes& peers,
                  bool details) {
  Timeline timeline;
  timeline.collectives.resize(steps.collectives);
  std::vector<double> streams, ends(steps.steps.size(), 0);
  double last_collective = 0;
  std::vector<Interval> computed, collectives;
  if (details) timeline.begins.resize(steps.steps.size(), 0);
  for (int number : order) {
    const size_t i = static_cast<size_t>(number), c = static_cast<size_t>(steps.steps[i].collective);
    const TimedStep& step = steps.steps[i];
    if (step.stream >= streams.size()) streams.resize(step.stream + size_t{1}, 0);
    double begin = streams[step.stream];
    for (int d : step.deps) begin = std::max(begin, ends[static_cast<size_t>(d)]);
    ends[i] = begin;
    if (step.kind == TimedKind::kStart) {
      CollectiveTimes& times = timeline.collectives[c];
      times.arrive = std::max(begin, last_collective);
      times.begin = std::max(times.arrive, At(peers.arrive, c));
      times.end = last_collective = times.begin + step.time;
      collectives.push_back({times.begin, times.end});
      timeline.end = std::max(timeline.end, times.end + At(peers.remain, c));
    } else if (step.kind == TimedKind::kWait) {
      CollectiveTimes& times = timeline.collectives[c];
      ends[i] = std::max(begin, times.end);
      times.exposed = ends[i] - begin;
      timeline.exposed += times.exposed;
    } else {
      ends[i] = EndOfCompute(begin, step.time, collectives, steps.taken);
      if (details) computed.push_back({begin, ends[i]});
    }
    if (details) timeline.begins[i] = begin;
    streams[step.stream] = ends[i];
    timeline.end = std::max(timeline.end, ends[i]);
  }
  if (details) {
    SumBeside(std::move(computed), &timeline.collectives);
    timeline.ends = std::move(ends);
  }
  return timeline;
}

std::vector<double> RemainingTimes(const TimedSteps& steps, const std::vector<int>& order,
                                   const PeerTimes& peers) {
  // Remaining times from the end of each step; from the end of each collective; from the begin of the next
  // step on each stream; and from the begin of the next collective.
  std::vector<double> after(steps.steps.size(), 0), remaining(steps.collectives, 0), streams;
  double next_collective = 0;
  for (size_t p = order.size(); p-- > 0;) {
    const size_t i = static_cast<size_t>(order[p]);
    const TimedStep& step = steps.steps[i];
    if (step.stream >= streams.size()) streams.resize(step.stream + size_t{1}, 0);
    double from_begin = std::max(after[i], streams[step.stream]);
    const size_t c = static_cast<size_t>(step.collective);
    if (step.kind == TimedKind::kCompute) from_begin += step.time;
    if (step.kind == TimedKind::kWait) remaining[c] = std::max(remaining[c], from_begin);
    if (step.kind == TimedKind::kStart) {
      remaining[c] = std::max(remaining[c], next_collective);
      next_collective = step.time + std::max(remaining[c], At(peers.remain, c));
      from_begin = std::max(from_begin, next_collective);
    }
    streams[step.stream] = from_begin;
    for (int d : step.deps) {
      double& behind = after[static_cast<size_t>(d)];
      behind = std::max(behind, from_begin);
    }
  }
  return remaining;
}

}  // namespace rondo
