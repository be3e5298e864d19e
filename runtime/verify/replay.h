// StepwiseReplay: one pass over a plan's programs, step by step, with every byte accounted for.
//
// Before a step: what it reads must have been written, as the buffer that it is read as, and what it writes
// over must be dead. After it: nothing else has changed, everything it writes has been, and what ends with it
// is poisoned. One session, one thread.
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

// Bytes that a step may have left as they were, by program, step, round and device: those still poisoned
// after it. Only bytes left under both poisons are bytes left.
using LeftBytes = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<ByteRange>>;

class StepwiseReplay {
 public:
  // All must outlive it; the session's devices are a GuardedDriver's. `accesses` has one entry a program.
  // `before`: what the pass with the other poison left, or null in the first. A full look at memory is taken
  // every `stride` turns.
  StepwiseReplay(Session* session, const std::vector<ProgramAccesses>& accesses, const Poison& poison,
                 const LeftBytes* before, uint64_t stride, FindingList* findings);

  // Calls `told` after each turn, with the turns of this run so far.
  void TellTurns(std::function<void(uint64_t turns)> told) { told_ = std::move(told); }
  // Takes shadows of all memory. Once, before Run.
  Status Start(bool host_memory);
  // Runs `program`; state carries on from the program before. An error is the run's.
  Status Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs);
  // In ascending order. Once, last.
  LeftBytes TakeLeft();

 private:
  struct Place {  // a region of a device
    uint32_t device;
    MemoryPart part;
  };
  // Bytes that a step writes.
  struct Write {
    const StepAccess* access;
    bool sure;     // each of them, if the step runs; else some of them
    bool skipped;  // by a condition: what is there is as good as written, for nothing needs it
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
  std::map<uint32_t, std::vector<Write>> writing_;  // by the step that ends them
};

// Bytes of host memory that the shadows of a plan's sessions take.
uint64_t ShadowBytes(const PlanData& plan);

}  // namespace rondo::verify
