#include "drivers/host/host_driver.h"

#include <sys/sysinfo.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "core/collective.h"
#include "core/synthetic.h"
#include "drivers/host/collectives.h"
#include "drivers/host/faults.h"
#include "drivers/host/memory_book.h"
#include "drivers/host/module.h"
#include "drivers/host/stream.h"

namespace rondo {
namespace {

using host::GraphEntry;
using host::HostCollectives;
using host::HostEvent;
using host::HostGraph;
using host::HostModule;
using host::HostStream;

// The opaque handles of core/driver.h.
HostStream* ToHost(Stream* s) { return reinterpret_cast<HostStream*>(s); }
HostModule* ToHost(Module* m) { return reinterpret_cast<HostModule*>(m); }
HostEvent* ToHost(Event* e) { return reinterpret_cast<HostEvent*>(e); }
HostGraph* ToHost(Graph* g) { return reinterpret_cast<HostGraph*>(g); }
HostCollectives* ToHost(Collectives* c) { return reinterpret_cast<HostCollectives*>(c); }

void* Bytes(DeviceAddress address) { return reinterpret_cast<void*>(address); }

class HostDevice final : public Device {
 public:
  HostDevice(host::ThreadPool& pool, const host::Engine& engine, const HostOptions& options,
             host::MemoryBook& book, uint32_t index)
      : pool_(pool),
        engine_(engine),
        allocator_(options.allocator),
        hooks_(options.thread_hooks),
        ops_(options.ops),
        work_per_thread_(options.work_per_thread),
        book_(book),
        index_(index),
        one_device_(options.devices == 1),
        faults_(options.faults, index),
        collectives_(faults_) {}

  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      return Status::Error(Code::kInvalidArgument, "host device: alignment %llu is not a power of two",
                           static_cast<unsigned long long>(alignment));
    }
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kAllocate));
    if (alignment < 64) alignment = 64;
    if (bytes > ~uint64_t{0} - alignment) bytes = ~uint64_t{0} - alignment;
    const uint64_t size = (bytes + alignment - 1) / alignment * alignment;
    void* block = allocator_.allocate(allocator_.user, size == 0 ? alignment : size, alignment);
    if (block == nullptr) {
      return Status::Error(Code::kOutOfMemory, "host device: no memory for %llu bytes",
                           static_cast<unsigned long long>(bytes));
    }
    if (!book_.Add(reinterpret_cast<DeviceAddress>(block), bytes, index_)) {
      allocator_.deallocate(allocator_.user, block, bytes);
      return NoMemoryFor("the entry of a block");
    }
    return reinterpret_cast<DeviceAddress>(block);
  }
  // Memory of another device stays where it is.
  void Free(DeviceAddress address, uint64_t bytes) override {
    if (address == 0 || !book_.Remove(address, index_)) return;
    allocator_.deallocate(allocator_.user, Bytes(address), bytes);
  }
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override {
    struct sysinfo info;
    if (sysinfo(&info) != 0) return Status::Error(Code::kIo, "host device: sysinfo failed");
    *free_bytes = static_cast<uint64_t>(info.freeram + info.bufferram) * info.mem_unit;
    *total_bytes = static_cast<uint64_t>(info.totalram) * info.mem_unit;
    return Status::Ok();
  }

  Status CopyIn(DeviceAddress to, const void* from, uint64_t bytes, Stream* stream) override {
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCopyIn));
    return Move(to, reinterpret_cast<DeviceAddress>(from), bytes, stream);
  }
  Status CopyOut(void* to, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCopyOut));
    return Move(reinterpret_cast<DeviceAddress>(to), from, bytes, stream);
  }
  // Outside of graphs, what is copied may be another device's, as between GPUs.
  Status Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCopy));
    return Move(to, from, bytes, stream, ToHost(stream)->recording == nullptr);
  }
  Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) override {
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kFill));
    RONDO_RETURN_IF_ERROR(Own(to, bytes));
    GraphEntry entry;
    entry.kind = GraphEntry::Kind::kFill;
    entry.byte = byte;
    entry.to = to;
    entry.bytes = bytes;
    return Enqueue(entry, StepKind::kCopy, nullptr, stream);
  }
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override {
    if (ToHost(stream)->recording != nullptr) {
      return Status::Error(Code::kFailedPrecondition, "host device: synthetic weights cannot be recorded");
    }
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kFill));
    RONDO_RETURN_IF_ERROR(Own(to, elements * static_cast<uint64_t>(ByteSize(dtype))));
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
    Status status = faults_.Before(HostCall::kLoadModule);
    if (!status.ok()) return status;
    HostModule* module = HostModule::Create(plan, engine_, ops_, &status);
    if (module == nullptr) return status;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Program& program : plan.programs) {
      if (!program.sync_points.empty()) status = collectives_.Start(hooks_);
      if (status.ok()) continue;
      delete module;
      return status;
    }
    return reinterpret_cast<Module*>(module);
  }
  void DestroyModule(Module* module) override { delete ToHost(module); }

  Result<Stream*> CreateStream() override {
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCreateStream));
    auto* stream = new (std::nothrow) HostStream(pool_, allocator_, work_per_thread_, faults_, collectives_);
    if (stream == nullptr) return Status::Error(Code::kOutOfMemory, "host device: no memory for a stream");
    return reinterpret_cast<Stream*>(stream);
  }
  void DestroyStream(Stream* stream) override {
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
  void SetStop(Stream* stream, StopSignal* stop) override { ToHost(stream)->SetStop(stop); }
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
    if (ToHost(event)->timed) {
      GraphEntry entry;
      entry.kind = GraphEntry::Kind::kTime;
      entry.event = ToHost(event);
      return Enqueue(entry, StepKind::kLaunch, nullptr, stream);
    }
    if (graph != ToHost(event)->recording) {
      if (HostGraph* before = ToHost(event)->recording) before->events.Forget(ToHost(event));
      ToHost(event)->recording = nullptr;
      if (graph != nullptr && !graph->events.push_back(ToHost(event))) return NoMemoryFor("a recording");
      ToHost(event)->recording = graph;
    }
    if (graph == nullptr) return Status::Ok();
    ToHost(event)->last.clear();
    return AddAll(ToHost(stream)->last, &ToHost(event)->last);
  }
  // A stream that waits for an event of a recording joins it, until the recording ends.
  Status Wait(Event* event, Stream* stream) override {
    HostGraph* graph = ToHost(event)->recording;
    if (graph == nullptr) return Status::Ok();
    if (ToHost(stream)->recording != graph) {
      if (ToHost(stream)->recording != nullptr) {
        return Status::Error(Code::kFailedPrecondition,
                             "host device: a stream cannot join a second recording");
      }
      if (!graph->streams.push_back(ToHost(stream))) return NoMemoryFor("a recording");
      ToHost(stream)->recording = graph;
    }
    return AddAll(ToHost(event)->last, &ToHost(stream)->last);
  }
  Status Synchronize(Stream* stream, uint32_t* failed_step) override {
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kSynchronize));
    return ToHost(stream)->TakeFault(failed_step);
  }

  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override {
    const host::KernelProgram* program = ToHost(module)->kernel(kernel);
    if (program == nullptr || addresses.size() < program->num_params) {
      return Status::Error(Code::kInvalidArgument, "kernel %u with %zu addresses cannot be launched", kernel,
                           addresses.size());
    }
    for (DeviceAddress address : addresses) RONDO_RETURN_IF_ERROR(Own(address, 1));
    GraphEntry entry;
    entry.step = step;
    entry.kernel = kernel;
    entry.program = program;
    if (ToHost(stream)->recording == nullptr) {
      RONDO_RETURN_IF_ERROR(ToHost(stream)->Reserve(program->scratch_bytes));
    }
    RONDO_RETURN_IF_ERROR(KeepAddresses(addresses, stream, &entry));
    return Enqueue(entry, StepKind::kLaunch, addresses.data(), stream);
  }

  Status Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
              uint32_t step) override {
    const CallProgram* call = ToHost(module)->call(op);
    if (call == nullptr || addresses.size() != size_t{call->num_inputs} + call->num_outputs) {
      return Status::Error(Code::kInvalidArgument, "custom op %u with %zu addresses cannot be called", op,
                           addresses.size());
    }
    for (DeviceAddress address : addresses) {
      if (address != 0) RONDO_RETURN_IF_ERROR(Own(address, 1));
    }
    GraphEntry entry;
    entry.kind = GraphEntry::Kind::kCall;
    entry.step = step;
    entry.call = call;
    RONDO_RETURN_IF_ERROR(KeepAddresses(addresses, stream, &entry));
    return Enqueue(entry, StepKind::kCustom, addresses.data(), stream);
  }

  Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                         Stream* stream) override {
    RONDO_RETURN_IF_ERROR(Own(from, BytesRead(*part.point, part.rank)));
    RONDO_RETURN_IF_ERROR(Own(to, BytesWritten(*part.point, part.rank)));
    if (!collectives_.running()) {
      return Status::Error(Code::kFailedPrecondition, "host device %u has loaded no plan with collectives",
                           index_);
    }
    GraphEntry entry;
    entry.kind = GraphEntry::Kind::kStart;
    entry.step = part.step;
    entry.part = part;
    entry.from = from;
    entry.to = to;
    return Enqueue(entry, StepKind::kCollectiveStart, nullptr, stream);
  }
  Status WaitCollective(const CollectivePart& part, Stream* stream) override {
    GraphEntry entry;
    entry.kind = GraphEntry::Kind::kWait;
    entry.step = part.step;
    entry.part = part;
    return Enqueue(entry, StepKind::kCollectiveWait, nullptr, stream);
  }

  Status BeginRecord(Stream* stream) override {
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kBeginRecord));
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
    Status status = faults_.Before(HostCall::kEndRecord);
    // Those that joined may be asked to run the same steps one by one.
    for (HostStream* part : graph->streams) {
      if (status.ok()) status = part->Reserve(graph->scratch_bytes);
    }
    Leave(graph);
    if (status.ok() && faults_.reorder() && !graph->PrepareOrder()) status = NoMemoryFor("a graph");
    if (!status.ok()) {
      delete graph;
      return status;
    }
    return reinterpret_cast<Graph*>(graph);
  }
  void DestroyGraph(Graph* graph) override { delete ToHost(graph); }
  Span<const GraphNode> Nodes(const Graph* graph) override {
    return reinterpret_cast<const HostGraph*>(graph)->nodes;
  }
  Status SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) override {
    HostGraph* to = ToHost(graph);
    GraphEntry* entry = node < to->entry_of.size() ? &to->entries[to->entry_of[node]] : nullptr;
    const bool copy = entry != nullptr && entry->kind == GraphEntry::Kind::kCopy;
    if (!copy && (entry == nullptr || entry->kind != GraphEntry::Kind::kLaunch)) {
      return Device::SetAddresses(graph, node, addresses);
    }
    const size_t count = copy ? 2 : entry->num_addresses;
    if (addresses.size() != count) {
      return Status::Error(Code::kInvalidArgument, "host device: node %u has %zu addresses, not %zu", node,
                           count, addresses.size());
    }
    for (DeviceAddress address : addresses) RONDO_RETURN_IF_ERROR(Own(address, copy ? entry->bytes : 1));
    if (copy) {
      entry->from = addresses[0];
      entry->to = addresses[1];
      return Status::Ok();
    }
    for (size_t i = 0; i < count; ++i) to->addresses[entry->first_address + i] = addresses[i];
    return Status::Ok();
  }
  Status LaunchGraph(Graph* graph, Stream* stream) override {
    if (ToHost(stream)->recording != nullptr) {
      return Status::Error(Code::kFailedPrecondition,
                           "host device: a graph cannot be launched while recording");
    }
    RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kLaunchGraph));
    RONDO_RETURN_IF_ERROR(ToHost(stream)->Reserve(ToHost(graph)->scratch_bytes));
    ToHost(stream)->Replay(ToHost(graph));
    return Status::Ok();
  }

 private:
  // Records a call, or executes it now.
  static Status Enqueue(const GraphEntry& entry, StepKind kind, const DeviceAddress* addresses,
                        Stream* stream) {
    HostStream* to = ToHost(stream);
    if (to->recording == nullptr) {
      to->Execute(entry, addresses);
      return Status::Ok();
    }
    return to->recording->Append(to, entry, kind) ? Status::Ok() : NoMemoryFor("a recording");
  }
  // A recorded launch or call has a copy of its addresses in the graph.
  static Status KeepAddresses(Span<const DeviceAddress> addresses, Stream* stream, GraphEntry* entry) {
    HostGraph* graph = ToHost(stream)->recording;
    if (graph == nullptr) return Status::Ok();
    entry->first_address = graph->addresses.size();
    entry->num_addresses = addresses.size();
    for (DeviceAddress address : addresses) graph->addresses.push_back(address);
    return graph->addresses.ok() ? Status::Ok() : NoMemoryFor("a recording");
  }
  Status Move(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream, bool from_any = false) {
    RONDO_RETURN_IF_ERROR(Own(to, bytes));
    if (!from_any) RONDO_RETURN_IF_ERROR(Own(from, bytes));
    GraphEntry entry;
    entry.kind = GraphEntry::Kind::kCopy;
    entry.to = to;
    entry.from = from;
    entry.bytes = bytes;
    return Enqueue(entry, StepKind::kCopy, nullptr, stream);
  }
  // Refuses another device's memory.
  Status Own(DeviceAddress address, uint64_t bytes) {
    return one_device_ ? Status::Ok() : book_.Check(address, bytes, index_);
  }
  static Status AddAll(const GrowingList<uint32_t>& from, GrowingList<uint32_t>* to) {
    for (uint32_t entry : from) {
      to->Forget(entry);
      if (!to->push_back(entry)) return NoMemoryFor("a recording");
    }
    return Status::Ok();
  }
  static Status NoMemoryFor(const char* what) {
    return Status::Error(Code::kOutOfMemory, "host device: no memory for %s", what);
  }
  // Ends a recording in all streams and events that took part.
  static void Leave(HostGraph* graph) {
    for (HostStream* stream : graph->streams) {
      stream->recording = nullptr;
      stream->last.clear();
    }
    for (HostEvent* event : graph->events) event->recording = nullptr;
    graph->streams.clear();
    graph->events.clear();
  }

  host::ThreadPool& pool_;
  const host::Engine& engine_;
  const HostAllocator allocator_;
  const ThreadHooks hooks_;
  const OpRegistry* const ops_;
  const double work_per_thread_;
  host::MemoryBook& book_;
  const uint32_t index_;
  const bool one_device_;
  host::Faults faults_;
  host::CollectiveStream collectives_;
  std::mutex mutex_;  // guards the start of collectives_
};

