#include "tools/rondo/kernel_probe.h"

#include <algorithm>
#include <memory>

#include "core/arena.h"
#include "core/custom_op.h"
#include "drivers/host/host_driver.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {
namespace {

// One tape of a part, and the loops over which it runs.
struct Place {
  enum Kind : uint8_t { kPrologue, kBody, kStage, kEpilogue } kind = kBody;
  size_t stage = 0;
  Tape tape;
  std::vector<uint32_t> loops;
};

std::vector<Place> PlacesOf(const Part& part) {
  const auto loops = [&](std::initializer_list<std::pair<uint32_t, uint32_t>> ranges) {
    std::vector<uint32_t> list;
    for (const auto& [first, count] : ranges) {
      for (uint32_t l = first; l < first + count; ++l) list.push_back(l);
    }
    return list;
  };
  const auto all = static_cast<uint32_t>(part.loops.size());
  const uint32_t rows = part.outer + part.m;
  std::vector<Place> places = {
      {Place::kPrologue, 0, part.prologue, loops({{0, rows}, {rows + part.n, part.reduced}})},
      {Place::kBody, 0, part.body, loops({{0, all}})},
      {Place::kEpilogue, 0, part.epilogue, loops({{0, rows + part.n}})}};
  for (size_t s = 0; s < part.stages.size(); ++s) {
    places.push_back(
        {Place::kStage, s, part.stages[s].tape, loops({{0, part.stages[s].per_row ? part.outer : all}})});
  }
  return places;
}

bool HasValue(const TapeInst& inst) {
  return ClassOf(inst.op) != OpClass::kEffect && inst.op != TapeOp::kConst && inst.op != TapeOp::kIndex;
}

DType StoredType(TapeType type) {
  return type == TapeType::kI64 ? DType::kI64 : type == TapeType::kF64 ? DType::kF64 : DType::kF32;
}

// A kernel of `part` of `kernel` alone. It also stores register `number` of the tape at `place` to an extra
// last parameter, dense over the tape's loops.
Kernel WithStore(const Kernel& kernel, const Part& part, const Place& place, uint16_t number, Arena* arena) {
  std::vector<Operand> operands(part.operands.begin(), part.operands.end());
  std::vector<int64_t> strides(part.loops.size(), 0);
  int64_t points = 1;
  for (size_t l = place.loops.size(); l-- > 0;) {
    strides[place.loops[l]] = points;
    points *= part.loops[place.loops[l]];
  }
  Operand probe;
  probe.param = kernel.num_params;
  probe.dtype = StoredType(place.tape[number].type);
  probe.mode = Mode::kWrite;
  probe.strides = arena->Copy(strides);
  const auto index = static_cast<uint16_t>(operands.size());
  operands.push_back(probe);

  std::vector<TapeInst> tape(place.tape.begin(), place.tape.end());
  TapeInst store;
  store.op = TapeOp::kStore;
  store.type = place.tape[number].type;
  store.arg = index;
  store.a = number;

  Part probed = part;
  if (place.kind ==
      Place::kPrologue) {  // a separate map over the loops of the lhs, because a prologue stores nothing
    std::erase_if(tape, [](const TapeInst& inst) { return inst.op == TapeOp::kYield; });
    probed = Part();
    std::vector<int64_t> extents(part.loops.begin(), part.loops.end());
    for (uint32_t l = 0; l < extents.size(); ++l) {
      if (std::find(place.loops.begin(), place.loops.end(), l) == place.loops.end()) extents[l] = 1;
    }
    probed.loops = arena->Copy(extents);
    probed.outer = static_cast<uint8_t>(extents.size());
  }
  tape.push_back(store);
  const Tape longer = arena->Copy(tape);
  std::vector<Stage> stages(part.stages.begin(), part.stages.end());
  switch (place.kind) {
    case Place::kPrologue:
    case Place::kBody: probed.body = longer; break;
    case Place::kEpilogue: probed.epilogue = longer; break;
    case Place::kStage:
      stages[place.stage].tape = longer;
      probed.stages = arena->Copy(stages);
      break;
  }
  probed.operands = arena->Copy(operands);
  Kernel made = kernel;
  made.num_params = static_cast<uint16_t>(kernel.num_params + 1);
  made.parts = arena->Copy(std::vector<Part>{probed});
  return made;
}

// The host driver with one device open.
class Host {
 public:
  Status Open() {
    RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateHostDriver({}));
    driver_ = DriverHandle(driver, DestroyHostDriver);
    RONDO_ASSIGN_OR_RETURN(device_, driver->Open(0));
    RONDO_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
    return Status::Ok();
  }
  ~Host() {
    if (stream_ != nullptr) device_->DestroyStream(stream_);
  }

  // The memory is in this process.
  Status Launch(const Kernel& kernel, const std::vector<DeviceAddress>& addresses) {
    PlanData plan;
    plan.kernels = Span<const Kernel>(&kernel, 1);
    RONDO_ASSIGN_OR_RETURN(Module * module, device_->LoadModule(plan));
    uint32_t failed_step = 0;
    Status status = device_->Launch(module, 0, Span<const DeviceAddress>(addresses), stream_, 0);
    const Status ended = device_->Synchronize(stream_, &failed_step);
    device_->DestroyModule(module);
    return status.ok() ? ended : status;
  }
  Device* device() const { return device_; }
  Stream* stream() const { return stream_; }

