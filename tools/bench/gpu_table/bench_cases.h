// The kernels that gpu_table times: matmuls as models have them, each computed by several of its candidates,
// matmuls of a library and maps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "core/status.h"
#include "tools/bench/gpu_table/bench_kernels.h"

namespace rondo::bench {

// A kernel by what makes it: a matmul by one configuration, or (elements > 0) a map.
struct BenchCase {
  MatmulSize size;
  std::string configuration;
  int64_t elements = 0;

  std::unique_ptr<BenchKernel> Kernel() const;
  // "bf16 512 768 3072 tma 128x192 1x1x1 cluster 1", "map 1048576": unique, without commas.
  std::string Name() const;
  // What it competes with: the other cases of its problem have the same.
  std::string Problem() const;
  // First word of the configuration; "map".
  std::string Family() const;
};

// The case of that name; none if there is no such name.
std::optional<BenchCase> ParseBenchCase(const std::string& name);

// The same list for the same target: for each of a set of random problems, some of its candidates.
std::vector<BenchCase> BenchCases(const CudaTarget& target);

// What the compiler estimates with the target's table, in cycles of the kernel alone. None: the target has no
// such candidate, or nothing is estimated for it.
Result<std::optional<double>> EstimatedCycles(const CudaTarget& target, BenchKernel& kernel);

}  // namespace rondo::bench
