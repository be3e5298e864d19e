// KernelTimer: device times of a plan's kernels, alone or among the others, with one binary or another.
// Nothing of the model is loaded: memory is laid out as the plan says and filled with synthetic numbers. Of
// plans for several devices, device 0's part.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/driver.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo::tools {

struct KernelTimerOptions {
  int64_t first_integer = 0;  // 64-bit integer buffers hold it and the numbers after it; other integers are 0
  int64_t replays = 50;       // of a graph; the median counts
};

// Borrows the plan and the device; gives back everything it made. Used by one thread.
class KernelTimer {
 public:
  KernelTimer(const PlanData& plan, Device* device, const KernelTimerOptions& options)
      : plan_(plan), device_(device), options_(options) {}
  KernelTimer(const KernelTimer&) = delete;
  ~KernelTimer();

  Status Open();

  // Loads the binaries of `plan`, which differs from the timer's plan in nothing else and must outlive it.
  // Returns their number, from 0 on.
  Result<size_t> Load(const PlanData& plan);

  // Microseconds a launch, launch after launch in one graph, in turn with all steps that use the kernel: what
  // a step costs without the event that `rondo bench` puts behind it. kInvalidArgument if no step uses it.
  Result<double> Time(uint32_t kernel, size_t binaries);

  // Microseconds of all programs, one graph each, with binaries[k] as kernel k's. Launches and copies are
  // replayed, one after another; collectives and custom ops are left out.
  Result<double> TimeRun(const std::vector<size_t>& binaries);

 private:
  DeviceAddress AddressOf(const Binding& binding) const;
  Status Fill(uint32_t buffer);
  Status FillAll(const std::set<uint32_t>& buffers);
  Result<double> TimeGraph(const std::set<uint32_t>& given);

  const PlanData& plan_;
  Device* device_;
  const KernelTimerOptions options_;
  Stream* stream_ = nullptr;
  Event *begin_ = nullptr, *end_ = nullptr;
  std::vector<Module*> modules_;
  struct Block {
    DeviceAddress address = 0;
    uint64_t bytes = 0;
  };
  Block weights_, state_, arena_;
  std::map<uint32_t, std::vector<int64_t>> integers_;  // of 64-bit integer buffers: what they hold
};

}  // namespace rondo::tools