class HostDriver final : public Driver {
 public:
  explicit HostDriver(const HostOptions& options) : options_(options) {
    host::PickEngine(options.max_isa, &engine_);
  }
  ~HostDriver() override {
    for (HostDevice* device : devices_) delete device;
  }

  const char* InstructionSet() const { return engine_.name; }
  Status Start() { return pool_.Start(options_.threads, options_.thread_hooks); }

  DriverInfo Info() const override {
    DriverInfo info;
    info.name = "host";
    info.host_memory = true;
    info.collectives = true;
    info.rebinds = true;
    info.max_streams = 1024;
    if (options_.processes != nullptr) {
      info.processes = options_.processes->size();
      info.process = options_.processes->rank();
    }
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
      devices_[index] = new (std::nothrow) HostDevice(pool_, engine_, options_, book_, index);
      if (devices_[index] == nullptr) {
        return Status::Error(Code::kOutOfMemory, "host driver: no memory for a device");
      }
    }
    return static_cast<Device*>(devices_[index]);
  }

  Status Supports(const PlanData& plan) const override {
    if (options_.processes == nullptr && plan.requirements.devices.size() > options_.devices) {
      return Status::Error(Code::kUnsupported, "the plan needs %zu devices; the host driver was made with %u",
                           plan.requirements.devices.size(), options_.devices);
    }
    for (uint32_t i = 0; i < plan.custom_ops.size(); ++i) {
      RONDO_RETURN_IF_ERROR(CheckCall(options_.ops, plan, i));
    }
    return Status::Ok();
  }

  // Which device a rank is does not matter here: each brings its memory along.
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t>) override {
    std::unique_ptr<host::RemoteExchange> remote;
    if (options_.processes != nullptr && options_.processes->size() > 1) {
      remote.reset(host::RemoteExchange::Create(program, programs_++, *options_.processes, engine_, pool_));
      if (remote == nullptr)
        return Status::Error(Code::kOutOfMemory, "host driver: no memory for collectives");
    }
    HostCollectives* made = HostCollectives::Create(program, engine_, pool_, std::move(remote));
    if (made == nullptr) return Status::Error(Code::kOutOfMemory, "host driver: no memory for collectives");
    return reinterpret_cast<Collectives*>(made);
  }
  void DestroyCollectives(Collectives* collectives) override { delete ToHost(collectives); }
  Status BeginCollectives(Collectives* collectives) override {
    ToHost(collectives)->Begin();
    return State();
  }
  void AbortCollectives(Collectives* collectives, const Status& why, bool wait) override {
    if (options_.processes != nullptr) options_.processes->Abort(why);
    ToHost(collectives)->Abort(wait);
  }
  Status Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) override {
    *progress = ToHost(collectives)->Progress(device);
    return State();
  }
  Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) override {
    return options_.processes == nullptr ? so_far : options_.processes->Agree(so_far, plan, contents, stop);
  }

  // Of the processes.
  Status State() { return options_.processes == nullptr ? Status::Ok() : options_.processes->state(); }

  HostBooks Books(uint32_t device) { return device < kMaxHostDevices ? book_.Read(device) : HostBooks(); }

 private:
  const HostOptions options_;
  host::Engine engine_;
  host::ThreadPool pool_;
  host::MemoryBook book_;
  std::atomic<uint64_t> programs_{0};  // that were given collectives over several processes
  std::mutex mutex_;
  HostDevice* devices_[kMaxHostDevices] = {};
};

}  // namespace

Result<Driver*> CreateHostDriver(const HostOptions& options) {
  if (options.threads < 1 || options.threads > host::kMaxThreads) {
    return Status::Error(Code::kInvalidArgument, "host driver: %u threads asked for; 1 to %u are possible",
                         options.threads, host::kMaxThreads);
  }
  if (options.devices < 1 || options.devices > kMaxHostDevices) {
    return Status::Error(Code::kInvalidArgument, "host driver: %u devices asked for; 1 to %u are possible",
                         options.devices, kMaxHostDevices);
  }
  if (options.processes != nullptr && options.devices != 1) {
    return Status::Error(Code::kInvalidArgument,
                         "host driver: %u devices in each of several processes; 1 is possible",
                         options.devices);
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

HostBooks ReadHostBooks(Driver* driver, uint32_t device) {
  return static_cast<HostDriver*>(driver)->Books(device);
}

const char* HostInstructionSet(Driver* driver) { return static_cast<HostDriver*>(driver)->InstructionSet(); }

}  // namespace rondo
