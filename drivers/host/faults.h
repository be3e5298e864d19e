// Injects the faults that HostFaults (host_driver.h) requests into one device's calls.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/status.h"
#include "drivers/host/host_driver.h"

namespace rondo::host {

// May be used from any thread. Costs a test of two words if no fault is requested.
class Faults {
 public:
  Faults(const HostFaults& options, uint32_t device)
      : options_(options),
        device_(device),
        active_(options.before != nullptr || options.most_delay_us != 0 || options.fail_device == device) {}

  // Call it before `call` does anything: sleeps as requested, and returns the error with which the call must
  // fail.
  Status Before(HostCall call, uint32_t step = kNone) { return active_ ? Meet(call, step) : Status::Ok(); }
  bool reorder() const { return options_.reorder; }
  // The next number of a sequence determined by the seed and the device.
  uint64_t Random();

 private:
  Status Meet(HostCall call, uint32_t step);

  const HostFaults options_;
  const uint32_t device_;
  const bool active_;
  std::atomic<uint64_t> draws_{0};
  std::atomic<uint64_t> posted_{0};
};

}  // namespace rondo::host
