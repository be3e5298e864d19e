// RunTimer: device times of one program's partitions or steps, measured by timed events in the streams.
//
// Pass it as RunOptions::timer; it holds the times of the last run that used it. It does not keep the session
// alive: destroy it first. Used by one run at a time. Movable.
#pragma once

#include <cstdint>
#include <utility>

#include "core/status.h"
#include "runtime/session.h"

namespace rondo {

struct RunTimerImpl;

enum class TimerDetail : uint8_t {
  kPartitions = 0,  // the session's own graphs, an event before and after each launch
  // Graphs of the timer's own: the same steps one after the other on one stream, with an event between
  // neighbours. Every step's time includes the cost of an event. For a step in a loop: the sum over its
  // rounds; it begins where the sums of the loop's earlier steps end.
  kSteps = 1,
};

// Microseconds of a device's own clock.
struct TimedInterval {
  uint32_t index = 0;  // partition or step of the program
  uint32_t device = 0;
  double begin = 0;  // since the run's first event on this device
  double duration = 0;
};

class RunTimer {
 public:
  RunTimer() = default;
  RunTimer(RunTimer&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  RunTimer& operator=(RunTimer&& other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~RunTimer();

  // Makes events, and for kSteps graphs. Errors: kUnsupported when the driver has no timed events.
  static Result<RunTimer> Create(const Session& session, uint32_t program, TimerDetail detail);

  // Intervals of a run: the number of the program's partitions or steps.
  uint32_t size() const;
  // Interval `i`, in the plan's order, of the last run, which must have succeeded.
  Result<TimedInterval> Read(uint32_t i) const;

 private:
  friend struct RunTimerImpl;
  explicit RunTimer(RunTimerImpl* impl) : impl_(impl) {}
  RunTimerImpl* impl_ = nullptr;
};

}  // namespace rondo
