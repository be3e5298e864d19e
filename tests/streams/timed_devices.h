// Virtual devices with the speed of the cost model.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include "drivers/host/host_driver.h"

namespace rondo {

inline void Sleep(uint64_t microseconds) {
  const timespec time{static_cast<time_t>(microseconds / 1000000),
                      static_cast<long>(microseconds % 1000000 * 1000)};
  nanosleep(&time, nullptr);
}

// Devices on which every step takes the compiler's estimate, times a factor.
class TimedDevices {
 public:
  TimedDevices(uint32_t devices, std::vector<double> times, double slower)
      : times_(std::move(times)), slower_(slower) {
    HostOptions options;
    options.devices = devices;
    options.faults.user = this;
    options.faults.before = &TimedDevices::Before;
    Result<Driver*> driver = CreateHostDriver(options);
    EXPECT_TRUE(driver.ok()) << driver.status().message();
    driver_ = *driver;
  }
  ~TimedDevices() { DestroyHostDriver(driver_); }
  TimedDevices(const TimedDevices&) = delete;
  Driver* driver() { return driver_; }

 private:
  static Status Before(void* user, HostCall call, uint32_t, uint32_t step) {
    auto* self = static_cast<TimedDevices*>(user);
    if ((call == HostCall::kStep || call == HostCall::kCompleteCollective) && step != kNone)
      Sleep(static_cast<uint64_t>(self->times_[step % self->times_.size()] * self->slower_));
    return Status::Ok();
  }

  const std::vector<double> times_;  // for each step
  const double slower_;
  Driver* driver_ = nullptr;
};

}  // namespace rondo
