// A driver for tests: runs map kernels slowly and correctly, counts all calls, and fails on request.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/driver.h"

namespace rondo {

// Fields that tests may change before a call, and read after it.
struct FakeControls {
  bool host_memory = true;
  uint32_t max_streams = 1;
  uint64_t free_bytes = 1 << 30;
  // The name of a Device function ("Allocate", "LaunchGraph", ...) to fail, and the number of its calls that
  // succeed before that; "" for none.
  std::string fail;
  int fail_after = 0;
  Code fail_code = Code::kInternal;
  bool swap_recorded = false;               // EndRecord reports its first two nodes exchanged
  bool drop_recorded = false;               // EndRecord loses its last node
  bool rebinds = false;                     // SetAddresses works
  uint32_t fixed_node = kNone;              // except for this node of every graph
  bool stages = false;                      // ReserveStaging returns the requested bytes
  void (*on_launch)(void* user) = nullptr;  // at the end of each LaunchGraph
  void* user = nullptr;

  // Read only.
  std::map<std::string, int> calls;
  int live_objects = 0;  // streams, events, graphs, modules and memory blocks
  uint64_t live_bytes = 0;
  CopyNeeds needs;  // of the last ReserveStaging
  std::mutex mutex;

  // Counts a call. Returns the error that the call must return, if any.
  Status Call(const char* name);
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(FakeControls* controls) : controls_(controls) {}
  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override;
  void Free(DeviceAddress address, uint64_t bytes) override;
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override;
  Status CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) override;
  Status CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream* stream) override;
  Status Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) override;
  Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) override;
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override;
  Result<Module*> LoadModule(const PlanData& plan) override;
  void DestroyModule(Module* module) override;
  Result<Stream*> CreateStream() override;
  void DestroyStream(Stream* stream) override;
  Result<uint64_t> ReserveStaging(Stream* stream, const CopyNeeds& copies) override;
  Result<Event*> CreateEvent() override;
  void DestroyEvent(Event* event) override;
  Status Record(Event* event, Stream* stream) override;
  Status Wait(Event* event, Stream* stream) override;
  Status Synchronize(Stream* stream, uint32_t* failed_step) override;
  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override;
  Status BeginRecord(Stream* stream) override;
  Result<Graph*> EndRecord(Stream* stream) override;
  void DestroyGraph(Graph* graph) override;
  Span<const GraphNode> Nodes(const Graph* graph) override;
  Status LaunchGraph(Graph* graph, Stream* stream) override;
  Status SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) override;

 private:
  void Count(int objects, int64_t bytes);
  FakeControls* controls_;
};

class FakeDriver : public Driver {
 public:
  explicit FakeDriver(uint32_t devices = 1);
  DriverInfo Info() const override;
  uint32_t DeviceCount() const override { return static_cast<uint32_t>(devices_.size()); }
  Result<Device*> Open(uint32_t index) override;
  Status Supports(const PlanData& plan) const override;
  FakeControls controls;

 private:
  std::vector<FakeDevice> devices_;
};

}  // namespace rondo
