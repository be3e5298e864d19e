#include "tests/fault/faulty_driver.h"

#include "tests/fault/fault_points.h"

namespace rondo {
namespace {

class FaultyDevice : public Device {
 public:
  FaultyDevice(Device* inner, FaultyDriver::Counts* balance) : inner_(inner), balance_(balance) {}

  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override {
    if (Fails()) return Status::Error(Code::kOutOfMemory, "Allocate failed as asked");
    Result<DeviceAddress> address = inner_->Allocate(bytes, alignment);
    if (address.ok()) balance_->bytes += static_cast<int64_t>(bytes);
    return Made(std::move(address));
  }
  void Free(DeviceAddress address, uint64_t bytes) override {
    balance_->bytes -= static_cast<int64_t>(bytes);
    --balance_->objects;
    inner_->Free(address, bytes);
  }
  Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) override {
    return Fails() ? Failure("MemoryInfo") : inner_->MemoryInfo(free_bytes, total_bytes);
  }
  Status CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) override {
    return Fails() ? Failure("CopyIn") : inner_->CopyIn(to, host, bytes, stream);
  }
  Status CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    return Fails() ? Failure("CopyOut") : inner_->CopyOut(host, from, bytes, stream);
  }
  Status Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) override {
    return Fails() ? Failure("Copy") : inner_->Copy(to, from, bytes, stream);
  }
  Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) override {
    return Fails() ? Failure("Fill") : inner_->Fill(to, byte, bytes, stream);
  }
  Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                       Stream* stream) override {
    return Fails() ? Failure("FillSynthetic")
                   : inner_->FillSynthetic(to, dtype, elements, key, scale, stream);
  }
  Result<Module*> LoadModule(const PlanData& plan) override {
    if (Fails()) return Failure("LoadModule");
    return Made(inner_->LoadModule(plan));
  }
  void DestroyModule(Module* module) override {
    --balance_->objects;
    inner_->DestroyModule(module);
  }
  Result<Stream*> CreateStream() override {
    if (Fails()) return Failure("CreateStream");
    return Made(inner_->CreateStream());
  }
  void DestroyStream(Stream* stream) override {
    --balance_->objects;
    inner_->DestroyStream(stream);
  }
  Result<Event*> CreateEvent() override {
    if (Fails()) return Failure("CreateEvent");
    return Made(inner_->CreateEvent());
  }
  void DestroyEvent(Event* event) override {
    --balance_->objects;
    inner_->DestroyEvent(event);
  }
  Status Record(Event* event, Stream* stream) override {
    return Fails() ? Failure("Record") : inner_->Record(event, stream);
  }
  Status Wait(Event* event, Stream* stream) override {
    return Fails() ? Failure("Wait") : inner_->Wait(event, stream);
  }
  Status Synchronize(Stream* stream, uint32_t* failed_step) override {
    return Fails() ? Failure("Synchronize") : inner_->Synchronize(stream, failed_step);
  }
  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override {
    return Fails() ? Failure("Launch") : inner_->Launch(module, kernel, addresses, stream, step);
  }
  Status Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
              uint32_t step) override {
    return Fails() ? Failure("Call") : inner_->Call(module, op, addresses, stream, step);
  }
  Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                         Stream* stream) override {
    return Fails() ? Failure("StartCollective") : inner_->StartCollective(part, from, to, stream);
  }
  Status WaitCollective(const CollectivePart& part, Stream* stream) override {
    return Fails() ? Failure("WaitCollective") : inner_->WaitCollective(part, stream);
  }
  Status BeginRecord(Stream* stream) override {
    return Fails() ? Failure("BeginRecord") : inner_->BeginRecord(stream);
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    if (Fails()) return Failure("EndRecord");
    return Made(inner_->EndRecord(stream));
  }
  void DestroyGraph(Graph* graph) override {
    --balance_->objects;
    inner_->DestroyGraph(graph);
  }
  Span<const GraphNode> Nodes(const Graph* graph) override { return inner_->Nodes(graph); }
  Status SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) override {
    return Fails() ? Failure("SetAddresses") : inner_->SetAddresses(graph, node, addresses);
  }
  Status LaunchGraph(Graph* graph, Stream* stream) override {
    return Fails() ? Failure("LaunchGraph") : inner_->LaunchGraph(graph, stream);
  }

 private:
  bool Fails() {
    ++balance_->calls;
    return FaultPoint();
  }
  static Status Failure(const char* call) {
    FaultPause pause;
    return Status::Error(Code::kInternal, "%s failed as asked", call);
  }
  template <typename T>
  Result<T> Made(Result<T> result) {
    if (result.ok()) ++balance_->objects;
    return result;
  }
  Device* inner_;
  FaultyDriver::Counts* balance_;
};

}  // namespace

FaultyDriver::FaultyDriver(Driver* inner) : inner_(inner) {}
FaultyDriver::~FaultyDriver() = default;

Result<Device*> FaultyDriver::Open(uint32_t index) {
  ++counts_.calls;
  if (FaultPoint()) return Status::Error(Code::kInternal, "Open failed as asked");
  RONDO_ASSIGN_OR_RETURN(Device * inner, inner_->Open(index));
  FaultPause pause;
  std::unique_ptr<Device>& device = devices_[index];
  if (device == nullptr) device = std::make_unique<FaultyDevice>(inner, &counts_);
  return device.get();
}

Result<Collectives*> FaultyDriver::CreateCollectives(const Program& program, Span<const uint32_t> devices) {
  ++counts_.calls;
  if (FaultPoint()) return Status::Error(Code::kInternal, "CreateCollectives failed as asked");
  Result<Collectives*> made = inner_->CreateCollectives(program, devices);
  if (made.ok()) ++counts_.objects;
  return made;
}

void FaultyDriver::DestroyCollectives(Collectives* collectives) {
  --counts_.objects;
  inner_->DestroyCollectives(collectives);
}

Status FaultyDriver::BeginCollectives(Collectives* collectives) {
  ++counts_.calls;
  if (FaultPoint()) return Status::Error(Code::kInternal, "BeginCollectives failed as asked");
  return inner_->BeginCollectives(collectives);
}

}  // namespace rondo
