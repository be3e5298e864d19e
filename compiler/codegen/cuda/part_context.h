// PartContext: one part of a kernel and the GPU that it is for; KernelVariant: one way to write its text.
// Internal to compiler/codegen/cuda.
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

// All that decides what a part's text is. What it refers to must outlive it; plain data, never changed.
struct PartContext {
  const Part& part;
  const CudaTarget& target;
  Span<const ParamFacts> params;             // one a parameter of the kernel
  double share = 1;                          // of the GPU that this part may fill
  uint32_t cluster = 0;                      // blocks of a cluster; 0: the part chooses
  std::optional<MatmulProblem> matmul = {};  // the part as a matmul, if it is one

  // Multiprocessors that the part may fill.
  double Processors() const { return std::max(1.0, share * static_cast<double>(target.processors)); }
  // Whether so few blocks leave room to a kernel that begins before this one ends: most multiprocessors, or
  // what two small blocks leave of each where that kernel fetches weights of few bits meanwhile.
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

// How a part's blocks are launched.
struct PartLaunch {
  uint32_t blocks = 1;
  uint32_t block = kCudaBlock;         // threads a block
  uint32_t shared = 0;                 // bytes of dynamic shared memory a block
  uint32_t cluster = 1;                // blocks of a cluster
  uint32_t resident = 1;               // blocks that a multiprocessor should hold at once
  std::vector<TensorMap> tensor_maps;  // m0 and so on in the text
};

// `launch` with so many blocks. Errors: kUnsupported beyond 2147483647.
Result<PartLaunch> WithBlocks(PartLaunch launch, int64_t blocks);
inline Result<PartLaunch> WithBlocks(int64_t blocks) { return WithBlocks(PartLaunch(), blocks); }

// Loops over which writes of neighbouring threads should be neighbours: the first `loops` of the part, those
// along which its first result moves least last.
std::vector<size_t> ByStrideOfResult(const Part& part, size_t loops);

// How parts of one skeleton are computed: a template of device code with its configurations.
struct KernelVariant {
  VariantId variant;  // kAny: it has one configuration without a name
  // Device headers that its text builds on (device_headers.h).
  Span<const std::string_view> headers;
  // The configurations that compute the part, with estimates; of equal ones, the first is preferred. A
  // cluster that the context settles is kept to.
  std::vector<KernelCandidate> (*candidates)(const PartContext& context);
  // Appends the body of the part's function (the block's number is `block`); `configuration` is one of the
  // candidates. Errors: kUnsupported.
  Result<PartLaunch> (*write)(const PartContext& context, const KernelConfiguration& configuration,
                              PartWriter* writer);
  // As TilesOf (kernel_candidates.h) has it; null: the template is not made of tiles.
  std::vector<KernelConfiguration> (*tiles)(const CudaTarget& target) = nullptr;
};

inline bool SuitsAll(const PartContext&) { return true; }

// The candidates of a template with one configuration that was never estimated; none where it does not suit.
template <VariantId VARIANT, bool (*SUITS)(const PartContext&) = SuitsAll>
std::vector<KernelCandidate> OneCandidate(const PartContext& context) {
  KernelConfiguration configuration;
  configuration.variant = VARIANT;
  if (!SUITS(context)) return {};
  return {{configuration, kNotEstimated}};
}

}  // namespace rondo::cuda
