#include "compiler/codegen/cuda/matmul/matmul_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/codegen/cuda/kernel_configuration.h"

namespace rondo::cuda {

double BusiestBlocks(const PartContext& context, const MatmulProblem& problem, int64_t m, int64_t n,
                     int64_t cluster) {
  const double used = GpuTableOf(context.target).UsedBy(cluster);
  return std::ceil(static_cast<double>(problem.Tiles(m, n) * cluster) / (used * context.Processors()));
}

double TileCycles(const GpuTable& gpu, const TileBlock& block) {
  const double blocks = static_cast<double>(block.cluster);
  double end = block.area / gpu.tile_stored;
  if (block.cluster > 1)
    end += gpu.split_start + gpu.split_block * blocks + block.area * gpu.split_point * (blocks - 1);
  return gpu.tile_start + block.busiest * (block.steps * std::max(block.copy, block.multiply) + end);
}

double AmongOthers(const GpuTable& gpu, double cycles) {
  const double among = cycles > gpu.long_kernel ? gpu.long_among_others : gpu.short_among_others;
  return cycles * among / gpu.cycles_a_microsecond;
}

double TmaAmongOthers(const GpuTable& gpu, double cycles) {
  return std::max(gpu.short_among_others * cycles, gpu.long_among_others * cycles - gpu.tma_overlap) /
         gpu.cycles_a_microsecond;
}

double TmaCyclesAlone(const GpuTable& gpu, double microseconds) {
  const double cycles = microseconds * gpu.cycles_a_microsecond;
  return std::min(cycles / gpu.short_among_others, (cycles + gpu.tma_overlap) / gpu.long_among_others);
}

namespace {

// Whether rows of 16-bit elements begin at odd elements, and so at no address that a vector may have.
bool HasOddRows(const MatmulMatrix& matrix) {
  return ByteSize(matrix.dtype) == 2 && std::max(matrix.outer_stride, matrix.inner_stride) % 2 != 0;
}

}  // namespace

double LibraryMicroseconds(const LibraryMatmul& matmul, const CudaTarget& target) {
  constexpr double kDeep = 64;                        // extent of K that a block's cycles refer to
  constexpr int kLeast = 64, kMost = 256, kStep = 8;  // points of a block
  const GpuTable& gpu = GpuTableOf(target);
  const double m = static_cast<double>(matmul.m), n = static_cast<double>(matmul.n);
  if (m <= gpu.library_few_rows || target.architecture < 90) return kNotEstimated;
  const double type = matmul.lhs.dtype != DType::kF32 ? 1 : matmul.tf32 ? gpu.library_tf32 : gpu.library_f32;
  const bool odd_rows = HasOddRows(matmul.lhs) || HasOddRows(matmul.rhs) || HasOddRows(matmul.out);
  const double odd = odd_rows ? gpu.library_odd_rows : 1;
  const double steps = std::ceil(static_cast<double>(matmul.k) / kDeep) * type * odd;
  double best = 0;
  const auto consider = [&](double block_m, double block_n, double step_cycles) {
    const double blocks =
        static_cast<double>(matmul.batches) * std::ceil(m / block_m) * std::ceil(n / block_n);
    const double rounds = std::ceil(blocks / static_cast<double>(target.processors));
    const double cycles =
        gpu.library_start + rounds * (steps * step_cycles + block_m * block_n / gpu.library_stored);
    if (best == 0 || cycles < best) best = cycles;
  };
  for (int points = kLeast; points <= kMost; points += kStep) {
    const double wide = gpu.library_step + gpu.library_step_point * points;
    const double narrow = gpu.library_narrow_step + gpu.library_narrow_step_point * points;
    for (const auto& [fixed, cycles] : {std::pair(128, wide), std::pair(64, narrow)}) {
      consider(fixed, points, cycles);
      consider(points, fixed, cycles);
    }
  }
  return best / gpu.cycles_a_microsecond;
}

double MapMicroseconds(const Kernel& map, const CudaTarget& target) {
  const GpuTable& gpu = GpuTableOf(target);
  double bytes = 0;
  for (const Part& part : map.parts) {
    for (const Operand& operand : part.operands) {
      double touched = static_cast<double>(ByteSize(operand.dtype));
      for (size_t l = 0; l < part.loops.size(); ++l) {
        const bool moves = operand.strides[l] != 0 || !operand.indirects.empty();
        if (moves) touched *= static_cast<double>(part.loops[l]);
      }
      bytes += touched;
    }
  }
  return (gpu.map_start + bytes / gpu.map_bytes) / gpu.cycles_a_microsecond;
}

}  // namespace rondo::cuda
