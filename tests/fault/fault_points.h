// Fault points: every allocation and marked call that can fail, counted on the calling thread or on all
// threads, and failed one at a time.
//
// A point is an allocation (malloc and its family, aligned_alloc, nothrow new, mmap; not with sanitizers,
// which replace the same functions) or a call that a test marks with FaultPoint(). Code outside of Arm and
// Disarm, and other threads unless requested, are not affected.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr uint64_t kNoPoint = ~uint64_t{0};

// Counts points of this thread, or of all threads, from 0, and fails the `fail`-th. `throwing`: throwing
// operator new is such a point, too; its caller must catch.
void ArmFaults(uint64_t fail, bool all_threads = false, bool throwing = false);
struct FaultCount {
  uint64_t points = 0;    // number of points since ArmFaults
  bool fired = false;     // whether a point was failed
  uint64_t throwing = 0;  // calls of throwing operator new: counted apart, and failed only if requested
};
FaultCount DisarmFaults();
// True if this point is the one to fail.
bool FaultPoint();
// Stops counting on this thread within a scope: for allocations of the test itself.
class FaultPause {
 public:
  FaultPause();
  ~FaultPause();
  FaultPause(const FaultPause&) = delete;
  FaultPause& operator=(const FaultPause&) = delete;
};
// The same without a scope: pairs of calls, which nest.
void PauseFaults(bool begin);
// Whether malloc's family is among the points in this build.
bool MallocIsCounted();
// The number of blocks of malloc's family that the process holds now; 0 if they are not counted.
int64_t LiveBlocks();

}  // namespace rondo
