// FaultyDriver: wraps another driver. Each call that can fail is a fault point, and the objects that its
// devices have given out are counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "core/driver.h"

namespace rondo {

// The objects of a driver's devices that are held now.
struct DeviceBalance {
  int64_t objects = 0;  // modules, streams, events, graphs, collectives, memory blocks
  int64_t bytes = 0;
  int64_t calls = 0;  // total number of calls that could fail
};

// As thread-safe as `inner`, which must outlive it, except for Open.
class FaultyDriver : public Driver {
 public:
  explicit FaultyDriver(Driver* inner);
  ~FaultyDriver() override;
  DriverInfo Info() const override { return inner_->Info(); }
  uint32_t DeviceCount() const override { return inner_->DeviceCount(); }
  Result<Device*> Open(uint32_t index) override;
  Status Supports(const PlanData& plan) const override { return inner_->Supports(plan); }
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices) override;
  void DestroyCollectives(Collectives* collectives) override;
  Status BeginCollectives(Collectives* collectives) override;
  void AbortCollectives(Collectives* collectives, const Status& why, bool wait) override {
    inner_->AbortCollectives(collectives, why, wait);
  }
  Status Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) override {
    return inner_->Progress(collectives, device, progress);
  }
  DeviceBalance balance() const { return {counts_.objects, counts_.bytes, counts_.calls}; }

  struct Counts {
    std::atomic<int64_t> objects{0}, bytes{0}, calls{0};
  };

 private:
  Driver* inner_;
  Counts counts_;
  std::map<uint32_t, std::unique_ptr<Device>> devices_;
};

}  // namespace rondo
