#include "formats/plan/device_memory.h"

namespace rondo {
namespace {

constexpr uint64_t kStep = 2 << 20;
constexpr uint64_t kBesideCode = 3 << 19;
constexpr uint64_t kGraphNode = 1 << 10;

constexpr uint64_t InSteps(uint64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

}  // namespace

DeviceMemory EstimateDeviceMemory(const PlanData& plan, uint32_t device) {
  DeviceMemory memory;
  if (plan.modules.empty()) return memory;
  for (const CodeModule& module : plan.modules) {
    uint64_t bytes = 0;
    for (Span<const uint8_t> code : module.codes) bytes += code.size();
    if (bytes > memory.code) memory.code = bytes;
  }
  memory.code = InSteps(memory.code + kBesideCode);
  uint64_t nodes = 0;
  for (const Program& program : plan.programs) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      if (program.steps[s].device == device) nodes += RoundsOf(program, s);
    }
  }
  memory.graphs = nodes * kGraphNode;
  const DeviceBytes& bytes = plan.requirements.devices[device];
  memory.each_session = InSteps(bytes.arena + bytes.state + memory.graphs);
  memory.first_session = InSteps(bytes.weights) + memory.code + bytes.communicator +
                         InSteps(bytes.arena + bytes.state) + InSteps(memory.graphs);
  return memory;
}

}  // namespace rondo
