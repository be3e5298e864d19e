// StopSignal: ends a run early, at its time limit or when somebody cancels it.
//
// One word, so a check costs one load; Asked() reads the clock only if there is a deadline. All functions may
// be called from any thread, Begin and End by the owner of the run.
#pragma once

#include <cstdint>

#include "core/status.h"

namespace rondo {

// Nanoseconds of a clock that only goes forward.
uint64_t MonotonicNanoseconds();

struct StopSignal {
  // Values of `word` that are not deadlines on MonotonicNanoseconds.
  static constexpr uint64_t kCancelled = 0, kExpired = 1;
  static constexpr uint64_t kIdle = ~uint64_t{0};  // nothing to stop
  static constexpr uint64_t kNever = kIdle - 1;    // a run without a deadline

  uint64_t word = kIdle;
  uint64_t limit = 0;  // nanoseconds from Begin to the deadline, for status()

  // Begins a run that ends after `nanoseconds`; 0: no limit.
  void Begin(uint64_t nanoseconds);
  void End() { __atomic_store_n(&word, kIdle, __ATOMIC_RELAXED); }
  // Asks the run under way, if there is one, to end.
  void Cancel();
  // Whether the run must end. Reads the clock.
  bool Asked() { return Word() < kNever && PastDeadline(); }
  // Whether a call of Asked or Cancel has already found that the run must end.
  bool Known() const { return Word() <= kExpired; }
  bool has_deadline() const { return Word() < kNever; }
  // kCancelled or kDeadlineExceeded; OK as long as Known() is false.
  Status status() const;

  uint64_t Word() const { return __atomic_load_n(&word, __ATOMIC_RELAXED); }

 private:
  bool PastDeadline();
};

// Whether an error means that a StopSignal ended the run.
constexpr bool IsStop(Code code) { return code == Code::kCancelled || code == Code::kDeadlineExceeded; }

}  // namespace rondo
