#include "tools/rondo/timed_driver.h"

#include <chrono>

#include "core/forwarding_driver.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time of its scope, in milliseconds.
class Timed {
 public:
  explicit Timed(double* to) : to_(to), start_(Clock::now()) {}
  ~Timed() { *to_ += std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double* to_;
  Clock::time_point start_;
};

class TimedDevice : public ForwardingDevice {
 public:
  TimedDevice(Device* inner, ReadyTimes* times) : ForwardingDevice(inner), times_(times) {}
  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    Timed timed(&times_->memory);
    return inner_->Allocate(bytes, alignment);
  }
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override {
    Timed timed(&times_->memory);
    return inner_->MemoryInfo(free_bytes, total_bytes);
  }
  Result<Module*> LoadModule(const PlanData& plan) override {
    Timed timed(&times_->modules);
    return inner_->LoadModule(plan);
  }
  Result<Module*> BeginModule(const PlanData& plan) override {
    Timed timed(&times_->modules);
    return inner_->BeginModule(plan);
  }
  Status FinishModule(Module* module) override {
    Timed timed(&times_->library);
    return inner_->FinishModule(module);
  }
  Status CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) override {
    Timed timed(&times_->weights);
    return inner_->CopyIn(to, host, bytes, stream);
  }
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override {
    Timed timed(&times_->weights);
    return inner_->FillSynthetic(to, dtype, elements, key, scale, stream);
  }
  Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) override {
    zeroing_ = true;  // weights are allocated before arenas
    Timed timed(&times_->memory);
    return inner_->Fill(to, byte, bytes, stream);
  }
  Status Synchronize(Stream* stream, uint32_t* step) override {
    Timed timed(zeroing_ ? &times_->memory : &times_->weights);
    return inner_->Synchronize(stream, step);
  }
  Result<Stream*> CreateStream() override {
    Timed timed(&times_->memory);
    return inner_->CreateStream();
  }
  Status BeginRecord(Stream* stream) override {
    recording_ = Clock::now();
    return inner_->BeginRecord(stream);
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    Result<Graph*> graph = inner_->EndRecord(stream);
    times_->graphs += std::chrono::duration<double, std::milli>(Clock::now() - recording_).count();
    return graph;
  }

 private:
  ReadyTimes* times_;
  bool zeroing_ = false;
  Clock::time_point recording_;
};

class TimedDriver : public Driver {
 public:
  TimedDriver(Driver* inner, ReadyTimes* times) : inner_(inner), times_(times) {}
  DriverInfo Info() const override { return inner_->Info(); }
  uint32_t DeviceCount() const override { return inner_->DeviceCount(); }
  Status Supports(const PlanData& plan) const override { return inner_->Supports(plan); }
  Status Expect(const PlanData& plan) override { return inner_->Expect(plan); }
  Result<Device*> Open(uint32_t index) override {
    Timed timed(&times_->device);
    RONDO_ASSIGN_OR_RETURN(Device * inner, inner_->Open(index));
    if (device_ == nullptr) device_ = std::make_unique<TimedDevice>(inner, times_);
    return static_cast<Device*>(device_.get());
  }

 private:
  Driver* inner_;
  ReadyTimes* times_;
  std::unique_ptr<Device> device_;
};

}  // namespace

std::unique_ptr<Driver> MakeTimedDriver(Driver* inner, ReadyTimes* times) {
  return std::make_unique<TimedDriver>(inner, times);
}

}  // namespace rondo::tools
