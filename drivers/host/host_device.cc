#include "drivers/host/host_device.h"

#include <sys/sysinfo.h>

#include <new>

#include "core/collective.h"
#include "core/synthetic.h"
#include "drivers/host/module.h"
#include "drivers/host/stream.h"

namespace rondo::host {
namespace {

// The opaque handles of core/driver.h.
HostStream* ToHost(Stream* s) { return reinterpret_cast<HostStream*>(s); }
HostModule* ToHost(Module* m) { return reinterpret_cast<HostModule*>(m); }
HostEvent* ToHost(Event* e) { return reinterpret_cast<HostEvent*>(e); }
HostGraph* ToHost(Graph* g) { return reinterpret_cast<HostGraph*>(g); }

void* Bytes(DeviceAddress address) { return reinterpret_cast<void*>(address); }

Status NoMemoryFor(const char* what) {
  return Status::Error(Code::kOutOfMemory, "host device: no memory for %s", what);
}

// Records a call, or executes it now.
Status Enqueue(const GraphEntry& entry, StepKind kind, const DeviceAddress* addresses, Stream* stream) {
  HostStream* to = ToHost(stream);
  if (to->recording == nullptr) {
    to->Execute(entry, addresses);
    return Status::Ok();
  }
  return to->recording->Append(to, entry, kind) ? Status::Ok() : NoMemoryFor("a recording");
}

// A recorded launch or call has a copy of its addresses in the graph.
Status KeepAddresses(Span<const DeviceAddress> addresses, Stream* stream, GraphEntry* entry) {
  HostGraph* graph = ToHost(stream)->recording;
  if (graph == nullptr) return Status::Ok();
  entry->first_address = graph->addresses.size();
  entry->num_addresses = addresses.size();
  for (DeviceAddress address : addresses) graph->addresses.push_back(address);
  return graph->addresses.ok() ? Status::Ok() : NoMemoryFor("a recording");
}

Status AddAll(const GrowingList<uint32_t>& from, GrowingList<uint32_t>* to) {
  for (uint32_t entry : from) {
    to->Forget(entry);
    if (!to->push_back(entry)) return NoMemoryFor("a recording");
  }
  return Status::Ok();
}

// Ends a recording in all streams and events that took part.
void Leave(HostGraph* graph) {
  for (HostStream* stream : graph->streams) {
    stream->recording = nullptr;
    stream->last.clear();
  }
  for (HostEvent* event : graph->events) event->recording = nullptr;
  graph->streams.clear();
  graph->events.clear();
}

}  // namespace

HostDevice::HostDevice(ThreadPool& pool, const Engine& engine, const HostOptions& options,
                       AllocationRegistry& book, uint32_t index)
    : pool_(pool),
      engine_(engine),
      allocator_(options.allocator),
      hooks_(options.thread_hooks),
      ops_(options.ops),
      sharing_{pool.threads(), options.work_per_thread > 1 ? options.work_per_thread : 1},
      book_(book),
      index_(index),
      one_device_(options.devices == 1),
      faults_(options.faults, index),
      collectives_(faults_) {}

Result<DeviceAddress> HostDevice::Allocate(uint64_t bytes, uint64_t alignment) {
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

void HostDevice::Free(DeviceAddress address, uint64_t bytes) {
  if (address == 0 || !book_.Remove(address, index_)) return;
  allocator_.deallocate(allocator_.user, Bytes(address), bytes);
}

Status HostDevice::MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return Status::Error(Code::kIo, "host device: sysinfo failed");
  *free_bytes = static_cast<uint64_t>(info.freeram + info.bufferram) * info.mem_unit;
  *total_bytes = static_cast<uint64_t>(info.totalram) * info.mem_unit;
  return Status::Ok();
}

Status HostDevice::CopyIn(DeviceAddress to, const void* from, uint64_t bytes, Stream* stream) {
  RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCopyIn));
  return Move(to, reinterpret_cast<DeviceAddress>(from), bytes, stream);
}

Status HostDevice::CopyOut(void* to, DeviceAddress from, uint64_t bytes, Stream* stream) {
  RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCopyOut));
  return Move(reinterpret_cast<DeviceAddress>(to), from, bytes, stream);
}

Status HostDevice::Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) {
  RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCopy));
  return Move(to, from, bytes, stream, ToHost(stream)->recording == nullptr);
}

Status HostDevice::Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) {
  RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kFill));
  RONDO_RETURN_IF_ERROR(Own(to, bytes));
  GraphEntry entry;
  entry.kind = GraphEntry::Kind::kFill;
  entry.byte = byte;
  entry.to = to;
  entry.bytes = bytes;
  return Enqueue(entry, StepKind::kCopy, nullptr, stream);
}

Status HostDevice::FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                                 Stream* stream) {
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

Result<Module*> HostDevice::LoadModule(const PlanData& plan) {
  Status status = faults_.Before(HostCall::kLoadModule);
  if (!status.ok()) return status;
  HostModule* module = HostModule::Create(plan, engine_, sharing_, ops_, &status);
  if (module == nullptr) return status;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const rondo::Program& program : plan.programs) {
    if (!program.sync_points.empty()) status = collectives_.Start(hooks_);
    if (status.ok()) continue;
    delete module;
    return status;
  }
  return reinterpret_cast<Module*>(module);
}

void HostDevice::DestroyModule(Module* module) { delete ToHost(module); }

