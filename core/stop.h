// StopSignal: what ends a run before it is done: its time limit, or somebody who cancels it.
//
// One word, so that looking at it costs a load; only where there is a deadline does Asked() read the clock.
// All functions may be called from any thread, Begin and End by whoever owns the run.
#pragma once

#include <cstdint>

#include "core/status.h"

namespace rondo {

// Nanoseconds of a clock that only goes forward.
uint64_t MonotonicNanoseconds();

struct StopSignal {
  // What `word` may be besides a deadline on MonotonicNanoseconds.
  static constexpr uint64_t kCancelled = 0, kExpired = 1;
  static constexpr uint64_t kIdle = ~uint64_t{0};  // nothing to stop
  static constexpr uint64_t kNever = kIdle - 1;    // a run without a deadline

  uint64_t word = kIdle;
  uint64_t limit = 0;  // nanoseconds from Begin to the deadline, for status()

  // A run begins, to end after `nanoseconds`; 0: it has no limit.
  void Begin(uint64_t nanoseconds);
  void End() { __atomic_store_n(&word, kIdle, __ATOMIC_RELAXED); }
  // Asks the run under way, if there is one, to end.
  void Cancel();
  // Whether the run is to end.
  bool Asked() { return Word() < kNever && PastDeadline(); }
  // The same as far as somebody has found out already.
  bool Known() const { return Word() <= kExpired; }
  bool has_deadline() const { return Word() < kNever; }
  // Why: kCancelled or kDeadlineExceeded; OK as long as Known() is false.
  Status status() const;

  uint64_t Word() const { return __atomic_load_n(&word, __ATOMIC_RELAXED); }

 private:
  bool PastDeadline();
};

// Whether an error says that a run was stopped so.
constexpr bool IsStop(Code code) { return code == Code::kCancelled || code == Code::kDeadlineExceeded; }

}  // namespace rondo
