// FaultyDriver: the host driver with one fault, for tests of the lifecycle verifier.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/forwarding_driver.h"

namespace rondo {

// The faults of a FaultyDriver; unset ones do not happen. Functions are called on the calling thread, with
// device addresses, which are host pointers.
struct Faults {
  using Addresses = Span<const DeviceAddress>;
  // Called after a launch outside of recordings: changes memory.
  std::function<void(uint32_t step, Addresses addresses)> after_launch;
  // Whether a launch outside of recordings is left out.
  std::function<bool(uint32_t step)> skip;
  // Called before a launch outside of recordings; an error is returned in place of the launch.
  std::function<Status(uint32_t step)> fail;
  // Called after the replay of a graph. `modules`: the number of calls of LoadModule so far.
  std::function<void(int modules)> after_graph;
  std::function<void(DeviceAddress to)> after_synthetic;
  bool same_memory = false;  // Allocate gives the same block each time
  bool leak = false;         // each module leaks memory
};

class FaultyDevice : public ForwardingDevice {
 public:
  FaultyDevice(Device* inner, const Faults& faults) : ForwardingDevice(inner), faults_(faults) {}

  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    if (!faults_.same_memory) return inner_->Allocate(bytes, alignment);
    memory_.resize(std::max<size_t>(memory_.size(), kMemory));
    return (reinterpret_cast<DeviceAddress>(memory_.data()) + alignment - 1) / alignment * alignment;
  }
  void Free(DeviceAddress address, uint64_t bytes) override {
    if (!faults_.same_memory) inner_->Free(address, bytes);
  }
  Result<Module*> LoadModule(const PlanData& plan) override {
    ++modules_;
    if (faults_.leak) leaked_.emplace_back(4096);
    return inner_->LoadModule(plan);
  }
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override {
    const Status status = inner_->FillSynthetic(to, dtype, elements, key, scale, stream);
    if (faults_.after_synthetic) faults_.after_synthetic(to);
    return status;
  }
  Status BeginRecord(Stream* stream) override {
    recording_ = true;
    return inner_->BeginRecord(stream);
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    recording_ = false;
    return inner_->EndRecord(stream);
  }
  Status Launch(Module* module, uint32_t kernel, Faults::Addresses addresses, Stream* stream,
                uint32_t step) override {
    if (!recording_ && faults_.fail) RONDO_RETURN_IF_ERROR(faults_.fail(step));
    if (!recording_ && faults_.skip && faults_.skip(step)) return Status::Ok();
    const Status status = inner_->Launch(module, kernel, addresses, stream, step);
    if (!recording_ && faults_.after_launch) faults_.after_launch(step, addresses);
    return status;
  }
  Status LaunchGraph(Graph* graph, Stream* stream) override {
    const Status status = inner_->LaunchGraph(graph, stream);
    if (faults_.after_graph) faults_.after_graph(modules_);
    return status;
  }

 private:
  static constexpr size_t kMemory = size_t{8} << 20;
  const Faults& faults_;
  bool recording_ = false;
  int modules_ = 0;
  std::vector<uint8_t> memory_;
  std::vector<std::vector<uint8_t>> leaked_;
};

class FaultyDriver : public ForwardingDriver {
 public:
  // Both must outlive it.
  FaultyDriver(Driver* inner, const Faults& faults) : ForwardingDriver(inner), faults_(faults) {}
  Result<Device*> Open(uint32_t index) override {
    RONDO_ASSIGN_OR_RETURN(Device * device, inner_->Open(index));
    if (device_ == nullptr) device_ = std::make_unique<FaultyDevice>(device, faults_);
    return static_cast<Device*>(device_.get());
  }

 private:
  const Faults& faults_;
  std::unique_ptr<FaultyDevice> device_;
};

}  // namespace rondo
