// HostDevice: core/driver.h's Device in host memory. Internal to drivers/host.
#pragma once

#include <mutex>

#include "core/driver.h"
#include "drivers/host/allocation_registry.h"
#include "drivers/host/collectives.h"
#include "drivers/host/faults.h"
#include "drivers/host/host_driver.h"
#include "drivers/host/sharing.h"
#include "drivers/host/thread_pool.h"

namespace rondo::host {

// One of a driver's virtual devices. Pool, engine and registry belong to the driver and outlive it. Calls on
// different streams may come from several threads at once.
class HostDevice final : public Device {
 public:
  HostDevice(ThreadPool& pool, const Engine& engine, const HostOptions& options, AllocationRegistry& book,
             uint32_t index);

  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override;
  // Memory of another device is not freed.
  void Free(DeviceAddress address, uint64_t bytes) override;
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override;

  Status CopyIn(DeviceAddress to, const void* from, uint64_t bytes, Stream* stream) override;
  Status CopyOut(void* to, DeviceAddress from, uint64_t bytes, Stream* stream) override;
  // Outside graphs, `from` may be another device's memory, as between GPUs.
  Status Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) override;
  Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) override;
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override;

  Result<Module*> LoadModule(const PlanData& plan) override;
  void DestroyModule(Module* module) override;

  Result<Stream*> CreateStream() override;
  void DestroyStream(Stream* stream) override;
  void SetStop(Stream* stream, StopSignal* stop) override;
  Result<Event*> CreateEvent() override;
  Result<Event*> CreateTimedEvent() override;
  Result<double> ElapsedMicroseconds(Event* from, Event* to) override;
  void DestroyEvent(Event* event) override;
  Status Record(Event* event, Stream* stream) override;
  // A stream that waits for an event of a recording joins the recording until it ends.
  Status Wait(Event* event, Stream* stream) override;
  Status Synchronize(Stream* stream, uint32_t* failed_step) override;
  uint32_t FailedAssertion(const Stream* stream) const override;

  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override;
  Status Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
              uint32_t step) override;
  Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                         Stream* stream) override;
  Status WaitCollective(const CollectivePart& part, Stream* stream) override;

  Status BeginRecord(Stream* stream) override;
  Result<Graph*> EndRecord(Stream* stream) override;
  void DestroyGraph(Graph* graph) override;
  Span<const GraphNode> Nodes(const Graph* graph) override;
  Status SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) override;
  Status LaunchGraph(Graph* graph, Stream* stream) override;

 private:
  Status Move(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream, bool from_any = false);
  // Refuses memory of another device.
  Status Own(DeviceAddress address, uint64_t bytes);

  ThreadPool& pool_;
  const Engine& engine_;
  const HostAllocator allocator_;
  const ThreadHooks hooks_;
  const OpRegistry* const ops_;
  const Sharing sharing_;
  AllocationRegistry& book_;
  const uint32_t index_;
  const bool one_device_;
  Faults faults_;
  CollectiveStream collectives_;
  std::mutex mutex_;  // guards the start of collectives_
};

}  // namespace rondo::host
