#include "runtime/verify/guarded_driver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/verify/poison.h"

namespace rondo::verify {
namespace {

// A block as the caller requested it, with canaries on both sides.
struct Block {
  uint64_t bytes = 0;
  uint64_t front = 0;       // bytes of canaries before it
  DeviceAddress inner = 0;  // of the inner driver's block
  uint64_t inner_bytes = 0;
};

uint64_t FrontOf(uint64_t alignment) { return std::max(kGuardBytes, alignment); }

std::string AddressText(DeviceAddress address, uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%llu bytes at 0x%llx", static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(address));
  return text;
}

constexpr const char* kTakenNames[kTakenKinds] = {
    "bytes of device memory", "blocks of device memory", "modules of kernels", "streams", "events", "graphs",
    "groups of collectives"};

}  // namespace

class GuardedDevice : public ForwardingDevice {
 public:
  GuardedDevice(Device* inner, GuardedDriver* driver, uint32_t index)
      : ForwardingDevice(inner), driver_(driver), index_(index) {}
  ~GuardedDevice() override {
    if (stream_ != nullptr) inner_->DestroyStream(stream_);
  }

  Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) override;
  void Free(DeviceAddress address, uint64_t bytes) override;
  Result<Module*> LoadModule(const PlanData& plan) override {
    return Counted(inner_->LoadModule(plan), Taken::kModules);
  }
  void DestroyModule(Module* module) override {
    driver_->Change(Taken::kModules, -1);
    inner_->DestroyModule(module);
  }
  Result<Stream*> CreateStream() override { return Counted(inner_->CreateStream(), Taken::kStreams); }
  void DestroyStream(Stream* stream) override {
    driver_->Change(Taken::kStreams, -1);
    inner_->DestroyStream(stream);
  }
  Result<Event*> CreateEvent() override { return Counted(inner_->CreateEvent(), Taken::kEvents); }
  Result<Event*> CreateTimedEvent() override { return Counted(inner_->CreateTimedEvent(), Taken::kEvents); }
  void DestroyEvent(Event* event) override {
    driver_->Change(Taken::kEvents, -1);
    inner_->DestroyEvent(event);
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    return Counted(inner_->EndRecord(stream), Taken::kGraphs);
  }
  void DestroyGraph(Graph* graph) override {
    driver_->Change(Taken::kGraphs, -1);
    inner_->DestroyGraph(graph);
  }

  Status CheckGuards(uint32_t program, uint32_t step);
  Device* inner() const { return inner_; }
  // Frees the blocks that nobody else will free. Call with the driver's mutex held.
  void Forget() {
    for (const auto& [address, block] : blocks_) inner_->Free(block.inner, block.inner_bytes);
    blocks_.clear();
    if (stream_ != nullptr) inner_->DestroyStream(std::exchange(stream_, nullptr));
  }

 private:
  template <typename T>
  Result<T*> Counted(Result<T*> made, Taken what) {
    if (made.ok()) driver_->Change(what, 1);
    return made;
  }
  // The canaries before and after a block: address and bytes.
  static std::array<std::pair<DeviceAddress, uint64_t>, 2> GuardsOf(DeviceAddress address, const Block& b) {
    const uint64_t behind = b.inner_bytes - b.front - b.bytes;
    return {{{b.inner, b.front}, {address + b.bytes, behind}}};
  }
  Status MakeStream();
  Status FillGuards(DeviceAddress address, const Block& block);
  Status FillOnStream(DeviceAddress address, const Block& block);
  Status Finish(Status status);

  GuardedDriver* driver_;
  const uint32_t index_;
  std::map<DeviceAddress, Block> blocks_;  // by address given to the caller; guarded by the driver's mutex
  // For canaries. Kept from the first block on: a GPU may only be able to create or destroy a stream once its
  // collectives in flight are over, and other ranks may not have started theirs.
  Stream* stream_ = nullptr;
  std::mutex on_stream_;  // guards stream_; taken before the driver's mutex if both are needed
};

