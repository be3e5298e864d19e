#include "drivers/host/host_driver.h"

#include <sys/sysinfo.h>

#include <cstring>
#include <mutex>
#include <new>

#include "core/synthetic.h"
#include "drivers/host/module.h"
#include "drivers/host/stream.h"

namespace rondo {
namespace {

using host::GraphEntry;
using host::HostEvent;
using host::HostGraph;
using host::HostModule;
using host::HostStream;

constexpr uint32_t kMaxDevices = 64;
constexpr uint32_t kUnknownStep = 0xffffffffu;  // copies and fills do not know their step

// The opaque handles of core/driver.h.
HostStream* ToHost(Stream* s) { return reinterpret_cast<HostStream*>(s); }
HostModule* ToHost(Module* m) { return reinterpret_cast<HostModule*>(m); }
HostEvent* ToHost(Event* e) { return reinterpret_cast<HostEvent*>(e); }
HostGraph* ToHost(Graph* g) { return reinterpret_cast<HostGraph*>(g); }

void* Bytes(DeviceAddress address) { return reinterpret_cast<void*>(address); }

class HostDevice final : public Device {
 public:
  HostDevice(host::ThreadPool& pool, const host::Engine& engine, const HostOptions& options)
      : pool_(pool),
        engine_(engine),
        allocator_(options.allocator),
        work_per_thread_(options.work_per_thread) {}

  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      return Status::Error(Code::kInvalidArgument, "host device: alignment %llu is not a power of two",
                           static_cast<unsigned long long>(alignment));
    }
    if (alignment < 64) alignment = 64;
    if (bytes > ~uint64_t{0} - alignment) bytes = ~uint64_t{0} - alignment;
    const uint64_t size = (bytes + alignment - 1) / alignment * alignment;
    void* block = allocator_.allocate(allocator_.user, size == 0 ? alignment : size, alignment);
    if (block == nullptr) {
      return Status::Error(Code::kOutOfMemory, "host device: no memory for %llu bytes",
                           static_cast<unsigned long long>(bytes));
    }
    return reinterpret_cast<DeviceAddress>(block);
  }
  void Free(DeviceAddress address, uint64_t bytes) override {
    if (address != 0) allocator_.deallocate(allocator_.user, Bytes(address), bytes);
  }
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override {
    struct sysinfo info;
    if (sysinfo(&info) != 0) return Status::Error(Code::kIo, "host device: sysinfo failed");
    *free_bytes = static_cast<uint64_t>(info.freeram + info.bufferram) * info.mem_unit;
    *total_bytes = static_cast<uint64_t>(info.totalram) * info.mem_unit;
    return Status::Ok();
  }

