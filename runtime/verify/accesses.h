// ProgramAccesses: what each step of a program reads and writes, and the lifetime of each buffer, derived
// from the contracts alone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/check/footprint.h"
#include "formats/plan/work.h"

namespace rondo::verify {

// One operand of one step, placed in its buffer's region (arena, state or weights of its device).
struct StepAccess {
  uint32_t buffer = 0;
  uint32_t begin = 0, end = 0;  // steps; the end of a collective's start is its wait
  uint32_t slot = 0;            // of the step's bindings
  check::Footprint print;
  int64_t base = 0;    // offset in the region of the footprint's byte 0, in round 0
  int64_t stride = 0;  // bytes from round to round

  int64_t At(uint32_t round) const { return base + stride * int64_t{round}; }
};

class ProgramAccesses {
 public:
  // `plan` must have passed VerifyPlan and outlive this.
  ProgramAccesses(const PlanData& plan, uint32_t program);

  const Program& program() const { return plan_.programs[index_]; }
  const std::vector<StepAccess>& of(uint32_t step) const { return steps_[step]; }
  // Lifetimes as checker.h (formats/plan/check) derives them. One for each buffer; never used: {1, 0}.
  const std::vector<Lifetime>& lifetimes() const { return lifetimes_; }
  // Whether each round of a loop has contents of its own.
  bool local(uint32_t buffer) const { return local_[buffer]; }
  // Whether the buffer, or one whose contents it has taken over, directly or not, is `other`.
  bool Inherits(uint32_t buffer, uint32_t other) const;
  // The buffers that take over the contents of `buffer` in its last step.
  const std::vector<uint32_t>& heirs(uint32_t buffer) const { return heirs_[buffer]; }

 private:
  void Collect(uint32_t step);
  void Add(uint32_t step, uint32_t slot, check::Footprint print);
  void Derive();
  // Whether the last access to a buffer is the collective that step `start` begins.
  bool EndsInCollective(const std::vector<const StepAccess*>& accesses, uint32_t start) const;

  const PlanData& plan_;
  const uint32_t index_;
  Arena scratch_;
  std::vector<std::vector<StepAccess>> steps_;
  std::vector<uint32_t> waits_;  // for each sync point on each device: the step that waits for it
  std::vector<Lifetime> lifetimes_;
  std::vector<bool> local_;
  std::vector<bool> takes_over_;
  std::vector<std::vector<uint32_t>> heirs_;
};

// The region of its device's memory that holds a buffer.
enum class MemoryPart : uint8_t { kArena, kState, kWeights };
constexpr MemoryPart PartOf(BufferKind kind) {
  return kind == BufferKind::kConstant ? MemoryPart::kWeights
         : kind == BufferKind::kState  ? MemoryPart::kState
                                       : MemoryPart::kArena;
}

}  // namespace rondo::verify
