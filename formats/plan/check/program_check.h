// The checks of one program, as parts of CheckPlan. Not for use outside this folder.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/check/footprint.h"
#include "formats/plan/check/order.h"
#include "formats/plan/verify_internal.h"
#include "formats/plan/work.h"

namespace rondo::check {

enum class Region : uint8_t { kArena, kWeights, kState };
constexpr Region RegionOf(BufferKind kind) {
  return kind == BufferKind::kConstant ? Region::kWeights
         : kind == BufferKind::kState  ? Region::kState
                                       : Region::kArena;
}

// One operand of one step, placed in memory.
struct Access {
  uint32_t buffer = 0;
  uint32_t begin = 0, end = 0;  // steps: end is later for a collective in flight
  Region region = Region::kArena;
  const Footprint* print = nullptr;
  int64_t base = 0;    // offset in the region of the footprint's byte 0, in the first round of a loop
  int64_t stride = 0;  // from one round to the next
  int64_t moved = 0;   // from the first round to the last
  uint32_t loop = kNone;

  Box box() const { return Shifted(print->box, base); }
  // Over all rounds.
  int64_t first_byte() const { return base + print->box.base + (moved < 0 ? moved : 0); }
  int64_t end_byte() const { return base + print->box.end + (moved > 0 ? moved : 0); }
  bool writes() const { return print->writes; }
  bool reads() const { return print->reads; }
};

// The step number of reads after all steps: outputs, read by the caller.
inline constexpr uint32_t kAfterAll = kNone;

// The rounds of a loop in which a read is checked, and the writes that then count.
enum class Rounds : uint8_t {
  kAll,    // all rounds at once; writes outside the loop
  kFirst,  // the first round; writes outside the loop, and earlier ones in the round
  // Any later round, relative to the first: writes that move as the read does, in its own round and the one
  // before; and, if the read does not move, writes outside the loop.
  kLater,
};

struct KernelPrints {
  Span<const Span<Footprint>> of;  // one a kernel
};

class ProgramCheck {
 public:
  // `lifetimes` has one entry for each buffer; this fills in those of this program. Memory from `scratch`
  // must live as long as this object.
  ProgramCheck(const PlanData& plan, uint32_t index, const KernelPrints& prints, Span<Lifetime> lifetimes,
               Work& work, Arena& scratch)
      : plan_(plan),
        program_(plan.programs[index]),
        index_(index),
        prints_(prints),
        lifetimes_(lifetimes),
        work_(work),
        scratch_(scratch) {}

  Status Run(ProgramMemory* memory);

 private:
  // checker.cc: what is accessed when.
  Status Collect();
  size_t AccessesOf(const Step& step) const;
  Status CollectStep(uint32_t step, size_t* at);
  Status CollectCall(uint32_t step, size_t* at);
  void Add(uint32_t step, const Footprint* print, const Binding& binding, size_t* at);
  Status Group();
  Status DeriveLifetimes();

  // placement.cc: what shares memory.
  Status CheckPlacement(ProgramMemory* memory);
  Status OrderBuffers(Span<uint32_t>* out);
  Status CheckOverlap(uint32_t a, uint32_t b);
  bool AllBefore(uint32_t a, uint32_t b);
  void Peak(uint32_t device, Span<int64_t> live, ProgramMemory* memory) const;

  // accesses.cc: what is read and written.
  Status CheckWritable();
  Status CheckInsideSteps();
  Status CheckPair(const Access& a, const Access& b);
  bool InPlaceCollective(const Access& a, const Access& b) const;
  bool InPlaceCall(const Access& a, const Access& b) const;
  Status CheckRaces();
  Status CheckReads();
  Status CheckRead(const Access& read);
  Status CheckRead(const Access& read, Rounds rounds);
  Status CheckOutputs();
  Status CheckPiece(const Access& read, const Box& piece, Rounds rounds);
  Status CheckRace(const Access& a, const Access& b);
  Status ForMeeting(Span<const Access> accesses, Status (ProgramCheck::*visit)(const Access&, const Access&));
  bool ForWrites(const Access& read, Rounds rounds, const Visit<Access>& visit);
  bool ForBoxes(const Access& access, const Visit<Box>& visit);
  Box Whole(const Access& access, const Box& box) const;

  Span<const Access> Of(uint32_t buffer) const {
    return {by_buffer_.data() + first_[buffer], first_[buffer + 1] - first_[buffer]};
  }
  bool IsLocal(uint32_t buffer) const;
  // The number of accesses of `buffer` up to `step` in list order.
  size_t CountUntil(uint32_t buffer, uint32_t step) const;
  // The buffer whose memory and contents `buffer` takes over, or kNone.
  uint32_t Inherits(uint32_t buffer) const;
  bool IsInput(uint32_t b) const { return rondo::IsInput(plan_.buffers[b].kind); }
  bool IsOutput(uint32_t b) const { return rondo::IsOutput(plan_.buffers[b].kind); }
  Status AtStep(const Status& status, uint32_t step) const;
  Status OutOfMemory() const;
  Status TooMuchWork() const;

  const PlanData& plan_;
  const Program& program_;
  const uint32_t index_;
  const KernelPrints& prints_;
  Span<Lifetime> lifetimes_;
  Work& work_;
  Arena& scratch_;
  StepOrder order_;
  Span<Access> accesses_;        // in the order of the steps
  Span<uint32_t> first_access_;  // of each step, and the end
  Span<Access> by_buffer_;
  Span<const Access*> meeting_;  // room for ForMeeting
  Span<uint32_t> first_;         // of each buffer in by_buffer_, and the end
  Span<bool> local_;             // of each buffer: each round of a loop has its own
};

}  // namespace rondo::check
