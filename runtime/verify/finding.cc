#include "runtime/verify/finding.h"

#include <algorithm>
#include <cstdio>

namespace rondo {

const char* Name(LifecycleRule rule) {
  constexpr const char* kNames[] = {"lifetime",       "overlap",        "read unwritten", "read foreign",
                                    "not writable",   "inside step",    "unordered",      "stray write",
                                    "state changed",  "guard",          "not written",    "poison seen",
                                    "replay differs", "reload differs", "weights",        "given twice",
                                    "freed wrongly",  "not given back", "not flat",       "run failed"};
  return kNames[static_cast<size_t>(rule)];
}

std::string BytesText(uint64_t offset, uint64_t bytes) {
  const std::string first = std::to_string(offset);
  return bytes <= 1 ? "byte " + first : "bytes " + first + " to " + std::to_string(offset + bytes - 1);
}

std::string BufferText(const PlanData& plan, uint32_t buffer) {
  const Buffer& b = plan.buffers[buffer];
  std::string text = "buffer \"" + std::string(b.name) + "\" (" + Name(b.kind);
  if (b.source < plan.sources.size()) text += ", of " + std::string(plan.sources[b.source]);
  return text + ")";
}

std::string HexText(Span<const uint8_t> bytes) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 8); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%s%02x", i == 0 ? "" : " ", bytes[i]);
    text += digits;
  }
  return bytes.size() > 8 ? text + " ..." : text;
}

std::string Finding::Text() const {
  std::string text = std::string(Name(rule)) + ": ";
  if (!program.empty()) text += "program \"" + program + "\", ";
  if (step != kNone) text += "step " + std::to_string(step);
  if (round > 0) text += " in round " + std::to_string(round);
  if (!step_source.empty()) text += " (" + step_source + ")";
  if (step != kNone) text += ", ";
  text += "device " + std::to_string(device);
  if (buffer != kNone) {
    text += ", buffer " + std::to_string(buffer) + " \"" + buffer_name + "\"";
    if (!buffer_source.empty()) text += " of " + buffer_source;
  }
  if (bytes > 0) text += ", " + BytesText(offset, bytes);
  return text + ": expected " + expected + "; found " + found;
}

void FindingList::Add(Finding finding, uint32_t program) {
  if (list_.size() == kMost) return;
  if (program != kNone) {
    const Program& of = plan_.programs[program];
    finding.program = of.name;
    if (finding.step < of.steps.size()) {
      const uint32_t source = of.steps[finding.step].source;
      if (source < plan_.sources.size()) finding.step_source = plan_.sources[source];
    }
  }
  if (finding.buffer != kNone) {
    const Buffer& buffer = plan_.buffers[finding.buffer];
    finding.buffer_name = buffer.name;
    if (buffer.source < plan_.sources.size()) finding.buffer_source = plan_.sources[buffer.source];
  }
  const bool known = std::any_of(list_.begin(), list_.end(), [&](const Finding& other) {
    return other.rule == finding.rule && other.program == finding.program && other.step == finding.step &&
           other.buffer == finding.buffer && other.device == finding.device &&
           (finding.buffer != kNone ||
            (finding.bytes > 0 ? other.offset == finding.offset : other.expected == finding.expected));
  });
  if (!known) list_.push_back(std::move(finding));
}

}  // namespace rondo
