// The prepared kernels of one plan.
#pragma once

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"
#include "drivers/host/engine.h"
#include "drivers/host/sharing.h"
#include "drivers/ops/calls.h"

namespace rondo::host {

struct KernelProgram {
  const PlanData* plan = nullptr;
  uint32_t num_params = 0;
  int64_t scratch_bytes = 0;  // for each worker of a launch
  Span<const PartProgram* const> parts;
};

// Owns everything its kernels point to. Immutable once built; any number of threads may run it.
class HostModule {
 public:
  // Null when out of memory or when a kernel cannot be run; *status says which. `sharing`: how its launches
  // are split; `ops` may be null, and must outlive the module.
  static HostModule* Create(const PlanData& plan, const Engine& engine, const Sharing& sharing,
                            const OpRegistry* ops, Status* status);

  const KernelProgram* kernel(uint32_t index) const {
    return index < kernels_.size() ? &kernels_[index] : nullptr;
  }
  const CallProgram* call(uint32_t index) const { return calls_.at(index); }

 private:
  Status Build(const PlanData& plan, const Engine& engine, const Sharing& sharing);
  Status BuildPart(const Kernel& kernel, uint32_t index, const Part& part, const Engine& engine,
                   const Sharing& sharing, const PartProgram** out);
  Arena arena_;
  Span<const KernelProgram> kernels_;
  CallTable calls_;
};

// The best engine for this machine, of at most level `level`: baseline, AVX2, AVX-512.
void PickEngine(uint32_t level, Engine* engine);

}  // namespace rondo::host
