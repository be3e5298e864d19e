#include "tests/runtime/fake_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/synthetic.h"

namespace rondo {

class Module {
 public:
  const PlanData* plan;
};
class Event {};

struct Work {
  GraphNode node;
  const Kernel* kernel = nullptr;  // null: a copy of `bytes` from [0] to [1], or a fill if there is only [0]
  std::vector<DeviceAddress> addresses;
  uint64_t bytes = 0;
  uint8_t byte = 0;
};

class Graph {
 public:
  std::vector<Work> work;
  std::vector<GraphNode> nodes;
};

class Stream {
 public:
  bool recording = false;
  std::vector<Work> recorded;
  uint32_t failed_step = kNone;
};

Status FakeControls::Call(const char* name) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = calls.find(name);  // looking up a known name allocates nothing
  if (found == calls.end()) found = calls.emplace(name, 0).first;
  ++found->second;
  if (fail != name || fail_after-- != 0) return Status::Ok();
  fail.clear();
  return Status::Error(fail_code, "%s failed as asked", name);
}

namespace {

// The element of operand `o` at point `i` of a map with one loop, or -1 if its index is out of range.
int64_t Place(const Part& part, const Operand& o, const std::vector<DeviceAddress>& addresses, int64_t i) {
  int64_t at = o.offset + o.strides[0] * i;
  for (const Indirect& indirect : o.indirects) {
    const Operand& by = part.operands[indirect.operand];
    int64_t v = reinterpret_cast<const int64_t*>(addresses[by.param])[by.offset + by.strides[0] * i];
    if (v < 0 || v >= indirect.extent) return -1;
    at += indirect.stride * v;
  }
  return at;
}

// Runs a map of floats over one loop with loads, multiplications, additions and stores. False if an index is
// out of range.
bool RunPart(const Part& part, const std::vector<DeviceAddress>& addresses) {
  bool good = true;
  for (int64_t i = 0; i < part.loops[0]; ++i) {
    float registers[8] = {};
    for (size_t k = 0; k < part.body.size() && k < 8; ++k) {
      const TapeInst& inst = part.body[k];
      if (inst.op == TapeOp::kMul) registers[k] = registers[inst.a] * registers[inst.b];
      if (inst.op == TapeOp::kAdd) registers[k] = registers[inst.a] + registers[inst.b];
      if (inst.op != TapeOp::kLoad && inst.op != TapeOp::kStore) continue;
      const Operand& o = part.operands[inst.arg];
      int64_t at = Place(part, o, addresses, i);
      good = good && at >= 0;
      float* element = reinterpret_cast<float*>(addresses[o.param]) + (at < 0 ? 0 : at);
      if (inst.op == TapeOp::kLoad) registers[k] = at < 0 ? 0 : *element;
      if (inst.op == TapeOp::kStore && at >= 0) *element = registers[inst.a];
    }
  }
  return good;
}

void Execute(const Work& work, Stream* stream) {
  if (work.kernel == nullptr && work.addresses.size() == 1) {
    std::memset(reinterpret_cast<void*>(work.addresses[0]), work.byte, work.bytes);
    return;
  }
  if (work.kernel == nullptr) {
    std::memmove(reinterpret_cast<void*>(work.addresses[1]), reinterpret_cast<void*>(work.addresses[0]),
                 work.bytes);
    return;
  }
  for (const Part& part : work.kernel->parts) {
    if (!RunPart(part, work.addresses) && stream->failed_step == kNone) stream->failed_step = work.node.step;
  }
}

}  // namespace

void FakeDevice::Count(int objects, int64_t bytes) {
  std::lock_guard<std::mutex> lock(controls_->mutex);
  controls_->live_objects += objects;
  controls_->live_bytes += static_cast<uint64_t>(bytes);
}

