// Estimates the time of matmuls: arithmetic over GpuTable, shared by the variants. Internal to
// compiler/codegen/cuda.
#pragma once

#include <cstdint>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"
#include "core/plan.h"

namespace rondo::cuda {

// Blocks on the busiest multiprocessor, with tiles of m x n and clusters that split K.
double BusiestBlocks(const PartContext& context, const MatmulProblem& problem, int64_t m, int64_t n,
                     int64_t cluster);

// One block of a tiled kernel.
struct TileBlock {
  double busiest = 1;   // BusiestBlocks
  double steps = 1;     // of K, each copied and multiplied
  double copy = 0;      // cycles of the copies of a step
  double multiply = 0;  // cycles of its multiplications
  double area = 0;      // points of all accumulators
  int64_t cluster = 1;  // blocks that split K
};
// Cycles of the busiest multiprocessor: its blocks, each limited by copies or by multiplications, plus the
// cost of starting, summing up and storing.
double TileCycles(const GpuTable& gpu, const TileBlock& block);

// Microseconds of a generated matmul of `cycles` among the kernels of a model. Long ones take more time than
// alone; short ones overlap with the kernels around them.
double AmongOthers(const GpuTable& gpu, double cycles);
// The same of tiles by TMA; CyclesAlone is its inverse.
double TmaAmongOthers(const GpuTable& gpu, double cycles);
double TmaCyclesAlone(const GpuTable& gpu, double microseconds);

// Microseconds of a cuBLASLt matmul on the target's multiprocessors. kNotEstimated outside the range of the
// fit: few rows, or GPU generations that were not measured.
double LibraryMicroseconds(const LibraryMatmul& matmul, const CudaTarget& target);

// Microseconds of a map over sums: its start and end, and its memory traffic.
double MapMicroseconds(const Kernel& map, const CudaTarget& target);

}  // namespace rondo::cuda
