// KernelTimer: device time of one kernel of a plan by itself, launch after launch in one graph: what a step
// costs without the event that `rondo bench` puts behind it. Weights are not loaded: kernels run over memory
// of the right size, filled with synthetic numbers.
#ifndef RONDO_TOOLS_RONDO_KERNEL_TIMER_H_
#define RONDO_TOOLS_RONDO_KERNEL_TIMER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "core/driver.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo::tools {

struct KernelTimerOptions {
  int64_t first_integer = 0;  // 64-bit integer buffers hold it and the numbers after it; other integers are 0
  int64_t replays = 30;       // of the graph; the median counts
  // Constants lie one after another in memory as large as the plan's weights (256 MiB at most), so that a
  // launch finds them in the caches as it would in a run. Else each has memory of its own.
  bool rotate = false;
};

// Borrows the plan and the device; gives back everything it made. Used by one thread.
class KernelTimer {
 public:
  KernelTimer(const PlanData& plan, Device* device, const KernelTimerOptions& options)
      : plan_(plan), device_(device), options_(options) {}
  KernelTimer(const KernelTimer&) = delete;
  ~KernelTimer();

  Status Open();

  // Loads the images of `plan`, which differs from the timer's in nothing else and must outlive it; their
  // number for Time.
  Result<size_t> Load(const PlanData& plan);

  // Microseconds a launch. Launches take turns with all steps that use the kernel. Errors: as the driver
  // gives them; kInvalidArgument for a kernel that no step launches.
  Result<double> Time(uint32_t kernel, size_t images);

 private:
  Status Fill(DeviceAddress address, const Buffer& buffer, uint64_t bytes);
  Result<DeviceAddress> AddressOf(uint32_t buffer);
  Result<DeviceAddress> NextConstant(const Buffer& buffer);
  Result<double> TimeGraph(Graph* graph);

  const PlanData& plan_;
  Device* device_;
  const KernelTimerOptions options_;
  Stream* stream_ = nullptr;
  Event *begin_ = nullptr, *end_ = nullptr;
  std::vector<Module*> modules_;
  std::map<uint32_t, DeviceAddress> addresses_;  // of buffers
  DeviceAddress pool_ = 0;                       // of constants that take turns
  uint64_t pool_bytes_ = 0, pool_at_ = 0;
};

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_KERNEL_TIMER_H_
