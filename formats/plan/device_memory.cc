#include "formats/plan/device_memory.h"

namespace rondo {
namespace {

constexpr uint64_t AsBlock(uint64_t bytes) {
  return bytes > kSmallBlock ? InDeviceSteps(bytes) : InUnits(bytes, kDevicePage);
}

}  // namespace

DeviceNeeds NeedsOn(const PlanData& plan, uint32_t device) {
  DeviceNeeds needs;
  for (const CodeModule& module : plan.modules) {
    uint64_t bytes = 0;
    for (Span<const uint8_t> code : module.codes) bytes += code.size();
    if (bytes > needs.code_bytes) {
      needs.code_bytes = bytes;
      needs.codes = module.codes.size();
    }
    for (const KernelBinary& binary : module.binaries)
      needs.library |= binary.kind == BinaryKind::kLibraryMatmul;
  }
  needs.streams = 1;
  for (const Program& program : plan.programs) {
    if (program.num_streams > needs.streams) needs.streams = program.num_streams;
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      if (program.steps[s].device == device) needs.nodes += RoundsOf(program, s);
    }
    for (const Partition& partition : program.partitions) needs.graphs += partition.device == device;
  }
  const DeviceBytes& bytes = plan.requirements.devices[device];
  needs.communicator = bytes.communicator;
  needs.weights = bytes.weights;
  needs.session = InUnits(bytes.arena, kDevicePage) + InUnits(bytes.state, kDevicePage);
  return needs;
}

DeviceMemory EstimateDeviceMemory(const DeviceNeeds& needs, const DeviceMemoryRates& rates) {
  DeviceMemory memory;
  if (needs.codes == 0 && !needs.library) return memory;
  memory.code = InDeviceSteps(needs.code_bytes * rates.code_kibibyte / 1024 + needs.codes * rates.code +
                              rates.code_once);
  memory.library = needs.library ? rates.library : 0;
  memory.communicator = needs.communicator;
  memory.weights = AsBlock(needs.weights);
  memory.session = AsBlock(needs.session);
  memory.graphs = needs.nodes * rates.graph_node + needs.graphs * rates.graph + needs.streams * rates.stream;
  memory.graphs_once = rates.graphs_once;
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
  const uint64_t beside = shares ? (kDeviceStep - weights) / session : 0;  // in the weights' step
  const uint64_t in_a_step = kDeviceStep / session;
  if (sessions > beside) bytes += (sessions - beside + in_a_step - 1) / in_a_step * kDeviceStep;
  return bytes;
}

uint64_t BytesOfSessions(const DeviceMemory& memory, uint64_t sessions) {
  return memory.code + memory.library + memory.communicator + BlockBytes(memory, sessions) +
         InDeviceSteps(memory.graphs_once + memory.graphs * sessions);
}

}  // namespace rondo
