// Drivers and devices that forward every call to another. Derive from them to observe or change a few calls.
#pragma once

#include "core/driver.h"

namespace rondo {

// `inner` must outlive it.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device* inner) : inner_(inner) {}
  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    return inner_->Allocate(bytes, alignment);
  }
  void Free(DeviceAddress address, uint64_t bytes) override { inner_->Free(address, bytes); }
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override {
    return inner_->MemoryInfo(free_bytes, total_bytes);
  }
  Status CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) override {
    return inner_->CopyIn(to, host, bytes, stream);
  }
  Status CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    return inner_->CopyOut(host, from, bytes, stream);
  }
  Status Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    return inner_->Copy(to, from, bytes, stream);
  }
  Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) override {
    return inner_->Fill(to, byte, bytes, stream);
  }
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override {
    return inner_->FillSynthetic(to, dtype, elements, key, scale, stream);
  }
  Result<Module*> LoadModule(const PlanData& plan) override { return inner_->LoadModule(plan); }
  void DestroyModule(Module* module) override { inner_->DestroyModule(module); }
  Result<Stream*> CreateStream() override { return inner_->CreateStream(); }
  void DestroyStream(Stream* stream) override { inner_->DestroyStream(stream); }
  Result<uint64_t> ReserveStaging(Stream* stream, const CopyNeeds& copies) override {
    return inner_->ReserveStaging(stream, copies);
  }
  void SetStop(Stream* stream, StopSignal* stop) override { inner_->SetStop(stream, stop); }
  Result<Event*> CreateEvent() override { return inner_->CreateEvent(); }
  Result<Event*> CreateTimedEvent() override { return inner_->CreateTimedEvent(); }
  Result<double> ElapsedMicroseconds(Event* from, Event* to) override {
    return inner_->ElapsedMicroseconds(from, to);
  }
  void DestroyEvent(Event* event) override { inner_->DestroyEvent(event); }
  Status Record(Event* event, Stream* stream) override { return inner_->Record(event, stream); }
  Status Wait(Event* event, Stream* stream) override { return inner_->Wait(event, stream); }
  Status Synchronize(Stream* stream, uint32_t* step) override { return inner_->Synchronize(stream, step); }
  uint32_t FailedAssertion(const Stream* stream) const override { return inner_->FailedAssertion(stream); }
  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override {
    return inner_->Launch(module, kernel, addresses, stream, step);
  }
  Status Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
              uint32_t step) override {
    return inner_->Call(module, op, addresses, stream, step);
  }
  Status SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) override {
    return inner_->SetAddresses(graph, node, addresses);
  }
  Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                         Stream* stream) override {
    return inner_->StartCollective(part, from, to, stream);
  }
  Status WaitCollective(const CollectivePart& part, Stream* stream) override {
    return inner_->WaitCollective(part, stream);
  }
  Status BeginRecord(Stream* stream) override { return inner_->BeginRecord(stream); }
  Result<Graph*> EndRecord(Stream* stream) override { return inner_->EndRecord(stream); }
  void DestroyGraph(Graph* graph) override { inner_->DestroyGraph(graph); }
  Span<const GraphNode> Nodes(const Graph* graph) override { return inner_->Nodes(graph); }
  Status LaunchGraph(Graph* graph, Stream* stream) override { return inner_->LaunchGraph(graph, stream); }

 protected:
  Device* inner_;
};

// `inner` must outlive it. Devices are the inner driver's own.
class ForwardingDriver : public Driver {
 public:
  explicit ForwardingDriver(Driver* inner) : inner_(inner) {}
  DriverInfo Info() const override { return inner_->Info(); }
  uint32_t DeviceCount() const override { return inner_->DeviceCount(); }
  Result<Device*> Open(uint32_t index) override { return inner_->Open(index); }
  Status Supports(const PlanData& plan) const override { return inner_->Supports(plan); }
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices) override {
    return inner_->CreateCollectives(program, devices);
  }
  void DestroyCollectives(Collectives* collectives) override { inner_->DestroyCollectives(collectives); }
  Status BeginCollectives(Collectives* collectives) override { return inner_->BeginCollectives(collectives); }
  void AbortCollectives(Collectives* collectives, const Status& why, bool wait) override {
    inner_->AbortCollectives(collectives, why, wait);
  }
  Status Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) override {
    return inner_->Progress(collectives, device, progress);
  }
  Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) override {
    return inner_->Agree(so_far, plan, contents, stop);
  }

 protected:
  Driver* inner_;
};

// Device 0 of `inner` as `device`; both must outlive it.
class OneDeviceDriver : public ForwardingDriver {
 public:
  OneDeviceDriver(Driver* inner, Device* device) : ForwardingDriver(inner), device_(device) {}
  uint32_t DeviceCount() const override { return 1; }
  Result<Device*> Open(uint32_t) override { return device_; }

 private:
  Device* device_;
};

}  // namespace rondo