Result<DeviceAddress> FakeDevice::Allocate(uint64_t bytes, uint64_t alignment) {
  RONDO_RETURN_IF_ERROR(controls_->Call("Allocate"));
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (bytes > kMost) return Status::Error(Code::kOutOfMemory, "no memory");
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) return Status::Error(Code::kOutOfMemory, "no memory");
  std::memset(block, 0xee, bytes);
  Count(1, static_cast<int64_t>(bytes));
  return reinterpret_cast<DeviceAddress>(block);
}

void FakeDevice::Free(DeviceAddress address, uint64_t bytes) {
  Count(-1, -static_cast<int64_t>(bytes));
  std::free(reinterpret_cast<void*>(address));
}

Status FakeDevice::MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = controls_->free_bytes;
  *total_bytes = uint64_t{1} << 31;
  return controls_->Call("MemoryInfo");
}

Status FakeDevice::CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream*) {
  RONDO_RETURN_IF_ERROR(controls_->Call("CopyIn"));
  std::memcpy(reinterpret_cast<void*>(to), host, bytes);
  return Status::Ok();
}

Status FakeDevice::CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream*) {
  RONDO_RETURN_IF_ERROR(controls_->Call("CopyOut"));
  std::memcpy(host, reinterpret_cast<void*>(from), bytes);
  return Status::Ok();
}

Result<uint64_t> FakeDevice::ReserveStaging(Stream*, const CopyNeeds& copies) {
  RONDO_RETURN_IF_ERROR(controls_->Call("ReserveStaging"));
  std::lock_guard<std::mutex> lock(controls_->mutex);
  controls_->needs = copies;
  return controls_->stages ? copies.in + copies.out : 0;
}

Status FakeDevice::Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) {
  RONDO_RETURN_IF_ERROR(controls_->Call("Copy"));
  if (!stream->recording)  // only recording allocates
    return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), Status::Ok();
  stream->recorded.push_back({{kNone, StepKind::kCopy}, nullptr, {from, to}, bytes});
  return Status::Ok();
}

Status FakeDevice::Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) {
  RONDO_RETURN_IF_ERROR(controls_->Call("Fill"));
  if (!stream->recording) return std::memset(reinterpret_cast<void*>(to), byte, bytes), Status::Ok();
  stream->recorded.push_back({{kNone, StepKind::kCopy}, nullptr, {to}, bytes, byte});
  return Status::Ok();
}

Status FakeDevice::FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                                 Stream*) {
  RONDO_RETURN_IF_ERROR(controls_->Call("FillSynthetic"));
  FillSyntheticRange(dtype, key, scale, 0, elements, reinterpret_cast<void*>(to));
  return Status::Ok();
}

Result<Module*> FakeDevice::LoadModule(const PlanData& plan) {
  RONDO_RETURN_IF_ERROR(controls_->Call("LoadModule"));
  Count(1, 0);
  return new Module{&plan};
}

void FakeDevice::DestroyModule(Module* module) {
  Count(-1, 0);
  delete module;
}

Result<Stream*> FakeDevice::CreateStream() {
  RONDO_RETURN_IF_ERROR(controls_->Call("CreateStream"));
  Count(1, 0);
  return new Stream();
}

void FakeDevice::DestroyStream(Stream* stream) {
  Count(-1, 0);
  delete stream;
}

Result<Event*> FakeDevice::CreateEvent() {
  RONDO_RETURN_IF_ERROR(controls_->Call("CreateEvent"));
  Count(1, 0);
  return new Event();
}

void FakeDevice::DestroyEvent(Event* event) {
  Count(-1, 0);
  delete event;
}

Status FakeDevice::Record(Event*, Stream*) { return controls_->Call("Record"); }
Status FakeDevice::Wait(Event*, Stream*) { return controls_->Call("Wait"); }

Status FakeDevice::Synchronize(Stream* stream, uint32_t* failed_step) {
  RONDO_RETURN_IF_ERROR(controls_->Call("Synchronize"));
  if (stream->failed_step == kNone) return Status::Ok();
  *failed_step = stream->failed_step;
  stream->failed_step = kNone;
  return Status::Error(Code::kOutOfRange, "an index is out of its bounds");
}

