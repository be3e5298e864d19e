// PartContext: one part of a kernel and its GPU; KernelVariant: one way to generate its text. Internal to
// compiler/codegen/cuda.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo::cuda {

class PartWriter;

// Everything that determines a part's text. Its references must outlive it; plain data, never changed.
struct PartContext {
  const Part& part;
  const CudaTarget& target;
  Span<const ParamFacts> params;             // one a parameter of the kernel
  double share = 1;                          // fraction of the GPU that this part may fill
  uint32_t cluster = 0;                      // blocks of a cluster; 0: the part chooses
  BlockNeeds others = {};                    // of the kernel's parts that have been planned already
  std::optional<MatmulProblem> matmul = {};  // the part as a matmul, if it is one

  // Multiprocessors that the part may fill.
  double Processors() const { return std::max(1.0, share * static_cast<double>(target.processors)); }
  // Whether this few blocks leave room for a kernel that begins before this one ends: most multiprocessors
  // must be free or, if that kernel fetches packed weights meanwhile, have room for more than two small
  // blocks.
  bool LeavesRoom(int64_t blocks) const {
    const auto processors = static_cast<int64_t>(target.processors);
    return target.begins_early ? blocks <= 2 * processors : 2 * blocks <= processors;
  }
  // Points of the loops [first, last).
  int64_t Points(size_t first, size_t last) const {
    int64_t n = 1;
    for (size_t l = first; l < last; ++l) n *= part.loops[l];
    return n;
  }
};

// The registers of each of so many threads on a multiprocessor: allocated to four warps at a time, in eights.
constexpr int64_t RegistersOfThread(int64_t threads) {
  constexpr int64_t kRegisters = 65536, kMost = 255;
  return std::min(kMost, kRegisters / ((threads + 127) / 128 * 128) / 8 * 8);
}

// How a part's blocks are launched.
struct PartLaunch {
  uint32_t blocks = 1;
  uint32_t block = kCudaBlock;         // threads a block
  uint32_t shared = 0;                 // bytes of dynamic shared memory a block
  uint32_t cluster = 1;                // blocks of a cluster
  uint32_t resident = 1;               // blocks that should be resident on a multiprocessor at once
  std::vector<TensorMap> tensor_maps;  // m0 and so on in the text
};

// `launch` with this many blocks. Errors: kUnsupported beyond 2147483647.
Result<PartLaunch> WithBlocks(PartLaunch launch, int64_t blocks);
inline Result<PartLaunch> WithBlocks(int64_t blocks) { return WithBlocks(PartLaunch(), blocks); }

// Loops along which neighbouring threads should write neighbouring elements: the first `loops` of the part,
// sorted so that the one along which its first result moves least comes last.
std::vector<size_t> ByStrideOfResult(const Part& part, size_t loops);

// A template of device code with its configurations, for parts of one skeleton.
struct KernelVariant {
  VariantId variant;  // kAny: a single configuration without a name
  // Device headers that its text builds on (device_headers.h).
  Span<const std::string_view> headers;
  // The configurations that can compute the part, with estimates; the first of equals is preferred. Respects
  // a cluster that the context fixes.
  std::vector<KernelCandidate> (*candidates)(const PartContext& context);
  // Appends the body of the part's function (the block's number is `block`); `configuration` is one of the
  // candidates. Errors: kUnsupported.
  Result<PartLaunch> (*write)(const PartContext& context, const KernelConfiguration& configuration,
                              PartWriter* writer);
  // As TilesOf (kernel_candidates.h); null: the template has no tiles.
  std::vector<KernelConfiguration> (*tiles)(const CudaTarget& target) = nullptr;
};

inline bool SuitsAll(const PartContext&) { return true; }

// The candidates of a template with a single configuration, which was never estimated; none where it does not
// suit.
template <VariantId VARIANT, bool (*SUITS)(const PartContext&) = SuitsAll>
std::vector<KernelCandidate> OneCandidate(const PartContext& context) {
  KernelConfiguration configuration;
  configuration.variant = VARIANT;
  if (!SUITS(context)) return {};
  return {{configuration, kNotEstimated}};
}

}  // namespace rondo::cuda
