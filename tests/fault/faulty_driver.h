// FaultyDriver: another driver, each of whose calls that can fail is a fault point, and what its devices have
// given out is counted.
#ifndef RONDO_TESTS_FAULT_FAULTY_DRIVER_H_
#define RONDO_TESTS_FAULT_FAULTY_DRIVER_H_

#include <cstdint>
#include <memory>

#include "core/driver.h"

namespace rondo {

// What is held of a driver's devices now.
struct DeviceBalance {
  int64_t objects = 0;  // modules, streams, events, graphs, memory blocks
  int64_t bytes = 0;
  int64_t calls = 0;  // that could fail, in all
};

// Not thread-safe. `inner` must outlive it.
class FaultyDriver : public Driver {
 public:
  explicit FaultyDriver(Driver* inner);
  ~FaultyDriver() override;
  DriverInfo Info() const override { return inner_->Info(); }
  uint32_t DeviceCount() const override { return inner_->DeviceCount(); }
  Result<Device*> Open(uint32_t index) override;
  Status Supports(const PlanData& plan) const override { return inner_->Supports(plan); }
  const DeviceBalance& balance() const { return balance_; }

 private:
  Driver* inner_;
  DeviceBalance balance_;
  std::unique_ptr<Device> device_;
};

}  // namespace rondo

#endif  // RONDO_TESTS_FAULT_FAULTY_DRIVER_H_
