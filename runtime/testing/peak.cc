#include "runtime/testing/peak.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace rondo::testing {
namespace {

constexpr size_t kListed = 8;

// The bytes that one program uses on one device, step by step.
struct Fullest {
  uint32_t program = RONDO_NO_INDEX, device = 0, step = 0;
  uint64_t bytes = 0;
};

std::vector<rondo_buffer> BuffersOf(const api::Plan& plan) {
  std::vector<rondo_buffer> buffers(plan.BufferCount());
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    if (plan.GetBuffer(i, &buffers[i])) return {};
  }
  return buffers;
}

bool InArena(const rondo_buffer& b) {
  return b.kind != RONDO_BUFFER_CONSTANT && b.kind != RONDO_BUFFER_STATE && b.first_step <= b.last_step;
}

// Finds the step with the most live bytes. A buffer that takes over another one's memory begins when the last
// reader of that one ends, in the same bytes, and counts once.
Fullest FindFullest(const std::vector<rondo_buffer>& buffers) {
  std::map<std::pair<uint32_t, uint32_t>, std::map<uint32_t, int64_t>>
      changes;  // by program and device, by step
  for (const rondo_buffer& b : buffers) {
    if (!InArena(b)) continue;
    auto& steps = changes[{b.program, b.device}];
    const auto bytes = static_cast<int64_t>(b.bytes);
    const bool at_once = b.aliases != RONDO_NO_INDEX && buffers[b.aliases].last_step >= b.first_step;
    steps[b.first_step + (at_once ? 1 : 0)] += bytes;
    steps[b.last_step + 1] -= bytes;
  }
  Fullest fullest;
  for (const auto& [where, steps] : changes) {
    int64_t live = 0;
    for (const auto& [step, change] : steps) {
      live += change;
      if (live > static_cast<int64_t>(fullest.bytes))
        fullest = {where.first, where.second, step, static_cast<uint64_t>(live)};
    }
  }
  return fullest;
}

std::string LineOf(const rondo_buffer& b) {
  constexpr const char* kKinds[] = {"input",     "output",    "constant",     "state",
                                    "temporary", "workspace", "updated input"};
  std::string text = "  " + std::to_string(b.bytes) + " bytes  " + kKinds[b.kind] + " \"" +
                     std::string(b.name, b.name_bytes) + "\"";
  if (b.source_bytes > 0) text += " of " + std::string(b.source, b.source_bytes);
  if (InArena(b)) text += ", steps " + std::to_string(b.first_step) + " to " + std::to_string(b.last_step);
  return text + "\n";
}

}  // namespace

uint64_t PeakBytes(const api::Plan& plan) {
  rondo_requirements requirements;
  if (plan.GetRequirements(&requirements)) return UINT64_MAX;
  uint64_t sum = 0;
  for (uint32_t device = 0; device < requirements.devices; ++device) {
    rondo_device_bytes bytes;
    if (plan.GetDeviceBytes(device, &bytes)) return UINT64_MAX;
    sum += bytes.weights + bytes.arena + bytes.state;
  }
  return sum;
}

std::string PeakText(const api::Plan& plan) {
  std::vector<rondo_buffer> buffers = BuffersOf(plan);
  const Fullest fullest = FindFullest(buffers);
  const auto gone = [&](const rondo_buffer& b) {
    if (!InArena(b)) return b.kind != RONDO_BUFFER_CONSTANT && b.kind != RONDO_BUFFER_STATE;
    return b.program != fullest.program || b.device != fullest.device || b.first_step > fullest.step ||
           fullest.step > b.last_step;
  };
  buffers.erase(std::remove_if(buffers.begin(), buffers.end(), gone), buffers.end());
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const rondo_buffer& a, const rondo_buffer& b) { return a.bytes > b.bytes; });
  std::string text;
  if (fullest.program != RONDO_NO_INDEX) {
    text = "its arena is fullest, with " + std::to_string(fullest.bytes) + " live bytes on device " +
           std::to_string(fullest.device) + ", at step " + std::to_string(fullest.step) + " of program \"" +
           rondo_plan_program_name(plan.get(), fullest.program) + "\"; ";
  }
  text += "the largest buffers alive then:\n";
  for (size_t i = 0; i < std::min(buffers.size(), kListed); ++i) text += LineOf(buffers[i]);
  if (buffers.size() > kListed)
    text += "  and " + std::to_string(buffers.size() - kListed) + " smaller ones\n";
  return text;
}

}  // namespace rondo::testing
