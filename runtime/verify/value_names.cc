#include "runtime/verify/value_names.h"

#include <algorithm>
#include <set>

namespace rondo {
namespace {

constexpr size_t kMostTold = 3;

// A source that nothing refers to describes a value without memory: `value "NAME" of Op "node"`.
constexpr std::string_view kValue = "value \"", kOf = "\" of ";

std::string Quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), now(b.size() + 1), old;
  for (size_t k = 0; k <= b.size(); ++k) now[k] = k;
  for (size_t i = 1; i <= a.size(); ++i) {
    old = before;
    before = now;
    now[0] = i;
    for (size_t k = 1; k <= b.size(); ++k) {
      now[k] = std::min({before[k] + 1, now[k - 1] + 1, before[k - 1] + (a[i - 1] != b[k - 1])});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        now[k] = std::min(now[k], old[k - 2] + 1);
    }
  }
  return now[b.size()];
}

}  // namespace

std::string NearestNames(std::string_view name, const std::vector<std::string_view>& names) {
  const size_t most = std::max<size_t>(2, name.size() / 3);
  std::set<std::pair<size_t, std::string_view>> near;
  for (std::string_view other : names) {
    const size_t shorter = std::min(other.size(), name.size()), longer = std::max(other.size(), name.size());
    if (other.empty() || longer - shorter > most) continue;
    const size_t distance = Distance(name, other);
    if (distance <= most) near.insert({distance, other});
  }
  std::string text;
  size_t told = 0;
  for (const auto& [distance, other] : near) {
    if (told++ == kMostTold) break;
    text += (text.empty() ? "" : ", ") + Quoted(other);
  }
  return text;
}

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& names) {
  const auto nearest = std::min_element(
      names.begin(), names.end(),
      [&](std::string_view a, std::string_view b) { return Distance(name, a) < Distance(name, b); });
  return nearest == names.end() ? std::string_view() : *nearest;
}

std::vector<std::string_view> LabelsOf(std::string_view sources) {
  std::vector<std::string_view> labels;
  while (!sources.empty()) {
    const size_t end = std::min(sources.find("\"; "), sources.size() - 1);
    labels.push_back(sources.substr(0, end + 1));
    sources.remove_prefix(std::min(sources.size(), end + 3));
  }
  return labels;
}

std::string_view NodeOfLabel(std::string_view label) {
  const size_t first = label.find('"');
  if (first == label.npos || label.size() < first + 2) return label;
  return label.substr(first + 1, label.size() - first - 2);
}

std::vector<uint32_t> ValueNames::Buffers(uint32_t program, std::string_view name) const {
  std::vector<uint32_t> found;
  const auto add = [&](uint32_t buffer) {
    if (std::find(found.begin(), found.end(), buffer) == found.end()) found.push_back(buffer);
  };
  const Program& of = plan_.programs[program];
  for (const Span<const Port>& ports : {of.inputs, of.outputs}) {
    for (const Port& port : ports) {
      if (port.name == name) add(port.buffer);
    }
  }
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.name == name && (buffer.program == program || buffer.program == kNone)) add(b);
  }
  return found;
}

std::vector<uint32_t> ValueNames::Steps(uint32_t program, std::string_view node) const {
  std::vector<uint32_t> found;
  const Span<const Step> steps = plan_.programs[program].steps;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    if (steps[s].source >= plan_.sources.size()) continue;
    for (std::string_view label : LabelsOf(plan_.sources[steps[s].source])) {
      if (label != node && NodeOfLabel(label) != node) continue;
      found.push_back(s);
      break;
    }
  }
  return found;
}

std::string ValueNames::DescribeStep(uint32_t program, uint32_t step) const {
  const Step& of = plan_.programs[program].steps[step];
  std::string text = "step " + std::to_string(step);
  return of.source < plan_.sources.size() ? text + " (" + std::string(plan_.sources[of.source]) + ")" : text;
}

std::string ValueNames::Describe(uint32_t buffer) const {
  const Buffer& b = plan_.buffers[buffer];
  std::string text = "buffer " + std::to_string(buffer) + " " + Quoted(b.name);
  if (b.source < plan_.sources.size()) text += " of " + std::string(plan_.sources[b.source]);
  const char* region = b.kind == BufferKind::kConstant ? "weights"
                       : b.kind == BufferKind::kState  ? "state"
                                                       : "arena";
  text += " (bytes " + std::to_string(b.offset) + " to " +
          std::to_string(b.offset + std::max<uint64_t>(b.bytes, 1) - 1) + " of the " + region +
          " of device " + std::to_string(b.device);
  if (b.program == kNone) return text + ", for all programs)";
  if (b.first_step > b.last_step) return text + ", used by no step)";
  return text + ", steps " + std::to_string(b.first_step) + " to " + std::to_string(b.last_step) + ")";
}

// The text about a value without memory, computed by the node of `label`.
std::string ValueNames::NoValueOf(std::string_view value, std::string_view label) const {
  for (uint32_t p = 0; p < plan_.programs.size(); ++p) {
    for (uint32_t s : Steps(p, label)) {
      const Step& step = plan_.programs[p].steps[s];
      if (step.kind != StepKind::kLaunch) continue;
      return "value " + Quoted(value) + " of " + std::string(label) + " lives inside kernel " +
             std::string(plan_.kernels[step.kernel].name) + " (step " + std::to_string(s) + " of program " +
             Quoted(plan_.programs[p].name) + "), in no memory";
    }
  }
  return "value " + Quoted(value) + " of " + std::string(label) +
         " is in no memory: it was folded into a constant, a view or the nodes that use it, or nothing needs "
         "it";
}

std::string ValueNames::NoBuffer(std::string_view name) const {
  std::vector<std::string_view> known;
  for (const Buffer& buffer : plan_.buffers) known.push_back(buffer.name);
  for (const Program& program : plan_.programs) {
    for (const Span<const Port>& ports : {program.inputs, program.outputs}) {
      for (const Port& port : ports) known.push_back(port.name);
    }
  }
  for (std::string_view source : plan_.sources) {
    if (source.substr(0, kValue.size()) == kValue) {
      const size_t of = source.find(kOf, kValue.size());
      const std::string_view value = source.substr(kValue.size(), of - kValue.size());
      if (of != source.npos && value == name) return NoValueOf(name, source.substr(of + kOf.size()));
      known.push_back(value);
      continue;
    }
    for (std::string_view label : LabelsOf(source)) {
      if (NodeOfLabel(label) == name) return NoValueOf(name, label);
    }
  }
  const std::string near = NearestNames(name, known);
  return "the plan has no value called " + Quoted(name) + (near.empty() ? "" : "; nearest: " + near);
}

std::string ValueNames::NoNode(std::string_view node) const {
  std::vector<std::string_view> known;
  for (std::string_view source : plan_.sources) {
    const bool value = source.substr(0, kValue.size()) == kValue;
    if (value) source.remove_prefix(std::min(source.size(), source.find(kOf, kValue.size()) + kOf.size()));
    for (std::string_view label : LabelsOf(source)) {
      if (NodeOfLabel(label) == node || label == node) {
        return "node " + Quoted(node) +
               " is in no step: it was folded into a constant, a view or other nodes, or nothing needs it";
      }
      known.push_back(NodeOfLabel(label));
    }
  }
  const std::string near = NearestNames(node, known);
  return "the plan has no node called " + Quoted(node) + (near.empty() ? "" : "; nearest: " + near);
}

}  // namespace rondo
