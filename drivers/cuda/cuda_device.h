// CudaDevice: core/driver.h's Device on one GPU. Internal to drivers/cuda.
#ifndef RONDO_DRIVERS_CUDA_CUDA_DEVICE_H_
#define RONDO_DRIVERS_CUDA_CUDA_DEVICE_H_

#include <mutex>
#include <vector>

#include "core/driver.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

// What a kernel writes when an index is out of range: page-locked host memory, one a stream.
struct FaultRecord {
  unsigned long long taken, step, value, extent;
};

struct CudaModule {
  ModuleHandle handle = nullptr;
  std::vector<Function> functions;  // one a kernel of the plan
  std::vector<uint32_t> grids, shared, params;
  std::vector<bool> waits;
  uint32_t block = 0;
};

// What a graph's node was recorded from.
struct CudaNode {
  NodeHandle handle = nullptr;  // null: it keeps its addresses
  const CudaModule* module = nullptr;
  uint32_t kernel = 0;
  FaultRecord* faults = nullptr;
  uint64_t bytes = 0;  // of a copy
};

struct CudaStream {
  StreamHandle handle = nullptr;
  FaultRecord* faults = nullptr;
  bool recording = false;
  bool after_kernel = false;       // the recording's last node on this stream is a kernel
  std::vector<GraphNode> nodes;    // of the recording
  std::vector<CudaNode> recorded;  // one a node
};

struct CudaEvent {
  EventHandle handle = nullptr;
  bool timed = false;
};

struct CudaGraph {
  GraphHandle graph = nullptr;
  GraphExec exec = nullptr;
  std::vector<GraphNode> nodes;
  std::vector<CudaNode> recorded;  // one a node
};

inline CudaStream* ToCuda(Stream* stream) { return reinterpret_cast<CudaStream*>(stream); }
inline CudaModule* ToCuda(Module* module) { return reinterpret_cast<CudaModule*>(module); }
inline CudaGraph* ToCuda(Graph* graph) { return reinterpret_cast<CudaGraph*>(graph); }
inline CudaEvent* ToCuda(Event* event) { return reinterpret_cast<CudaEvent*>(event); }

inline constexpr size_t kMostParams = 4096;

// Leaves in `params` where a kernel's parameters are: the addresses, then what every kernel has. All must
// stay until the kernel has been launched.
inline void FillParams(const CudaModule& module, uint32_t kernel, Span<const DeviceAddress> addresses,
                       FaultRecord* const& faults, const uint32_t& step, void* (&params)[kMostParams]) {
  const size_t count = module.params[kernel];
  for (size_t p = 0; p < count; ++p) params[p] = const_cast<DeviceAddress*>(&addresses[p]);
  params[count] = const_cast<FaultRecord**>(&faults);
  params[count + 1] = const_cast<uint32_t*>(&step);
}

class CudaDevice final : public Device {
 public:
  static Result<CudaDevice*> Create(const Api& api, uint32_t index);
  ~CudaDevice() override;

  // "sm_90": of the device.
  int major() const { return major_; }
  int minor() const { return minor_; }
  const char* name() const { return name_; }
  const Api& api() const { return api_; }
  Context context() const { return context_; }
  Status Check(Error error, const char* call) const {
    return ToStatus(api_, error, call).At("cuda device %u", index_);
  }

  // Makes the device's context current for a scope.
  class Use {
   public:
    explicit Use(const CudaDevice& device) : api_(device.api_) { api_.context_push(device.context_); }
    ~Use() {
      Context popped;
      api_.context_pop(&popped);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const Api& api_;
  };

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
  Result<Event*> CreateEvent() override;
  Result<Event*> CreateTimedEvent() override;
  Result<double> ElapsedMicroseconds(Event* from, Event* to) override;
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
  Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                         Stream* stream) override;
  Status WaitCollective(const CollectivePart& part, Stream* stream) override;

 private:
  explicit CudaDevice(const Api& api) : api_(api) {}
  // Notes what has just been captured on `stream`, if it is recording. `from` becomes the node's, with its
  // handle; without, the node keeps its addresses.
  void Note(CudaStream* stream, GraphNode node, const CudaNode* from = nullptr);
  Result<Event*> MakeEvent(bool timed);
  // The module of the plan that this device can run; null if there is none.
  const CodeModule* Suitable(const PlanData& plan) const;

  // What cuMemAlloc gave for an address that had to be rounded up.
  struct Rounded {
    Address given, address;
  };

  const Api& api_;
  std::mutex mutex_;  // guards rounded_
  std::vector<Rounded> rounded_;
  uint32_t index_ = 0;
  DeviceId id_ = 0;
  Context context_ = nullptr;
  int major_ = 0, minor_ = 0;
  char name_[128] = {};
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_CUDA_DEVICE_H_
