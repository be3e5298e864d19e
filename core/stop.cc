#include "core/stop.h"

#include <time.h>

#include <cinttypes>

namespace rondo {

uint64_t MonotonicNanoseconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void StopSignal::Begin(uint64_t nanoseconds) {
  limit = nanoseconds;
  const uint64_t now = nanoseconds == 0 ? 0 : MonotonicNanoseconds();
  const bool never = nanoseconds == 0 || nanoseconds >= kNever - now;
  __atomic_store_n(&word, never ? kNever : now + nanoseconds, __ATOMIC_RELEASE);
}

void StopSignal::Cancel() {
  uint64_t now = Word();
  while (now > kExpired && now != kIdle &&
         !__atomic_compare_exchange_n(&word, &now, kCancelled, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

bool StopSignal::PastDeadline() {
  uint64_t deadline = Word();
  if (deadline <= kExpired || deadline >= kNever) return deadline <= kExpired;
  if (MonotonicNanoseconds() < deadline) return false;
  __atomic_compare_exchange_n(&word, &deadline, kExpired, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  return true;
}

Status StopSignal::status() const {
  switch (Word()) {
    case kCancelled: return Status::Error(Code::kCancelled, "cancelled");
    case kExpired:
      return Status::Error(Code::kDeadlineExceeded, "stopped at the time limit of %" PRIu64 " us",
                           limit / 1000);
    default: return Status::Ok();
  }
}

}  // namespace rondo
