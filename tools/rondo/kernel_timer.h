// KernelTimer: device times of a plan's kernels, alone or among the others, with different binaries. Nothing
// of the model is loaded: memory is laid out as in the plan and filled with synthetic numbers. For plans on
// several devices it times device 0's part.
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
  int64_t first_integer = 0;  // 64-bit integer buffers hold it and the next numbers; other integers are 0
  int64_t replays = 50;       // of a graph; the median is reported
};

// Borrows the plan and the device, and frees everything it made. Used by one thread.
class KernelTimer {
 public:
  KernelTimer(const PlanData& plan, Device* device, const KernelTimerOptions& options)
      : plan_(plan), device_(device), options_(options) {}
  KernelTimer(const KernelTimer&) = delete;
  ~KernelTimer();

  Status Open();

  // Loads the binaries of `plan`, which must differ from the timer's plan only in these and must outlive the
  // timer. Returns their number, counted from 0.
  Result<size_t> Load(const PlanData& plan);

  // Microseconds per launch, with launches one after another in one graph, in turn for all steps that use the
  // kernel. That is a step's cost without the event that `rondo bench` puts after it. kInvalidArgument if no
  // step uses it.
  Result<double> Time(uint32_t kernel, size_t binaries);

  // Microseconds of all programs, one graph each, with binaries[k] for kernel k. Launches and copies are
  // replayed one after another; collectives and custom ops are left out.
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
  std::map<uint32_t, std::vector<int64_t>> integers_;  // the contents of 64-bit integer buffers
};

}  // namespace rondo::tools
