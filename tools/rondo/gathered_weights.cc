#include "tools/rondo/gathered_weights.h"

#include <algorithm>
#include <map>

namespace rondo::tools {
namespace {

// The buffer that an all-gather of a weight fills; null for all other steps.
const Buffer* FilledWithWeights(const PlanData& plan, const Program& program, const Step& step) {
  if (step.kind != StepKind::kCollectiveStart || step.bindings.size() != 2) return nullptr;
  if (program.sync_points[step.sync_point].op != CollectiveOp::kAllGather) return nullptr;
  const Buffer& from = plan.buffers[step.bindings[0].buffer];
  return from.kind == BufferKind::kConstant ? &plan.buffers[step.bindings[1].buffer] : nullptr;
}

}  // namespace

std::vector<DeviceGathers> GathersOf(const PlanData& plan, const Program& program) {
  std::map<uint32_t, DeviceGathers> devices;
  std::map<uint32_t, std::map<uint32_t, int64_t>> changes;  // gathered bytes, by device and step
  for (const Step& step : program.steps) {
    const Buffer* filled = FilledWithWeights(plan, program, step);
    if (filled == nullptr) continue;
    DeviceGathers& device = devices[step.device];
    ++device.gathers;
    device.bytes += filled->bytes;
    changes[step.device][filled->first_step] += static_cast<int64_t>(filled->bytes);
    changes[step.device][filled->last_step + 1] -= static_cast<int64_t>(filled->bytes);
  }
  std::vector<DeviceGathers> out;
  for (auto& [number, device] : devices) {
    device.device = number;
    device.held = plan.requirements.devices[number].weights;
    int64_t there = 0;
    for (const auto& [step, change] : changes[number]) {
      there += change;
      device.at_once = std::max(device.at_once, static_cast<uint64_t>(std::max<int64_t>(there, 0)));
    }
    out.push_back(device);
  }
  return out;
}

Section GatherSection(const PlanData& plan, const Program& program) {
  Section section;
  section.title = Printf("Program %s: weights gathered before their use (--weights gather)",
                         std::string(program.name).c_str());
  section.table.head = {"device",         "holds",   "gathers a run",
                        "bytes gathered", "at once", "weights at their peak"};
  for (const DeviceGathers& device : GathersOf(plan, program)) {
    section.table.rows.push_back({std::to_string(device.device), BytesText(device.held),
                                  std::to_string(device.gathers), BytesText(device.bytes),
                                  BytesText(device.at_once), BytesText(device.peak())});
  }
  return section;
}

}  // namespace rondo::tools