Status GuardedDevice::MakeStream() {
  if (stream_ != nullptr) return Status::Ok();
  RONDO_ASSIGN_OR_RETURN(stream_, inner_->CreateStream());
  return Status::Ok();
}

// Waits for the work enqueued on the stream.
Status GuardedDevice::Finish(Status status) {
  uint32_t failed_step = kNone;
  const Status waited = inner_->Synchronize(stream_, &failed_step);
  return status.ok() ? waited : status;
}

Status GuardedDevice::FillGuards(DeviceAddress address, const Block& block) {
  std::lock_guard<std::mutex> lock(on_stream_);
  return FillOnStream(address, block);
}

Status GuardedDevice::FillOnStream(DeviceAddress address, const Block& block) {
  RONDO_RETURN_IF_ERROR(MakeStream());
  Status status;
  std::vector<uint8_t> canaries[2];
  int side = 0;
  for (const auto& [at, bytes] : GuardsOf(address, block)) {
    canaries[side].resize(bytes);
    Poison(false).Fill(at - block.inner, bytes, canaries[side].data());
    if (status.ok()) status = inner_->CopyIn(at, canaries[side].data(), bytes, stream_);
    ++side;
  }
  return Finish(status);
}

Result<DeviceAddress> GuardedDevice::Allocate(uint64_t bytes, uint64_t alignment) {
  Block block;
  block.bytes = bytes;
  block.front = FrontOf(alignment);
  block.inner_bytes = block.front + bytes + kGuardBytes;
  RONDO_ASSIGN_OR_RETURN(block.inner, inner_->Allocate(block.inner_bytes, alignment));
  const DeviceAddress address = block.inner + block.front;
  std::string taken;
  {
    std::lock_guard<std::mutex> lock(driver_->mutex_);
    for (const auto& [other, of] : blocks_) {
      if (block.inner < of.inner + of.inner_bytes && of.inner < block.inner + block.inner_bytes)
        taken = AddressText(other, of.bytes);
    }
    blocks_[address] = block;
  }
  if (!taken.empty()) {
    driver_->Found(LifecycleRule::kGivenTwice, index_, "memory that nobody has",
                   AddressText(address, bytes) + ", of which some is in " + taken + ", not given back yet");
  }
  driver_->Change(Taken::kBlocks, 1);
  driver_->Change(Taken::kBytes, static_cast<int64_t>(bytes));
  RONDO_RETURN_IF_ERROR(FillGuards(address, block));
  return address;
}

void GuardedDevice::Free(DeviceAddress address, uint64_t bytes) {
  (void)CheckGuards(kNone, kNone).ok();  // a lost device has already reported its error
  Block block;
  {
    std::lock_guard<std::mutex> lock(driver_->mutex_);
    const auto at = blocks_.find(address);
    if (at != blocks_.end()) {
      block = at->second;
      blocks_.erase(at);
    }
  }
  if (block.inner_bytes == 0) {
    driver_->Found(LifecycleRule::kFreedWrongly, index_, "memory that is taken", AddressText(address, bytes));
    return;
  }
  if (block.bytes != bytes) {
    driver_->Found(LifecycleRule::kFreedWrongly, index_, AddressText(address, block.bytes),
                   AddressText(address, bytes));
  }
  driver_->Change(Taken::kBlocks, -1);
  driver_->Change(Taken::kBytes, -static_cast<int64_t>(block.bytes));
  inner_->Free(block.inner, block.inner_bytes);
}