  Status CopyIn(DeviceAddress to, const void* from, uint64_t bytes, Stream* stream) override {
    return Copy(to, reinterpret_cast<DeviceAddress>(from), bytes, stream);
  }
  Status CopyOut(void* to, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    return Copy(reinterpret_cast<DeviceAddress>(to), from, bytes, stream);
  }
  Status Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    if (HostGraph* graph = ToHost(stream)->recording) {
      GraphEntry entry;
      entry.kind = GraphEntry::Kind::kCopy;
      entry.to = to;
      entry.from = from;
      entry.bytes = bytes;
      if (!graph->entries.push_back(entry) || !graph->nodes.push_back({kUnknownStep, StepKind::kCopy})) {
        return NoMemoryFor("a recording");
      }
    } else if (bytes != 0) {
      std::memmove(Bytes(to), Bytes(from), bytes);
    }
    return Status::Ok();
  }
  Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) override {
    if (HostGraph* graph = ToHost(stream)->recording) {
      GraphEntry entry;
      entry.kind = GraphEntry::Kind::kFill;
      entry.byte = byte;
      entry.to = to;
      entry.bytes = bytes;
      if (!graph->entries.push_back(entry) || !graph->nodes.push_back({kUnknownStep, StepKind::kCopy})) {
        return NoMemoryFor("a recording");
      }
    } else if (bytes != 0) {
      std::memset(Bytes(to), byte, bytes);
    }
    return Status::Ok();
  }
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override {
    if (ToHost(stream)->recording != nullptr) {
      return Status::Error(Code::kFailedPrecondition, "host device: synthetic weights cannot be recorded");
    }
    constexpr uint64_t kChunk = 4096;
    struct Filling {
      DeviceAddress to;
      DType dtype;
      uint64_t elements, key;
      float scale;
    } filling{to, dtype, elements, key, scale};
    auto share = [](void* context, uint32_t share, uint32_t shares) {
      const Filling& f = *static_cast<const Filling*>(context);
      const uint64_t chunks = (f.elements + kChunk - 1) / kChunk;
      const uint64_t first = chunks * share / shares * kChunk;
      uint64_t last = chunks * (share + 1) / shares * kChunk;
      if (last > f.elements) last = f.elements;
      if (first >= last) return;
      FillSyntheticRange(f.dtype, f.key, f.scale, first, last - first,
                         Bytes(f.to + first * static_cast<uint64_t>(ByteSize(f.dtype))));
    };
    pool_.Run(share, &filling, elements > 16 * kChunk ? pool_.threads() : 1);
    return Status::Ok();
  }

  Result<Module*> LoadModule(const PlanData& plan) override {
    Status status;
    HostModule* module = HostModule::Create(plan, engine_, &status);
    if (module == nullptr) return status;
    std::lock_guard<std::mutex> lock(mutex_);
    for (HostStream* stream : streams_) {
      status = stream->Reserve(module->scratch_bytes());
      if (!status.ok()) {
        delete module;
        return status;
      }
    }
    if (module->scratch_bytes() > scratch_bytes_) scratch_bytes_ = module->scratch_bytes();
    return reinterpret_cast<Module*>(module);
  }
  void DestroyModule(Module* module) override { delete ToHost(module); }

  Result<Stream*> CreateStream() override {
    HostStream* stream = new (std::nothrow) HostStream(pool_, allocator_, work_per_thread_);
    if (stream == nullptr) return Status::Error(Code::kOutOfMemory, "host device: no memory for a stream");
    std::lock_guard<std::mutex> lock(mutex_);
    Status status = stream->Reserve(scratch_bytes_);
    if (!status.ok()) {
      delete stream;
      return status;
    }
    if (!streams_.push_back(stream)) {
      delete stream;
      return NoMemoryFor("a stream");
    }
    return reinterpret_cast<Stream*>(stream);
  }
  void DestroyStream(Stream* stream) override {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.Forget(ToHost(stream));
    if (HostGraph* graph = ToHost(stream)->recording) {
      const bool owner = graph->streams.front() == ToHost(stream);
      graph->streams.Forget(ToHost(stream));
      if (owner) {
        Leave(graph);
        delete graph;
      }
    }
    delete ToHost(stream);
  }
  Result<Event*> CreateEvent() override {
    HostEvent* event = new (std::nothrow) HostEvent;
    if (event == nullptr) return Status::Error(Code::kOutOfMemory, "host device: no memory for an event");
    return reinterpret_cast<Event*>(event);
  }
  Result<Event*> CreateTimedEvent() override {
    RONDO_ASSIGN_OR_RETURN(Event * event, CreateEvent());
    ToHost(event)->timed = true;
    return event;
  }
  Result<double> ElapsedMicroseconds(Event* from, Event* to) override {
    return (static_cast<double>(ToHost(to)->nanoseconds) - static_cast<double>(ToHost(from)->nanoseconds)) *
           1e-3;
  }
  void DestroyEvent(Event* event) override {
    if (HostGraph* graph = ToHost(event)->recording) graph->events.Forget(ToHost(event));
    delete ToHost(event);
  }
  Status Record(Event* event, Stream* stream) override {
    HostGraph* graph = ToHost(stream)->recording;
    if (ToHost(event)->timed) return RecordTime(ToHost(event), graph);
    if (graph != ToHost(event)->recording) {
      if (HostGraph* before = ToHost(event)->recording) before->events.Forget(ToHost(event));
      ToHost(event)->recording = nullptr;
      if (graph != nullptr && !graph->events.push_back(ToHost(event))) return NoMemoryFor("a recording");
      ToHost(event)->recording = graph;
    }
    return Status::Ok();
  }
  // A stream that waits for an event of a recording joins it, until the recording ends.
  Status Wait(Event* event, Stream* stream) override {
    HostGraph* graph = ToHost(event)->recording;
    if (graph == nullptr || ToHost(stream)->recording == graph) return Status::Ok();
    if (ToHost(stream)->recording != nullptr) {
      return Status::Error(Code::kFailedPrecondition, "host device: a stream cannot join a second recording");
    }
    if (!graph->streams.push_back(ToHost(stream))) return NoMemoryFor("a recording");
    ToHost(stream)->recording = graph;
    return Status::Ok();
  }
  Status Synchronize(Stream* stream, uint32_t* failed_step) override {
    return ToHost(stream)->TakeFault(failed_step);
  }

  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override {
    const host::KernelProgram* program = ToHost(module)->kernel(kernel);
    if (program == nullptr || addresses.size() < program->num_params) {
      return Status::Error(Code::kInvalidArgument, "step %u: kernel %u with %zu addresses cannot be launched",
                           step, kernel, addresses.size());
    }
    HostStream* to = ToHost(stream);
    if (HostGraph* graph = to->recording) {
      GraphEntry entry;
      entry.step = step;
      entry.kernel = kernel;
      entry.program = program;
      entry.first_address = graph->addresses.size();
      for (DeviceAddress address : addresses) graph->addresses.push_back(address);
      if (!graph->addresses.ok() || !graph->entries.push_back(entry) ||
          !graph->nodes.push_back({step, StepKind::kLaunch})) {
        return NoMemoryFor("a recording");
      }
      return Status::Ok();
    }
    if (!to->Launch(*program, kernel, addresses.data(), step)) {
      return Status::Error(Code::kInternal, "step %u: the stream has too little scratch", step);
    }
    return Status::Ok();
  }

  Status BeginRecord(Stream* stream) override {
    if (ToHost(stream)->recording != nullptr) {
      return Status::Error(Code::kFailedPrecondition, "host device: the stream is already recording");
    }
    HostGraph* graph = new (std::nothrow) HostGraph;
    if (graph == nullptr) return Status::Error(Code::kOutOfMemory, "host device: no memory for a graph");
    if (!graph->streams.push_back(ToHost(stream))) {
      delete graph;
      return NoMemoryFor("a graph");
    }
    ToHost(stream)->recording = graph;
    return Status::Ok();
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    HostGraph* graph = ToHost(stream)->recording;
    if (graph == nullptr || graph->streams.front() != ToHost(stream)) {
      return Status::Error(Code::kFailedPrecondition, "host device: no recording began on this stream");
    }
    Leave(graph);
    return reinterpret_cast<Graph*>(graph);
  }
  void DestroyGraph(Graph* graph) override { delete ToHost(graph); }
  Span<const GraphNode> Nodes(const Graph* graph) override {
    return reinterpret_cast<const HostGraph*>(graph)->nodes;
  }
  Status LaunchGraph(Graph* graph, Stream* stream) override {
    if (ToHost(stream)->recording != nullptr) {
      return Status::Error(Code::kFailedPrecondition,
                           "host device: a graph cannot be launched while recording");
    }
    ToHost(stream)->Replay(*ToHost(graph));
    return Status::Ok();
  }

 private:
  static Status NoMemoryFor(const char* what) {
    return Status::Error(Code::kOutOfMemory, "host device: no memory for %s", what);
  }
  static Status RecordTime(HostEvent* event, HostGraph* graph) {
    if (graph == nullptr) {
      event->nanoseconds = host::Nanoseconds();
      return Status::Ok();
    }
    GraphEntry entry;
    entry.kind = GraphEntry::Kind::kTime;
    entry.event = event;
    return graph->entries.push_back(entry) ? Status::Ok() : NoMemoryFor("a recording");
  }
  // Ends a recording in all streams and events that took part.
  static void Leave(HostGraph* graph) {
    for (HostStream* stream : graph->streams) stream->recording = nullptr;
    for (HostEvent* event : graph->events) event->recording = nullptr;
    graph->streams.clear();
    graph->events.clear();
  }

  host::ThreadPool& pool_;
  const host::Engine& engine_;
  const HostAllocator allocator_;
  const double work_per_thread_;
  std::mutex mutex_;  // guards streams_ and scratch_bytes_
  host::List<HostStream*> streams_;
  int64_t scratch_bytes_ = 0;
};