Status FakeDevice::Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses,
                          Stream* stream, uint32_t step) {
  RONDO_RETURN_IF_ERROR(controls_->Call("Launch"));
  if (kernel >= module->plan->kernels.size() || addresses.size() < module->plan->kernels[kernel].num_params)
    return Status::Error(Code::kInvalidArgument, "kernel %u cannot be launched", kernel);
  Work work{{step, StepKind::kLaunch}, &module->plan->kernels[kernel], {addresses.begin(), addresses.end()}};
  if (stream->recording) {
    stream->recorded.push_back(work);
  } else {
    Execute(work, stream);
  }
  return Status::Ok();
}

Status FakeDevice::BeginRecord(Stream* stream) {
  RONDO_RETURN_IF_ERROR(controls_->Call("BeginRecord"));
  if (stream->recording) return Status::Error(Code::kFailedPrecondition, "it is recording");
  stream->recording = true;
  return Status::Ok();
}

Result<Graph*> FakeDevice::EndRecord(Stream* stream) {
  if (!stream->recording) return Status::Error(Code::kFailedPrecondition, "it is not recording");
  stream->recording = false;
  auto graph = new Graph{std::exchange(stream->recorded, {}), {}};
  for (const Work& work : graph->work) graph->nodes.push_back(work.node);
  if (controls_->swap_recorded && graph->nodes.size() > 1) std::swap(graph->nodes[0], graph->nodes[1]);
  if (controls_->drop_recorded) graph->nodes.pop_back();
  Status status = controls_->Call("EndRecord");
  if (!status.ok()) {
    delete graph;
    return status;
  }
  Count(1, 0);
  return graph;
}

void FakeDevice::DestroyGraph(Graph* graph) {
  Count(-1, 0);
  delete graph;
}

Span<const GraphNode> FakeDevice::Nodes(const Graph* graph) {
  return {graph->nodes.data(), graph->nodes.size()};
}

Status FakeDevice::LaunchGraph(Graph* graph, Stream* stream) {
  RONDO_RETURN_IF_ERROR(controls_->Call("LaunchGraph"));
  for (const Work& work : graph->work) Execute(work, stream);
  if (controls_->on_launch != nullptr) controls_->on_launch(controls_->user);
  return Status::Ok();
}

Status FakeDevice::SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) {
  RONDO_RETURN_IF_ERROR(controls_->Call("SetAddresses"));
  if (node == controls_->fixed_node || node >= graph->work.size()) {
    return Device::SetAddresses(graph, node, addresses);
  }
  std::vector<DeviceAddress>& to = graph->work[node].addresses;
  if (addresses.size() != to.size()) return Status::Error(Code::kInternal, "as many as were recorded");
  std::copy(addresses.begin(), addresses.end(), to.begin());
  return Status::Ok();
}

FakeDriver::FakeDriver(uint32_t devices) : devices_(devices, FakeDevice(&controls)) {
  for (const char* name : {"LaunchGraph", "CopyIn", "CopyOut", "Copy", "Synchronize", "SetAddresses"})
    controls.calls[name] = 0;
}

DriverInfo FakeDriver::Info() const {
  DriverInfo info;
  info.name = "fake";
  info.host_memory = controls.host_memory;
  info.max_streams = controls.max_streams;
  info.rebinds = controls.rebinds;
  info.driver_version = 1;
  return info;
}

Result<Device*> FakeDriver::Open(uint32_t index) {
  RONDO_RETURN_IF_ERROR(controls.Call("Open"));
  if (index >= devices_.size())
    return Status::Error(Code::kInvalidArgument, "device %u of %zu", index, devices_.size());
  return &devices_[index];
}

Status FakeDriver::Supports(const PlanData&) const { return Status::Ok(); }

}  // namespace rondo
