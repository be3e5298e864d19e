#include "compiler/schedule/timeline.h"

#include <algorithm>

namespace rondo {

Timeline Simulate(const LoweredProgram& program, const std::vector<double>& times,
                  const std::vector<int>& order, bool details) {
  Timeline timeline;
  timeline.collectives.resize(program.collectives.size());
  std::vector<double> streams, ends(program.ops.size(), 0);
  double last_collective = 0;
  struct Interval {
    double begin, end;
  };
  std::vector<Interval> computed;
  for (int number : order) {
    const size_t i = static_cast<size_t>(number);
    const LoweredOp& op = program.ops[i];
    if (op.stream >= streams.size()) streams.resize(op.stream + size_t{1}, 0);
    double begin = streams[op.stream];
    for (int d : op.deps) begin = std::max(begin, ends[static_cast<size_t>(d)]);
    ends[i] = begin;
    if (op.kind == LoweredKind::kCollectiveStart) {
      CollectiveTimes& c = timeline.collectives[static_cast<size_t>(op.collective)];
      c.begin = std::max(begin, last_collective);
      c.end = last_collective = c.begin + times[i];
    } else if (op.kind == LoweredKind::kCollectiveWait) {
      CollectiveTimes& c = timeline.collectives[static_cast<size_t>(op.collective)];
      ends[i] = std::max(begin, c.end);
      c.exposed = ends[i] - begin;
      timeline.exposed += c.exposed;
    } else {
      ends[i] = begin + times[i];
      if (details) computed.push_back({begin, ends[i]});
    }
    streams[op.stream] = ends[i];
    timeline.end = std::max(timeline.end, ends[i]);
  }
  for (CollectiveTimes& c : timeline.collectives) {
    for (const Interval& interval : computed)
      c.beside += std::max(0.0, std::min(c.end, interval.end) - std::max(c.begin, interval.begin));
  }
  return timeline;
}

}  // namespace rondo
