// The kernels that gpu_table times: matmuls of the sizes that models have, each by several candidates and by
// a library, and maps.
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

// Describes one kernel: a matmul with a configuration, or (elements > 0) a map.
struct BenchCase {
  MatmulSize size;
  std::string configuration;
  int64_t elements = 0;

  std::unique_ptr<BenchKernel> Kernel() const;
  // A unique name without commas: "bf16 512 768 3072 tma 128x192 1x1x1 cluster 1", "map 1048576".
  std::string Name() const;
  // The same for all cases that compute the same matmul.
  std::string Problem() const;
  // The first word of the configuration, or "map".
  std::string Family() const;
};

// The case with that Name(); none if the name is malformed.
std::optional<BenchCase> ParseBenchCase(const std::string& name);

// Some candidates for each of a fixed set of pseudo-random problems. The same target gives the same list.
std::vector<BenchCase> BenchCases(const CudaTarget& target);

// The compiler's estimate with the target's table, in cycles of the kernel alone. None if the target has no
// such candidate or no estimate for it.
Result<std::optional<double>> EstimatedCycles(const CudaTarget& target, BenchKernel& kernel);

}  // namespace rondo::bench
