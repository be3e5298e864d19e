// Faults of one device: what HostFaults (host_driver.h) asks for, met at its calls.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/status.h"
#include "drivers/host/host_driver.h"

namespace rondo::host {

// May be used from any thread. Costs a test of two words where nothing is asked for.
class Faults {
 public:
  Faults(const HostFaults& options, uint32_t device)
      : options_(options),
        device_(device),
        active_(options.before != nullptr || options.most_delay_us != 0 || options.fail_device == device) {}

  // To be called before `call` does anything: sleeps as it must, and says with which error the call must
  // fail.
  Status Before(HostCall call, uint32_t step = kNone) { return active_ ? Meet(call, step) : Status::Ok(); }
  bool reorder() const { return options_.reorder; }
  // The next number of a sequence that the seed and the device decide.
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
