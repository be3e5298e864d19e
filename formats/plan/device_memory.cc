#include "formats/plan/device_memory.h"

namespace rondo {
namespace {

constexpr uint64_t AsBlock(uint64_t bytes) {
  return bytes > kSmallBlock ? InDeviceSteps(bytes) : InUnits(bytes, kDevicePage);
}

// Of the largest of the plan's modules, of which a device loads one.
void StateCode(const PlanData& plan, const DeviceMemoryRates& rates, DeviceMemory* memory) {
  for (const CodeModule& module : plan.modules) {
    uint64_t bytes = 0;
    for (Span<const uint8_t> code : module.codes) bytes += code.size();
    bytes = bytes * rates.code_kibibyte / 1024 + module.codes.size() * rates.code;
    if (bytes > memory->code) memory->code = bytes;
    for (const KernelImage& image : module.images) {
      if (image.kind == ImageKind::kLibraryMatmul) memory->library = rates.library;
    }
  }
  memory->code = InDeviceSteps(memory->code + rates.code_once);
}

uint64_t GraphBytes(const PlanData& plan, uint32_t device, const DeviceMemoryRates& rates) {
  uint64_t nodes = 0, graphs = 0;
  for (const Program& program : plan.programs) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      if (program.steps[s].device == device) nodes += RoundsOf(program, s);
    }
    for (const Partition& partition : program.partitions) graphs += partition.device == device;
  }
  return nodes * rates.graph_node + graphs * rates.graph;
}

}  // namespace

DeviceMemory EstimateDeviceMemory(const PlanData& plan, uint32_t device, const DeviceMemoryRates& rates) {
  DeviceMemory memory;
  if (plan.modules.empty()) return memory;
  StateCode(plan, rates, &memory);
  const DeviceBytes& bytes = plan.requirements.devices[device];
  memory.communicator = bytes.communicator;
  memory.weights = AsBlock(bytes.weights);
  memory.session = AsBlock(InUnits(bytes.arena, kDevicePage) + InUnits(bytes.state, kDevicePage));
  memory.graphs = GraphBytes(plan, device, rates);
  memory.first_session = BytesOfSessions(memory, 1);
  memory.each_session = memory.graphs + memory.session;
  if (memory.session != 0 && memory.session <= kSmallBlock)
    memory.each_session = memory.graphs + kDeviceStep / (kDeviceStep / memory.session);
  return memory;
}

uint64_t BlockBytes(const DeviceMemory& memory, uint64_t sessions) {
  const uint64_t weights = memory.weights, session = memory.session;
  const bool shares = weights != 0 && weights <= kSmallBlock;
  uint64_t bytes = shares ? kDeviceStep : weights;
  if (session > kSmallBlock || session == 0) return bytes + sessions * session;
  const uint64_t beside = shares ? (kDeviceStep - weights) / session : 0;  // weights, in their step
  const uint64_t in_a_step = kDeviceStep / session;
  if (sessions > beside) bytes += (sessions - beside + in_a_step - 1) / in_a_step * kDeviceStep;
  return bytes;
}

uint64_t BytesOfSessions(const DeviceMemory& memory, uint64_t sessions) {
  return memory.code + memory.library + memory.communicator + BlockBytes(memory, sessions) +
         InDeviceSteps(memory.graphs * sessions);
}

}  // namespace rondo