 private:
  DriverHandle driver_{nullptr, nullptr};
  Device* device_ = nullptr;
  Stream* stream_ = nullptr;
};

// The buffers of a step in the host device's memory, and one more block for a probe. The destructor frees
// all.
class Blocks {
 public:
  explicit Blocks(Host* host) : host_(host) {}
  ~Blocks() {
    for (const auto& [buffer, block] : blocks_) {
      if (block.address != 0) host_->device()->Free(block.address, block.bytes);
    }
  }

  Status Fill(const BoundMemory& memory) {
    for (const auto& [buffer, bytes] : memory) {
      RONDO_ASSIGN_OR_RETURN(const DeviceAddress address, Reserve(buffer, bytes.size()));
      uint32_t failed_step = 0;
      RONDO_RETURN_IF_ERROR(host_->device()->CopyIn(address, bytes.data(), bytes.size(), host_->stream()));
      RONDO_RETURN_IF_ERROR(host_->device()->Synchronize(host_->stream(), &failed_step));
    }
    return Status::Ok();
  }
  // Reserves memory for a buffer, or with kNone for the probe.
  Result<DeviceAddress> Reserve(uint32_t buffer, uint64_t bytes) {
    Block& block = blocks_[buffer];
    if (block.bytes >= bytes && block.address != 0) return block.address;
    if (block.address != 0) host_->device()->Free(block.address, block.bytes);
    block = {};
    RONDO_ASSIGN_OR_RETURN(block.address, host_->device()->Allocate(bytes, 512));
    block.bytes = bytes;
    return block.address;
  }
  Result<std::vector<uint8_t>> Read(uint32_t buffer, uint64_t bytes) {
    std::vector<uint8_t> read(bytes);
    uint32_t failed_step = 0;
    RONDO_RETURN_IF_ERROR(
        host_->device()->CopyOut(read.data(), blocks_[buffer].address, bytes, host_->stream()));
    RONDO_RETURN_IF_ERROR(host_->device()->Synchronize(host_->stream(), &failed_step));
    return read;
  }

  std::vector<DeviceAddress> AddressesOf(const Program& program, uint32_t step) const {
    std::vector<DeviceAddress> addresses;
    const int64_t round = int64_t{RoundsOf(program, step)} - 1;
    for (const Binding& binding : program.steps[step].bindings) {
      const int64_t offset = static_cast<int64_t>(binding.offset) + round * binding.stride;
      addresses.push_back(blocks_.at(binding.buffer).address + static_cast<DeviceAddress>(offset));
    }
    return addresses;
  }

 private:
  struct Block {
    DeviceAddress address = 0;
    uint64_t bytes = 0;
  };
  Host* host_;
  std::map<uint32_t, Block> blocks_;
};

}  // namespace

Result<BoundMemory> LaunchOnHost(const PlanData& plan, uint32_t program, uint32_t step, BoundMemory memory) {
  Host host;
  RONDO_RETURN_IF_ERROR(host.Open());
  Blocks blocks(&host);
  RONDO_RETURN_IF_ERROR(blocks.Fill(memory));
  const Program& of = plan.programs[program];
  RONDO_RETURN_IF_ERROR(host.Launch(plan.kernels[of.steps[step].kernel], blocks.AddressesOf(of, step)));
  for (auto& [buffer, bytes] : memory) {
    RONDO_ASSIGN_OR_RETURN(bytes, blocks.Read(buffer, bytes.size()));
  }
  return memory;
}

Status ForEachRegister(const PlanData& plan, uint32_t program, uint32_t step, const BoundMemory& memory,
                       const std::function<bool(const Tensor&)>& see) {
  Host host;
  RONDO_RETURN_IF_ERROR(host.Open());
  Blocks blocks(&host);
  RONDO_RETURN_IF_ERROR(blocks.Fill(memory));
  const Program& of = plan.programs[program];
  const Kernel& kernel = plan.kernels[of.steps[step].kernel];
  for (const Part& part : kernel.parts) {
    for (const Place& place : PlacesOf(part)) {
      Tensor value;
      value.shape = Shape{1};
      for (uint32_t loop : place.loops) value.shape[0] *= part.loops[loop];
      for (uint16_t r = 0; r < place.tape.size(); ++r) {
        if (!HasValue(place.tape[r])) continue;
        Arena arena;
        const Kernel probed = WithStore(kernel, part, place, r, &arena);
        value.dtype = StoredType(place.tape[r].type);
        const auto bytes = static_cast<uint64_t>(value.shape[0] * ByteSize(value.dtype));
        std::vector<DeviceAddress> addresses = blocks.AddressesOf(of, step);
        RONDO_ASSIGN_OR_RETURN(const DeviceAddress probe, blocks.Reserve(kNone, bytes));
        addresses.push_back(probe);
        RONDO_RETURN_IF_ERROR(blocks.Fill(memory));  // the kernel may overwrite its inputs
        RONDO_RETURN_IF_ERROR(host.Launch(probed, addresses));
        RONDO_ASSIGN_OR_RETURN(value.bytes, blocks.Read(kNone, bytes));
        if (!see(value)) return Status::Ok();
      }
    }
  }
  return Status::Ok();
}

}  // namespace rondo::tools