Status GuardedDevice::CheckGuards(uint32_t program, uint32_t step) {
  std::map<DeviceAddress, Block> blocks;
  {
    std::lock_guard<std::mutex> lock(driver_->mutex_);
    blocks = blocks_;
  }
  if (blocks.empty()) return Status::Ok();
  std::lock_guard<std::mutex> lock(on_stream_);
  RONDO_RETURN_IF_ERROR(MakeStream());
  Status status;
  std::vector<uint8_t> now, canaries;
  for (const auto& [address, block] : blocks) {
    bool damaged = false;
    for (const auto& [at, bytes] : GuardsOf(address, block)) {
      now.resize(bytes);
      canaries.resize(bytes);
      Poison(false).Fill(at - block.inner, bytes, canaries.data());
      uint32_t failed_step = kNone;
      if (status.ok()) status = inner_->CopyOut(now.data(), at, bytes, stream_);
      if (status.ok()) status = inner_->Synchronize(stream_, &failed_step);
      if (!status.ok() || now == canaries) continue;
      const auto differ = std::mismatch(now.begin(), now.end(), canaries.begin());
      const auto byte = static_cast<uint64_t>(differ.first - now.begin());
      const bool before = at < address;
      driver_->Found(LifecycleRule::kGuard, index_,
                     "canary " + HexText({&*differ.second, 1}) + " " +
                         std::to_string(before ? bytes - byte : byte) + " bytes " +
                         (before ? "before" : "behind") + " the " + std::to_string(block.bytes) +
                         " bytes that were taken",
                     HexText({&*differ.first, 1}), program, step);
      damaged = true;
    }
    if (damaged && status.ok()) status = FillOnStream(address, block);
  }
  return Finish(status);
}

GuardedDriver::GuardedDriver(Driver* inner, FindingList* findings)
    : ForwardingDriver(inner), findings_(findings) {}
GuardedDriver::~GuardedDriver() = default;

void GuardedDriver::Change(Taken what, int64_t by) {
  std::lock_guard<std::mutex> lock(mutex_);
  account_[static_cast<size_t>(what)] += static_cast<uint64_t>(by);
}

void GuardedDriver::Found(LifecycleRule rule, uint32_t device, const std::string& expected,
                          const std::string& found, uint32_t program, uint32_t step) {
  Finding finding;
  finding.rule = rule;
  finding.device = device;
  finding.step = step;
  finding.expected = expected;
  finding.found = found;
  std::lock_guard<std::mutex> lock(mutex_);
  findings_->Add(std::move(finding), program);
}

Result<Device*> GuardedDriver::Open(uint32_t index) {
  RONDO_ASSIGN_OR_RETURN(Device * inner, inner_->Open(index));
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<GuardedDevice>& device = devices_[index];
  if (device == nullptr) device = std::make_unique<GuardedDevice>(inner, this, index);
  return static_cast<Device*>(device.get());
}

Result<Collectives*> GuardedDriver::CreateCollectives(const Program& program, Span<const uint32_t> devices) {
  RONDO_ASSIGN_OR_RETURN(Collectives * made, inner_->CreateCollectives(program, devices));
  Change(Taken::kCollectives, 1);
  return made;
}

void GuardedDriver::DestroyCollectives(Collectives* collectives) {
  Change(Taken::kCollectives, -1);
  inner_->DestroyCollectives(collectives);
}

Status GuardedDriver::CheckGuards(Device* device, uint32_t program, uint32_t step) {
  return static_cast<GuardedDevice*>(device)->CheckGuards(program, step);
}

Account GuardedDriver::account() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return account_;
}

void GuardedDriver::ExpectEmpty() {
  const Account left = account();
  for (size_t i = 0; i < kTakenKinds; ++i) {
    if (left[i] == 0) continue;
    const auto count = static_cast<int64_t>(left[i]);
    const std::string found = count > 0 ? std::to_string(count) + " left"
                                        : std::to_string(-count) + " more given back than were taken";
    Found(LifecycleRule::kNotGivenBack, 0, "0 " + std::string(kTakenNames[i]) + " in use after all is closed",
          found);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  account_ = {};
  for (auto& [index, device] : devices_) device->Forget();
}

Result<uint64_t> GuardedDriver::FreeBytes() {
  uint64_t sum = 0;
  for (auto& [index, device] : devices_) {
    uint64_t free_bytes = 0, total_bytes = 0;
    RONDO_RETURN_IF_ERROR(device->inner()->MemoryInfo(&free_bytes, &total_bytes));
    sum += free_bytes;
  }
  return sum;
}

}  // namespace rondo::verify
