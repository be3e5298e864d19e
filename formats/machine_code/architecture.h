// Names of GPU architectures: which code runs where, and what the compiler can be asked for.
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
// None if the name is of no such form.
std::optional<CodeArchitecture> ParseArchitecture(std::string_view name);

// Whether a GPU of compute capability `capability` (10 * major + minor) runs such code, shared memory aside.
bool RunsOn(const CodeArchitecture& code, int capability);
// Of two that run on one GPU, whether `a` is the better: machine code before PTX, then made for more of it.
bool IsBetter(const CodeArchitecture& a, const CodeArchitecture& b);

// Compute capabilities that there are.
struct GpuGeneration {
  int capability;     // 10 * major + minor
  uint32_t shared;    // bytes of shared memory that a block can have
  const char* gpus;   // "H100, H200"
  bool has_run_here;  // Rondo's kernels have been run, and compared, on such a GPU
};
Span<const GpuGeneration> GpuGenerations();

// What can follow "cuda:" in a target.
struct GpuTarget {
  const char* architecture;
  uint32_t processors;        // multiprocessors of the largest GPU: what a launch should fill
  uint32_t shared;            // bytes of shared memory that a block may take, on every GPU that runs the code
  uint32_t shared_processor;  // bytes that the blocks of a multiprocessor share
  bool wgmma;                 // has wgmma
};
Span<const GpuTarget> GpuTargets();
// The best for a GPU of that compute capability; null if none runs there.
const GpuTarget* TargetFor(int capability);
// Null if there is none of that name.
const GpuTarget* FindGpuTarget(std::string_view architecture);

// A plan's targets (Requirements::target) are a list with commas: "host", or "cuda:" and the name of an
// architecture, which may be one that this build does not know.
inline constexpr std::string_view kHostTarget = "host", kGpuTargets = "cuda:";
inline bool IsGpuTarget(std::string_view name) { return name.substr(0, kGpuTargets.size()) == kGpuTargets; }
// The names of the list; "" where there is nothing between commas.
std::vector<std::string_view> TargetNames(std::string_view targets);
// Of what kinds they are.
struct TargetKinds {
  bool host = false, gpu = false;
};
TargetKinds KindsOfTargets(std::string_view targets);

// Most bytes of dynamic shared memory that a binary of the module takes.
uint32_t MostShared(const CodeModule& module);

// "machine code for compute capability 8.0 (A100, A30) and 8.6 (A10, A40, RTX 30); it has never run on such a
// GPU". GPUs whose blocks have less shared memory than a binary takes are named as those that it does not run
// on.
std::string RunsOnText(const CodeModule& module);
// "sm_80 is machine code for compute capabilities 8.0 to 8.9", into `text` of `size` bytes.
void MadeForText(std::string_view architecture, char* text, size_t size);

}  // namespace rondo