Result<Stream*> HostDevice::CreateStream() {
  RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kCreateStream));
  auto* stream = new (std::nothrow) HostStream(pool_, allocator_, sharing_, faults_, collectives_);
  if (stream == nullptr) return Status::Error(Code::kOutOfMemory, "host device: no memory for a stream");
  return reinterpret_cast<Stream*>(stream);
}

void HostDevice::DestroyStream(Stream* stream) {
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

void HostDevice::SetStop(Stream* stream, StopSignal* stop) { ToHost(stream)->SetStop(stop); }

Result<Event*> HostDevice::CreateEvent() {
  HostEvent* event = new (std::nothrow) HostEvent;
  if (event == nullptr) return Status::Error(Code::kOutOfMemory, "host device: no memory for an event");
  return reinterpret_cast<Event*>(event);
}

Result<Event*> HostDevice::CreateTimedEvent() {
  RONDO_ASSIGN_OR_RETURN(Event * event, CreateEvent());
  ToHost(event)->timed = true;
  return event;
}

Result<double> HostDevice::ElapsedMicroseconds(Event* from, Event* to) {
  return (static_cast<double>(ToHost(to)->nanoseconds) - static_cast<double>(ToHost(from)->nanoseconds)) *
         1e-3;
}

void HostDevice::DestroyEvent(Event* event) {
  if (HostGraph* graph = ToHost(event)->recording) graph->events.Forget(ToHost(event));
  delete ToHost(event);
}

Status HostDevice::Record(Event* event, Stream* stream) {
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

Status HostDevice::Wait(Event* event, Stream* stream) {
  HostGraph* graph = ToHost(event)->recording;
  if (graph == nullptr) return Status::Ok();
  if (ToHost(stream)->recording != graph) {
    if (ToHost(stream)->recording != nullptr) {
      return Status::Error(Code::kFailedPrecondition, "host device: a stream cannot join a second recording");
    }
    if (!graph->streams.push_back(ToHost(stream))) return NoMemoryFor("a recording");
    ToHost(stream)->recording = graph;
  }
  return AddAll(ToHost(event)->last, &ToHost(stream)->last);
}

Status HostDevice::Synchronize(Stream* stream, uint32_t* failed_step) {
  RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kSynchronize));
  return ToHost(stream)->TakeFault(failed_step);
}

uint32_t HostDevice::FailedAssertion(const Stream* stream) const {
  return reinterpret_cast<const HostStream*>(stream)->failed_assertion();
}

Status HostDevice::Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses,
                          Stream* stream, uint32_t step) {
  const KernelProgram* program = ToHost(module)->kernel(kernel);
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

Status HostDevice::Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
                        uint32_t step) {
  const CallProgram* call = ToHost(module)->call(op);
  if (call == nullptr || addresses.size() != call->num_addresses()) {
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

Status HostDevice::StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                                   Stream* stream) {
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

Status HostDevice::WaitCollective(const CollectivePart& part, Stream* stream) {
  GraphEntry entry;
  entry.kind = GraphEntry::Kind::kWait;
  entry.step = part.step;
  entry.part = part;
  return Enqueue(entry, StepKind::kCollectiveWait, nullptr, stream);
}

Status HostDevice::BeginRecord(Stream* stream) {
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

Result<Graph*> HostDevice::EndRecord(Stream* stream) {
  HostGraph* graph = ToHost(stream)->recording;
  if (graph == nullptr || graph->streams.front() != ToHost(stream)) {
    return Status::Error(Code::kFailedPrecondition, "host device: no recording began on this stream");
  }
  Status status = faults_.Before(HostCall::kEndRecord);
  // The streams that joined may have to run the same steps one by one.
  for (HostStream* part : graph->streams) {
    if (status.ok()) status = part->Reserve(graph->scratch_bytes);
  }
  Leave(graph);
  const bool ready = graph->FindRanges(pool_.threads()) && (!faults_.reorder() || graph->PrepareOrder());
  if (status.ok() && !ready) status = NoMemoryFor("a graph");
  if (!status.ok()) {
    delete graph;
    return status;
  }
  return reinterpret_cast<Graph*>(graph);
}

void HostDevice::DestroyGraph(Graph* graph) { delete ToHost(graph); }

Span<const GraphNode> HostDevice::Nodes(const Graph* graph) {
  return reinterpret_cast<const HostGraph*>(graph)->nodes;
}

Status HostDevice::SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) {
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

Status HostDevice::LaunchGraph(Graph* graph, Stream* stream) {
  if (ToHost(stream)->recording != nullptr) {
    return Status::Error(Code::kFailedPrecondition,
                         "host device: a graph cannot be launched while recording");
  }
  RONDO_RETURN_IF_ERROR(faults_.Before(HostCall::kLaunchGraph));
  RONDO_RETURN_IF_ERROR(ToHost(stream)->Reserve(ToHost(graph)->scratch_bytes));
  ToHost(stream)->Replay(ToHost(graph));
  return Status::Ok();
}

Status HostDevice::Move(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream, bool from_any) {
  RONDO_RETURN_IF_ERROR(Own(to, bytes));
  if (!from_any) RONDO_RETURN_IF_ERROR(Own(from, bytes));
  GraphEntry entry;
  entry.kind = GraphEntry::Kind::kCopy;
  entry.to = to;
  entry.from = from;
  entry.bytes = bytes;
  return Enqueue(entry, StepKind::kCopy, nullptr, stream);
}

Status HostDevice::Own(DeviceAddress address, uint64_t bytes) {
  return one_device_ ? Status::Ok() : book_.Check(address, bytes, index_);
}

}  // namespace rondo::host
