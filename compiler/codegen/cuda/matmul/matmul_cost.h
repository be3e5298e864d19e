// What matmuls are estimated to take: the arithmetic over GpuTable that variants share. Internal to
// compiler/codegen/cuda.
#pragma once

#include <cstdint>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"
#include "core/plan.h"

namespace rondo::cuda {

// Blocks that the busiest multiprocessor has, with tiles of m x n and clusters that split K.
double BusiestBlocks(const PartContext& context, const MatmulProblem& problem, int64_t m, int64_t n,
                     int64_t cluster);

// One block of a kernel of tiles.
struct TileBlock {
  double busiest = 1;   // BusiestBlocks
  double steps = 1;     // of K, each copied and multiplied
  double copy = 0;      // cycles that the copies of a step take
  double multiply = 0;  // cycles that its multiplications take
  double area = 0;      // points of all accumulators
  int64_t cluster = 1;  // blocks that split K
};
// Cycles of the busiest multiprocessor: its blocks, each bound by what it copies or by what it multiplies,
// and what starting, summing up and storing cost.
double TileCycles(const GpuTable& gpu, const TileBlock& block);

// Microseconds of a generated matmul of so many cycles among the kernels of a model. Long ones take more than
// alone; short ones overlap with the kernels around them.
double AmongOthers(const GpuTable& gpu, double cycles);

// Microseconds of a matmul by cuBLASLt on so many multiprocessors. kNotEstimated where the fit does not
// reach: few rows, and GPUs of generations that were not measured.
double LibraryMicroseconds(const LibraryMatmul& matmul, const CudaTarget& target);

// Microseconds of a map over sums: its start and end, and what it reads and writes.
double MapMicroseconds(const Kernel& map, const CudaTarget& target);

}  // namespace rondo::cuda