class HostDriver final : public Driver {
 public:
  explicit HostDriver(const HostOptions& options) : options_(options) {
    host::PickEngine(options.max_isa, &engine_);
  }
  ~HostDriver() override {
    for (HostDevice* device : devices_) delete device;
  }

  Status Start() { return pool_.Start(options_.threads, options_.thread_hooks); }

  DriverInfo Info() const override {
    DriverInfo info;
    info.name = "host";
    info.host_memory = true;
    info.max_streams = 1024;
    return info;
  }
  uint32_t DeviceCount() const override { return options_.devices; }

  Result<Device*> Open(uint32_t index) override {
    if (index >= options_.devices) {
      return Status::Error(Code::kInvalidArgument, "host driver: device %u of %u does not exist", index,
                           options_.devices);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (devices_[index] == nullptr) {
      devices_[index] = new (std::nothrow) HostDevice(pool_, engine_, options_);
      if (devices_[index] == nullptr) {
        return Status::Error(Code::kOutOfMemory, "host driver: no memory for a device");
      }
    }
    return static_cast<Device*>(devices_[index]);
  }

  Status Supports(const PlanData& plan) const override {
    if (plan.requirements.devices.size() > options_.devices) {
      return Status::Error(Code::kUnsupported, "the plan needs %zu devices; the host driver was made with %u",
                           plan.requirements.devices.size(), options_.devices);
    }
    for (const Program& program : plan.programs) {
      if (!program.sync_points.empty()) {
        return Status::Error(
            Code::kUnsupported, "program \"%.*s\" has %zu collectives; the host driver has none",
            static_cast<int>(program.name.size()), program.name.data(), program.sync_points.size());
      }
    }
    return Status::Ok();
  }

 private:
  const HostOptions options_;
  host::Engine engine_;
  host::ThreadPool pool_;
  std::mutex mutex_;
  HostDevice* devices_[kMaxDevices] = {};
};

}  // namespace

Result<Driver*> CreateHostDriver(const HostOptions& options) {
  if (options.threads < 1 || options.threads > host::kMaxThreads) {
    return Status::Error(Code::kInvalidArgument, "host driver: %u threads asked for; 1 to %u are possible",
                         options.threads, host::kMaxThreads);
  }
  if (options.devices < 1 || options.devices > kMaxDevices) {
    return Status::Error(Code::kInvalidArgument, "host driver: %u devices asked for; 1 to %u are possible",
                         options.devices, kMaxDevices);
  }
  HostDriver* driver = new (std::nothrow) HostDriver(options);
  if (driver == nullptr) return Status::Error(Code::kOutOfMemory, "host driver: no memory");
  Status status = driver->Start();
  if (!status.ok()) {
    delete driver;
    return status;
  }
  return static_cast<Driver*>(driver);
}

void DestroyHostDriver(Driver* driver) { delete static_cast<HostDriver*>(driver); }

}  // namespace rondo
