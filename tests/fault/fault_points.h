// Fault points: everything that can fail for want of something, counted on the thread that asks or on all
// threads, and failed one at a time.
//
// A point is an allocation (malloc and its family, aligned_alloc, nothrow new, mmap; without sanitizers,
// which replace the same functions) or a call that a test marks with FaultPoint(). Code that is not between
// Arm and Disarm, and other threads unless asked for, are left alone.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr uint64_t kNoPoint = ~uint64_t{0};

// Counts points of this thread, or of all threads, from 0 on, and fails the `fail`-th.
// `throwing`: throwing operator new is such a point, too; whoever asks must catch.
void ArmFaults(uint64_t fail, bool all_threads = false, bool throwing = false);
struct FaultCount {
  uint64_t points = 0;    // met since ArmFaults
  bool fired = false;     // whether one was failed
  uint64_t throwing = 0;  // throwing operator new: counted apart, and failed only where asked for
};
FaultCount DisarmFaults();
// True if this point is the one to fail.
bool FaultPoint();
// Counts nothing of this thread within a scope: for what the test itself allocates.
class FaultPause {
 public:
  FaultPause();
  ~FaultPause();
  FaultPause(const FaultPause&) = delete;
  FaultPause& operator=(const FaultPause&) = delete;
};
// The same for what has no scope: pairs of calls, which nest.
void PauseFaults(bool begin);
// Whether malloc's family is among the points in this build.
bool MallocIsCounted();
// Blocks of malloc's family that the process holds now; 0 where they are not counted.
int64_t LiveBlocks();

}  // namespace rondo
