// CudaDevice: core/driver.h's Device on one GPU. Internal to drivers/cuda.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "core/arena.h"
#include "core/driver.h"
#include "core/list.h"
#include "drivers/cuda/choose_module.h"
#include "drivers/cuda/collective_notes.h"
#include "drivers/cuda/copy_team.h"
#include "drivers/cuda/cublaslt_opening.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_calls.h"
#include "drivers/cuda/device_blocks.h"
#include "drivers/cuda/launch_params.h"
#include "drivers/cuda/library_matmuls.h"
#include "drivers/cuda/peer_collectives/norm_kernel.h"
#include "drivers/cuda/peer_collectives/small_kernels.h"
#include "drivers/cuda/staging.h"
#include "drivers/cuda/synthetic_fill.h"
#include "drivers/cuda/weight_copy.h"
#include "formats/machine_code/kernel_params.h"

namespace rondo::cuda {

// The error that ended CUDA for this process. A kernel's fault, for example a bad address, makes the contexts
// of all devices unusable, so the devices of a driver share the first such error. Thread-safe.
class Ending {
 public:
  // OK while CUDA lives.
  Status Get() {
    if (!is_set_.load(std::memory_order_acquire)) return Status::Ok();
    std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  // Only the first call counts.
  void Set(const Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
    is_set_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  Status status_;
  std::atomic<bool> is_set_{false};
};

struct CudaKernel {
  Function function = nullptr;
  uint32_t grid = 0, block = 0, shared = 0, params = 0;
  Span<const TensorMap> tensor_maps;  // in the module's arena
  bool waits = false;
  std::unique_ptr<LibraryMatmulRun> matmul;  // null: the function computes it
  const NormKernel* norm = nullptr;  // in the module's arena: a norm that the all-reduce before it can do
};

class CudaDevice;

struct CudaModule {
  const PlanData* plan = nullptr;
  Arena arena;
  GrowingList<ModuleHandle> handles;      // one for each code of the plan's module
  std::unique_ptr<CudaKernel[]> kernels;  // one for each kernel of the plan
  size_t num_kernels = 0;
  std::unique_ptr<CudaCalls> calls;  // null: the plan has none
  // The thread that prepares its library matmuls, if one does, and what came of it.
  CudaDevice* device = nullptr;
  const CodeModule* code = nullptr;
  void* thread = nullptr;
  bool has_thread = false;
  Status prepared;
};

// The origin of a graph's node.
struct CudaNode {
  NodeHandle handle = nullptr;  // null: it keeps its addresses
  const CudaModule* module = nullptr;
  uint32_t kernel = 0;
  FaultRecord* faults = nullptr;
  uint64_t bytes = 0;    // of a copy
  size_t addresses = 0;  // addresses passed; a kernel may use fewer
};

struct CudaStream;
struct CudaEvent;

// A graph being recorded. One stream began it; others join when they wait for one of its events.
struct CudaRecording {
  CudaStream* origin = nullptr;
  uint64_t number = 0;               // unique in this process
  bool in_line = false;              // all its streams record on the origin's
  const CudaStream* last = nullptr;  // the stream that recorded the last node
  GrowingList<GraphNode> nodes;
  GrowingList<CudaNode> recorded;       // one a node
  GrowingList<CudaStream*> streams;     // the origin among them
  GrowingList<CudaEvent*> events;       // events last recorded in it
  GrowingList<CollectiveNotes*> notes;  // notes made beside its streams

  // Adds notes for which the recording's end waits. False when out of memory.
  bool Joins(CollectiveNotes* more) {
    for (CollectiveNotes* one : notes) {
      if (one == more) return true;
    }
    return notes.push_back(more);
  }
};

class CudaCollectives;

// A small all-reduce that was started but not yet enqueued, in case the next kernel is a norm that it can
// also do.
struct HeldCollective {
  CudaCollectives* of = nullptr;  // null: there is none
  CollectivePart part;
  DeviceAddress from = 0, to = 0;
};

struct CudaStream {
  StreamHandle handle = nullptr;
  StreamHandle own = nullptr;  // its own handle, while it records on another's
  FaultRecord* faults = nullptr;
  CudaRecording* recording = nullptr;  // null: not recording
  Status fault;                        // of a custom op, since the last Synchronize
  uint32_t fault_step = 0;
  const PlanData* plan = nullptr;     // whose kernels it launches
  uint32_t failed_assertion = kNone;  // of the last error that Synchronize returned
  bool after_kernel = false;          // the recording's last node on this stream is a kernel
  std::unique_ptr<Staging> staging;
  HeldCollective held;     // enqueued before everything that follows
  bool has_graph = false;  // a graph was launched since the stream was last known to be idle
};

struct CudaEvent {
  EventHandle handle = nullptr;
  bool timed = false;
  CudaRecording* recording = nullptr;  // the one in which it was last recorded
};

struct CudaGraph {
  GraphHandle graph = nullptr;
  GraphExec exec = nullptr;
  GrowingList<GraphNode> nodes;
  GrowingList<CudaNode> recorded;  // one a node
};

inline CudaStream* ToCuda(Stream* stream) { return reinterpret_cast<CudaStream*>(stream); }
inline CudaModule* ToCuda(Module* module) { return reinterpret_cast<CudaModule*>(module); }
inline CudaGraph* ToCuda(Graph* graph) { return reinterpret_cast<CudaGraph*>(graph); }
inline CudaEvent* ToCuda(Event* event) { return reinterpret_cast<CudaEvent*>(event); }

class CudaDevice final : public Device {
 public:
  // `ops` may be null. It, `ending` and `cublaslt` must outlive the device.
  static Result<CudaDevice*> Create(const Api& api, uint32_t index, const OpRegistry* ops,
                                    const ThreadHooks& hooks, CublasLtOpening* cublaslt, Ending* ending);
  ~CudaDevice() override;

  // Compute capability of the device: 9 and 0 for sm_90.
  int major() const { return major_; }
  int minor() const { return minor_; }
  // The module of the plan that runs here, and why the others were not chosen.
  ModuleChoice Choose(const PlanData& plan) const {
    return ChooseModule(plan, major_ * 10 + minor_, static_cast<uint32_t>(shared_));
  }
  const char* name() const { return name_; }
  // Identifies the GPU across machines; never 0.
  uint64_t identity() const;
  uint32_t index() const { return index_; }
  DeviceId id() const { return id_; }
  uint32_t processors() const { return static_cast<uint32_t>(processors_); }
  SmallKernels& small() { return small_; }
  const Api& api() const { return api_; }
  Context context() const { return context_; }
  // OK, or the error of `call` as a sentence. A fault that CUDA makes final is kept: from then on, every call
  // on every device returns it.
  Status Check(Error error, const char* call);
  // Loads machine code or PTX, with the device's context current. The error has the messages of the NVIDIA
  // driver's compiler.
  Status LoadCode(ModuleHandle* module, const void* binary, const char* call);

  // From now on `ranks` ranks of one program run here. A GPU has few queues, so a stream's work may queue
  // behind another's that waits for a rank, whose own work is behind it. So nothing is queued behind a graph,
  // and no graph behind copies. With more than kMostWithBranches ranks, graphs have no branches: one queue
  // for each rank.
  void SeveralRanks(uint32_t ranks);
  static constexpr uint32_t kMostWithBranches = 4;

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
  Result<Module*> BeginModule(const PlanData& plan) override;
  Status FinishModule(Module* module) override;
  void DestroyModule(Module* module) override;
  Result<Stream*> CreateStream() override;
  void DestroyStream(Stream* stream) override;
  Result<uint64_t> ReserveStaging(Stream* stream, const CopyNeeds& copies) override;
  Result<Event*> CreateEvent() override;
  Result<Event*> CreateTimedEvent() override;
  Result<double> ElapsedMicroseconds(Event* from, Event* to) override;
  void DestroyEvent(Event* event) override;
  Status Record(Event* event, Stream* stream) override;
  Status Wait(Event* event, Stream* stream) override;
  Status Synchronize(Stream* stream, uint32_t* failed_step) override;
  uint32_t FailedAssertion(const Stream* stream) const override;
  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override;
  Status Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
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
  CudaDevice(const Api& api, const OpRegistry* ops, const ThreadHooks& hooks, CublasLtOpening* cublaslt,
             Ending* ending)
      : api_(api),
        ops_(ops),
        hooks_(hooks),
        ending_(ending),
        opening_(cublaslt),
        blocks_(api),
        fill_(*this),
        small_(*this) {}
  Status LoadKernels(const PlanData& plan, const CodeModule& code, CudaModule* module);
  // Makes weight_copy_ if the plan has enough weights.
  Status PrepareWeightCopy(const PlanData& plan);
  // Destroys weight_copy_ if its last copy was on stream `of`; null: if it never copied.
  void DropWeightCopy(StreamHandle of);
  // Enqueues the collective that the stream holds, before all that is enqueued on it or ordered after it.
  static Status Settle(CudaStream* stream);
  // Whether the collective that the stream holds also does this launch; if so, it is enqueued.
  Result<bool> LaunchHeld(const CudaKernel& kernel, Span<const DeviceAddress> addresses, CudaStream* stream);
  // Adds a node for what was just captured on `stream`, if it is recording. With `from`, which gets the
  // node's handle, its addresses can change; without, they cannot.
  void Note(CudaStream* stream, GraphNode node, const CudaNode* from = nullptr);
  // Detaches the streams and events of a recording, which is about to be destroyed.
  static void Leave(CudaRecording* recording);
  Result<Event*> MakeEvent(bool timed);
  // If several ranks run here, waits for the stream's work.
  Status Idle(CudaStream* stream);
  // Prepares the stream for recording.
  static void RecordsNext(CudaStream* stream);
  // Whether libcuda does not know the `bytes` at `memory` (pageable memory), so that a copy from or to them
  // blocks inside it. With the device's context current.
  Result<bool> IsOrdinary(const void* memory, uint64_t bytes);
  // Chooses the algorithms of the module's library matmuls and captures each once, so that nothing is loaded
  // later. BeginMatmuls has a thread do that until FinishModule, unless another plan is loaded: its sessions
  // run while this one's weights are copied, and code is not loaded during runs.
  Status BeginMatmuls(const CodeModule& code, CudaModule* module);
  Status PrepareMatmuls(const PlanData& plan, const CodeModule& code, CudaModule* module);
  Status CaptureOnce(LibraryMatmulRun* matmul, size_t params);
  Status LaunchMatmul(LibraryMatmulRun* matmul, Span<const DeviceAddress> addresses, CudaStream* stream,
                      uint32_t step);
  // Compares the NVIDIA driver's data about a function that it has compiled itself with the launch.
  Status CheckCompiled(Function function, const KernelBinary& binary, uint32_t threads);

  const Api& api_;
  const OpRegistry* const ops_;
  const ThreadHooks hooks_;
  Ending* const ending_;
  CublasLtOpening* const opening_;
  std::atomic<uint32_t> modules_{0};  // not yet destroyed
  DeviceBlocks blocks_;
  std::mutex mutex_;  // guards team_ and cublaslt_
  SyntheticFill fill_;
  SmallKernels small_;
  // For the plan whose weights are being copied. Destroyed when its stream is waited for or, if this device
  // had no weights, when a session begins to record.
  std::mutex copy_mutex_;
  std::unique_ptr<WeightCopy> weight_copy_;
  std::atomic<bool> has_weight_copy_{false};
  std::atomic<bool> several_ranks_{false};
  std::atomic<bool> in_line_{false};
  std::unique_ptr<CopyTeam> team_;  // guarded by mutex_; made for the first stream with large copies
  uint32_t index_ = 0;
  DeviceId id_ = 0;
  Context context_ = nullptr;
  const cublaslt::Api* cublaslt_ = nullptr;  // with its handle, made for the first plan that needs them
  cublaslt::Handle cublaslt_handle_ = nullptr;
  int major_ = 0, minor_ = 0;
  int processors_ = 0;
  int shared_ = 0;  // most bytes of shared memory for a block
  char name_[128] = {};
};

}  // namespace rondo::cuda
