// StepOrder: the partial order of a program's steps, by streams, events, `after` and collectives.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo::check {

// Vector clocks (C. Fidge, F. Mattern, 1988) over the streams that the program uses; built in O(steps *
// streams). Uses memory of the arena given to Build.
class StepOrder {
 public:
  // Error: kUnsupported if more than 256 streams of all devices are used, kOutOfMemory.
  Status Build(const Program& program, Arena& scratch);

  // True if step `a` is complete before step `b` begins, whatever the timing.
  bool Before(uint32_t a, uint32_t b) const {
    if (streams_ == 1) return a < b;
    return a < b && clocks_[size_t{b} * streams_ + stream_[a]] > position_[a];
  }
  // True if list order is the only order.
  bool total() const { return streams_ <= 1; }
  // The step at which a step's accesses end: a collective's wait for its start, otherwise the step itself.
  uint32_t End(uint32_t step) const { return end_[step]; }
  bool has_collectives() const { return has_collectives_; }

 private:
  Status NumberStreams(const Program& program, Arena& scratch);
  Status PairCollectives(const Program& program, Arena& scratch);
  void Join(uint32_t step, uint32_t earlier);

  uint32_t streams_ = 0;
  bool has_collectives_ = false;
  Span<uint32_t> stream_;    // of each step, numbered densely
  Span<uint32_t> position_;  // of each step in its stream
  Span<uint32_t> end_;
  Span<uint32_t> clocks_;  // steps * streams: how many steps of each stream are complete when the step begins
};

}  // namespace rondo::check
