// GPU architectures: which GPUs run which code, and which targets the compiler has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "core/span.h"

namespace rondo {

// What the name of a module's architecture says.
//   sm_80        machine code: compute capabilities 8.0 to 8.9
//   sm_90a       machine code with instructions of its own: compute capability 9.0 alone
//   compute_80   PTX, compiled on the GPU's machine: 8.0 and all later ones
struct CodeArchitecture {
  int number = 0;      // 10 * major + minor
  bool exact = false;  // the final "a"
  bool ptx = false;
};
// No value if the name has another form.
std::optional<CodeArchitecture> ParseArchitecture(std::string_view name);

// Whether a GPU of compute capability `capability` (10 * major + minor) runs this code, apart from shared
// memory.
bool RunsOn(const CodeArchitecture& code, int capability);
// Whether `a` is the better of two that run on a GPU: machine code before PTX, then the one made for newer
// GPUs.
bool IsBetter(const CodeArchitecture& a, const CodeArchitecture& b);

// The compute capabilities that exist.
struct GpuGeneration {
  int capability;     // 10 * major + minor
  uint32_t shared;    // the most bytes of shared memory for a block
  const char* gpus;   // "H100, H200"
  bool has_run_here;  // Rondo's kernels have been run and compared on such a GPU
};
Span<const GpuGeneration> GpuGenerations();

// The targets that may follow "cuda:".
struct GpuTarget {
  const char* architecture;
  uint32_t processors;        // multiprocessors of the largest such GPU, which a launch should fill
  uint32_t shared;            // bytes of shared memory that a block may use on every GPU that runs the code
  uint32_t shared_processor;  // bytes that the blocks of one multiprocessor share
  bool wgmma;                 // has wgmma
};
Span<const GpuTarget> GpuTargets();
// The best target for a GPU of this compute capability; null if none runs there.
const GpuTarget* TargetFor(int capability);
// Null if there is none of that name.
const GpuTarget* FindGpuTarget(std::string_view architecture);

// Requirements::target is a list of targets, separated by commas: "host", or "cuda:" and the name of an
// architecture, which this build may not know.
inline constexpr std::string_view kHostTarget = "host", kGpuTargets = "cuda:";
inline bool IsGpuTarget(std::string_view name) { return name.substr(0, kGpuTargets.size()) == kGpuTargets; }
// The names in the list; "" for an empty entry.
std::vector<std::string_view> TargetNames(std::string_view targets);
// The kinds of targets in a list.
struct TargetKinds {
  bool host = false, gpu = false;
};
TargetKinds KindsOfTargets(std::string_view targets);

// The most bytes of dynamic shared memory that a binary of the module needs.
uint32_t MostShared(const CodeModule& module);

// "machine code for compute capability 8.0 (A100, A30) and 8.6 (A10, A40, RTX 30); it has never run on such a
// GPU". GPUs with less shared memory for a block than a binary needs are listed as unable to run it.
std::string RunsOnText(const CodeModule& module);
// "sm_80 is machine code for compute capabilities 8.0 to 8.9", into `text` of `size` bytes.
void MadeForText(std::string_view architecture, char* text, size_t size);

}  // namespace rondo
