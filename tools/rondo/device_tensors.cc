#include "tools/rondo/device_tensors.h"

namespace rondo::tools {
namespace {

constexpr uint64_t kAlignment = 256;  // the alignment that devices give

}  // namespace

Result<DeviceAddress> DeviceTensors::Make(const Session& session, uint32_t buffer) {
  const Buffer& b = session.plan().data().buffers[buffer];
  Device* device = session.device(b.device);
  RONDO_ASSIGN_OR_RETURN(DeviceAddress address, device->Allocate(b.bytes, kAlignment));
  blocks_.push_back({device, session.stream(b.device), address, b.bytes});
  return address;
}

Result<DeviceTensors> DeviceTensors::Create(const Session& session, uint32_t program,
                                            const std::vector<Input>& host) {
  const PlanData& plan = session.plan().data();
  DeviceTensors made;
  for (const Input& input : host) {
    uint32_t port = input.index;
    const Span<const Port> ports = plan.programs[program].inputs;
    for (uint32_t i = 0; i < ports.size() && !input.name.empty(); ++i) {
      if (ports[i].name == input.name) port = i;
    }
    if (port >= ports.size() || plan.buffers[ports[port].buffer].bytes != input.bytes) {
      return Status::Error(Code::kInvalidArgument, "an input of %zu bytes is of no port",
                           static_cast<size_t>(input.bytes));
    }
    RONDO_ASSIGN_OR_RETURN(DeviceAddress address, made.Make(session, ports[port].buffer));
    const Block& block = made.blocks_.back();
    RONDO_RETURN_IF_ERROR(block.device->CopyIn(address, input.data, input.bytes, block.stream));
    uint32_t step = 0;
    RONDO_RETURN_IF_ERROR(block.device->Synchronize(block.stream, &step));
    made.inputs_.push_back(input);
    made.inputs_.back().data = reinterpret_cast<const void*>(address);
    made.inputs_.back().memory = MemoryKind::kDevice;
  }
  for (const Port& port : plan.programs[program].outputs) {
    if (port.is_state) continue;
    RONDO_ASSIGN_OR_RETURN(DeviceAddress address, made.Make(session, port.buffer));
    const Buffer& b = plan.buffers[port.buffer];
    made.outputs_.push_back(
        {port.name, kNone, b.dtype, reinterpret_cast<void*>(address), b.bytes, MemoryKind::kDevice});
  }
  return made;
}

DeviceTensors::~DeviceTensors() {
  for (const Block& block : blocks_) block.device->Free(block.address, block.bytes);
}

Result<std::vector<uint8_t>> DeviceTensors::Read(size_t i) const {
  const Block& block = blocks_[inputs_.size() + i];
  std::vector<uint8_t> bytes(block.bytes);
  RONDO_RETURN_IF_ERROR(block.device->CopyOut(bytes.data(), block.address, block.bytes, block.stream));
  uint32_t step = 0;
  RONDO_RETURN_IF_ERROR(block.device->Synchronize(block.stream, &step));
  return bytes;
}

}  // namespace rondo::tools
