// StepwiseReplay: one pass over a plan's programs, step by step, that accounts for every byte.
//
// Before a step: the bytes that it reads must have been written, and belong to the buffer that it reads; the
// bytes that it overwrites must be dead. After a step: nothing else has changed, everything it writes has
// changed, and buffers that end with it are poisoned. One session, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/session.h"
#include "runtime/verify/accesses.h"
#include "runtime/verify/finding.h"
#include "runtime/verify/guarded_driver.h"
#include "runtime/verify/shadow.h"

namespace rondo::verify {

// Bytes that a step may have left unwritten, by program, step, round and device: those that still hold poison
// after it. Only bytes left under both poisons count as unwritten.
using LeftBytes = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<ByteRange>>;

class StepwiseReplay {
 public:
  // All must outlive it; the session's devices belong to a GuardedDriver. `accesses` has one entry for each
  // program. `before`: the result of TakeLeft of the pass with the other poison, or null in the first pass.
  // All memory is scanned every `stride` turns.
  StepwiseReplay(Session* session, const std::vector<ProgramAccesses>& accesses, const Poison& poison,
                 const LeftBytes* before, uint64_t stride, FindingList* findings);

  // Calls `told` after each turn, with the number of turns of this run so far.
  void TellTurns(std::function<void(uint64_t turns)> told) { told_ = std::move(told); }
  // Makes shadows of all memory. Once, before Run.
  Status Start(bool host_memory);
  // Runs `program`; state carries on from the program before. Returns the run's error.
  Status Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs);
  // The bytes left, in ascending order. Once, at the end.
  LeftBytes TakeLeft();

 private:
  struct Place {  // a region of a device
    uint32_t device;
    MemoryPart part;
  };
  // Bytes that a step writes.
  struct Write {
    const StepAccess* access;
    bool sure;     // all of them, if the step runs; otherwise only some
    bool skipped;  // by a condition: counts as written, since nothing needs it
    std::vector<ByteRange> ranges;
  };

  Status OnStep(uint32_t step, StepPhase phase);
  Status Begin();
  Status BeginState(uint32_t device);
  Status BeforeStep(uint32_t step);
  Status AfterStep(uint32_t step);
  Status End();
  void CheckRead(uint32_t step, const StepAccess& access);
  bool CheckReadRange(uint32_t step, uint32_t buffer, ByteRange range);
  Status CollectWrites(uint32_t step);
  void CheckOverwrite(uint32_t step, const Write& write);
  Status FinishWrite(uint32_t step, const Write& write);
  void CheckWritten(uint32_t step, const StepAccess& access, ByteRange range);
  bool LeftBefore(uint32_t step, uint64_t byte) const;
  Status TouchedElements(const StepAccess& access, std::vector<ByteRange>* ranges);
  Result<bool> IsSkipped(uint32_t step, const Part& part);
  Status EndBuffers(uint32_t step);
  Status Release(uint32_t buffer);
  Status Scan(uint32_t device, uint32_t step);
  void FoundChange(Place place, uint32_t step, ByteRange range, const uint8_t* was, const uint8_t* is);
  std::string WhatLiesAt(Place place, uint32_t step, uint64_t byte, uint32_t* buffer) const;
  Finding FindingAt(LifecycleRule rule, uint32_t step, uint32_t buffer) const;

  const ProgramAccesses& accesses() const { return accesses_[program_]; }
  bool IsAlive(uint32_t buffer, uint32_t step) const;
  ShadowRegion& RegionOf(uint32_t buffer) {
    const Buffer& b = plan_.buffers[buffer];
    return shadows_[b.device * 2 + (PartOf(b.kind) == MemoryPart::kState)];
  }
  uint64_t GranuleOf(uint32_t device, MemoryPart part) const;

  Session* session_;
  const PlanData& plan_;
  const std::vector<ProgramAccesses>& accesses_;
  const Poison& poison_;
  const LeftBytes* before_;
  const uint64_t stride_;
  FindingList* findings_;
  const Work work_;
  std::vector<DeviceIo> io_;           // of each device
  std::vector<ShadowRegion> shadows_;  // arena and state of each device
  LeftBytes left_;
  std::function<void(uint64_t)> told_;
  // Of the run.
  uint32_t program_ = 0;
  bool begun_ = false;
  uint64_t turn_ = 0;
  std::vector<uint32_t> rounds_;                    // of each step: how often it has been taken
  std::map<uint32_t, std::vector<Write>> writing_;  // by the step at which the write ends
};

// Bytes of host memory for the shadows of a plan's session.
uint64_t ShadowBytes(const PlanData& plan);

}  // namespace rondo::verify
