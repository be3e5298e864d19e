#include "formats/machine_code/architecture.h"

#include <algorithm>
#include <cstdio>

namespace rondo {
namespace {

constexpr uint32_t kKiB = 1024;

constexpr GpuGeneration kGenerations[] = {
    {80, 163 * kKiB, "A100, A30", false},
    {86, 99 * kKiB, "A10, A40, RTX 30", false},
    {87, 163 * kKiB, "Orin", false},
    {89, 99 * kKiB, "L4, L40, RTX 40", false},
    {90, 227 * kKiB, "H100, H200", true},
    {100, 227 * kKiB, "B200", false},
    {103, 227 * kKiB, "B300", false},
    {110, 227 * kKiB, "Thor", false},
    {120, 99 * kKiB, "RTX 50, RTX PRO 6000", false},
    {121, 99 * kKiB, "GB10", false},
};

// sm_80 and PTX use no more shared memory than every GPU that can run them has.
constexpr GpuTarget kTargets[] = {
    {"sm_80", 108, 99 * kKiB, 164 * kKiB, false},      {"sm_86", 84, 99 * kKiB, 100 * kKiB, false},
    {"sm_89", 142, 99 * kKiB, 100 * kKiB, false},      {"sm_90a", 132, 227 * kKiB, 228 * kKiB, true},
    {"sm_100a", 148, 227 * kKiB, 228 * kKiB, false},   {"sm_120a", 188, 99 * kKiB, 100 * kKiB, false},
    {"compute_80", 132, 99 * kKiB, 100 * kKiB, false},
};

std::string Capability(int number) { return std::to_string(number / 10) + "." + std::to_string(number % 10); }

// "a", "a and b", "a, b and c".
std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace

std::optional<CodeArchitecture> ParseArchitecture(std::string_view name) {
  constexpr std::string_view kMachine = "sm_", kVirtual = "compute_";
  CodeArchitecture out;
  out.ptx = name.substr(0, kVirtual.size()) == kVirtual;
  if (!out.ptx && name.substr(0, kMachine.size()) != kMachine) return std::nullopt;
  name.remove_prefix(out.ptx ? kVirtual.size() : kMachine.size());
  out.exact = !name.empty() && name.back() == 'a';
  if (out.exact) name.remove_suffix(1);
  if (name.size() < 2 || name.size() > 3) return std::nullopt;
  for (char c : name) {
    if (c < '0' || c > '9') return std::nullopt;
    out.number = out.number * 10 + (c - '0');
  }
  return out;
}

bool RunsOn(const CodeArchitecture& code, int capability) {
  if (code.exact) return capability == code.number;
  if (code.ptx) return capability >= code.number;
  return capability / 10 == code.number / 10 && capability >= code.number;
}

bool IsBetter(const CodeArchitecture& a, const CodeArchitecture& b) {
  if (a.ptx != b.ptx) return b.ptx;
  if (a.exact != b.exact) return a.exact;
  return a.number > b.number;
}

Span<const GpuGeneration> GpuGenerations() { return kGenerations; }
Span<const GpuTarget> GpuTargets() { return kTargets; }

const GpuTarget* FindGpuTarget(std::string_view architecture) {
  for (const GpuTarget& target : kTargets) {
    if (architecture == target.architecture) return &target;
  }
  return nullptr;
}

const GpuTarget* TargetFor(int capability) {
  const GpuTarget* best = nullptr;
  for (const GpuTarget& target : kTargets) {
    const CodeArchitecture code = *ParseArchitecture(target.architecture);
    if (!RunsOn(code, capability)) continue;
    if (best == nullptr || IsBetter(code, *ParseArchitecture(best->architecture))) best = &target;
  }
  return best;
}

std::vector<std::string_view> TargetNames(std::string_view targets) {
  std::vector<std::string_view> names;
  for (size_t at = 0; at <= targets.size();) {
    const size_t comma = std::min(targets.find(',', at), targets.size());
    names.push_back(targets.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

TargetKinds KindsOfTargets(std::string_view targets) {
  TargetKinds kinds;
  for (const std::string_view name : TargetNames(targets)) {
    kinds.host |= name == kHostTarget;
    kinds.gpu |= IsGpuTarget(name);
  }
  return kinds;
}

uint32_t MostShared(const CodeModule& module) {
  uint32_t most = 0;
  for (const KernelBinary& binary : module.binaries) most = std::max(most, binary.shared);
  return most;
}

std::string RunsOnText(const CodeModule& module) {
  const std::optional<CodeArchitecture> code = ParseArchitecture(module.architecture);
  if (!code) return "of an architecture that this build does not know";
  const uint32_t shared = MostShared(module);
  std::vector<std::string> runs, lacks, never, has_run;
  for (const GpuGeneration& generation : kGenerations) {
    if (!RunsOn(*code, generation.capability)) continue;
    if (generation.has_run_here) has_run.push_back(Capability(generation.capability));
    const std::string name = Capability(generation.capability) + " (" + generation.gpus + ")";
    (shared <= generation.shared ? runs : lacks).push_back(name);
    if (shared <= generation.shared && !generation.has_run_here)
      never.push_back(Capability(generation.capability));
  }
  if (code->ptx) {
    return "PTX for compute capability " + Capability(code->number) +
           " and all later; it has run on compute capability " + Joined(has_run) + " only";
  }
  std::string text = "machine code";
  text += runs.empty() ? " for no GPU known" : " for compute capability " + Joined(runs);
  if (code->exact) text += " only";
  if (!lacks.empty()) {
    text += "; not for " + Joined(lacks) + ", whose blocks have less than the " + std::to_string(shared) +
            " bytes of shared memory that a kernel takes";
  }
  if (!never.empty()) text += "; it has never run on such GPUs";
  return text;
}

void MadeForText(std::string_view architecture, char* text, size_t size) {
  const int length = static_cast<int>(std::min<size_t>(architecture.size(), 64));
  const char* const name = architecture.data();
  const std::optional<CodeArchitecture> code = ParseArchitecture(architecture);
  if (!code) {
    std::snprintf(text, size, "%.*s is no architecture that this build knows", length, name);
    return;
  }
  const int major = code->number / 10, minor = code->number % 10;
  if (!code->exact && !code->ptx) {
    std::snprintf(text, size, "%.*s is machine code for compute capabilities %d.%d to %d.9", length, name,
                  major, minor, major);
    return;
  }
  std::snprintf(text, size, "%.*s is %s for compute capability %d.%d %s", length, name,
                code->exact ? "machine code" : "PTX", major, minor, code->exact ? "only" : "and later");
}

}  // namespace rondo
