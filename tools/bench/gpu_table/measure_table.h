// MeasureTable: entries of GpuTable from the times of kernels that depend on little else.
#ifndef RONDO_TOOLS_BENCH_GPU_TABLE_MEASURE_TABLE_H_
#define RONDO_TOOLS_BENCH_GPU_TABLE_MEASURE_TABLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "core/status.h"
#include "tools/bench/gpu_table/bench_kernels.h"

namespace rondo::bench {

// Cycles that a launch of the kernel takes, among launches of it. None if the GPU has no such configuration.
using KernelCycles = std::function<Result<std::optional<double>>(BenchKernel& kernel)>;

struct TableRow {
  std::string entry;               // a field of GpuTable
  std::string unit;                // of the values
  double table = 0;                // what the table says
  std::optional<double> measured;  // none: this GPU has no such kernels
};

// Of all entries that a difference of such times shows. What is fitted to whole kernels alone (mma_full,
// memory_processors, library_*, window_*, ... among others) has no row. Errors: those of `cycles`.
Result<std::vector<TableRow>> MeasureTable(const CudaTarget& target, const KernelCycles& cycles);

// What the compiler estimates for such a kernel, in cycles of it alone: with it, MeasureTable gives the table
// back.
Result<std::optional<double>> EstimatedCycles(const CudaTarget& target, BenchKernel& kernel);

}  // namespace rondo::bench

#endif  // RONDO_TOOLS_BENCH_GPU_TABLE_MEASURE_TABLE_H_
