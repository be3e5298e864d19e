// Matmuls of few rows of A in f32, by FMA: B is streamed once, and a thread multiplies what it copied itself.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_F32_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_F32_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/few_rows_epilogue.cuh"
#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// As matmul_few_rows. WIDE: a warp takes 32 columns and
// 16 deep, a thread four neighbouring columns at four depths. Else 16 columns and 32 deep, a thread four
// columns at four neighbouring depths.
template <int RIGHTS, int ROWS, int WARPS, int STAGES, int CLUSTER, bool WIDE, bool EARLY, typename Column,
          typename Depth, typename Left, typename Finish>
DEV void matmul_few_rows_f32(u32 block, u32 blocks, int columns, int depth, const char* const* right,
                             Column column_at, Depth depth_at, Left left_at, Finish finish) {
  constexpr FewRowsLayout LAYOUT = {ROWS, RIGHTS, WARPS, WIDE, true};
  constexpr int STEP = LAYOUT.warp_step(), WARP_TILE = LAYOUT.warp_columns(), TILE = LAYOUT.columns();
  constexpr int POINTS = LAYOUT.points(), SLOT = FewRowsLayout::kSlot, STAGE = LAYOUT.stage(),
                SLICES = WARPS * CLUSTER;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, line = lane >> 3, piece = lane & 7;
  const int slice_warp = warp % WARPS, column_warp = warp / WARPS;
  const u32 rank = CLUSTER > 1 ? block % CLUSTER : 0, first = block / CLUSTER, stride = blocks / CLUSTER;
  const int slice = (int)rank * WARPS + slice_warp;
  const int steps = (depth + STEP * SLICES - 1) / (STEP * SLICES), pitch = LAYOUT.a_pitch(depth);
  const u32 tiles = (u32)(columns + TILE - 1) / TILE, own = shared_address(shared_memory) + threadIdx.x * 16;
  float* lefts = (float*)(shared_memory + STAGES * STAGE);
  float* partial = lefts + ROWS * pitch;
  u32 copy_tile = first;
  int copy_step = 0;
  auto copy = [&](int stage) {
    if (copy_tile < tiles) {
      const int k = (copy_step * SLICES + slice) * STEP, c = (int)copy_tile * TILE + column_warp * WARP_TILE;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int l = 4 * i + line, ki = WIDE ? k + l : k + 4 * piece, ci = WIDE ? c + 4 * piece : c + l;
        const bool present = ki < depth && ci < columns;
        const i64 a = column_at(ci) + depth_at(ki);
#pragma unroll
        for (int j = 0; j < RIGHTS; ++j)
          copy_async<16>(own + ((stage * RIGHTS + j) * 4 + i) * (SLOT / 4),
                         present ? right[j] + 4 * a : right[j], present);
      }
      if (++copy_step == steps) {
        copy_step = 0;
        copy_tile += stride;
      }
    }
    commit_copies();
  };
  if (!EARLY) wait_for_earlier();
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy(s);
  if (EARLY) wait_for_earlier();
#pragma unroll 8
  for (int c = threadIdx.x; c < ROWS * pitch; c += kBlockThreads)
    lefts[c] = c % pitch < depth ? left_at(c / pitch, c % pitch) : 0.0f;
  __syncthreads();

  int stage = 0;
  for (u32 tile = first; tile < tiles; tile += stride) {
    float acc[RIGHTS][ROWS][4];
#pragma unroll
    for (int x = 0; x < RIGHTS * ROWS * 4; ++x) (&acc[0][0][0])[x] = 0;
    for (int step = 0; step < steps; ++step) {
      const int k = (step * SLICES + slice) * STEP;
      wait_copies<STAGES - 2>();
      float w[RIGHTS][4][4];
#pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint4 v = shared_16(own + ((stage * RIGHTS + j) * 4 + i) * (SLOT / 4));
#pragma unroll
          for (int e = 0; e < 4; ++e) w[j][i][e] = bits_float(word(v, e));
        }
      copy(stage == 0 ? STAGES - 1 : stage - 1);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      if (k >= depth) continue;
#pragma unroll
      for (int row = 0; row < ROWS; ++row)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          // WIDE: i counts depths and the columns are neighbours; else i counts columns and the depths are.
          const int at = row * pitch + k + (WIDE ? 4 * i + line : 4 * piece + i);
          const float x = k + (WIDE ? 4 * i + line : 4 * piece + i) < depth ? lefts[at] : 0.0f;
#pragma unroll
          for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              acc[j][row][e] = __fmaf_rn(x, WIDE ? w[j][i][e] : w[j][e][i], acc[j][row][e]);
        }
    }
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
      for (int row = 0; row < ROWS; ++row)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float sum = acc[j][row][e];
#pragma unroll
          for (int d = WIDE ? 8 : 1; d < (WIDE ? 32 : 8); d <<= 1)
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
          const int c = column_warp * WARP_TILE + (WIDE ? 4 * piece + e : 4 * e + line);
          if ((WIDE ? line : piece) == 0) partial[(j * WARPS + slice_warp) * POINTS + row * TILE + c] = sum;
        }
    few_rows_epilogue<RIGHTS, ROWS, TILE, WARPS, CLUSTER>(partial, rank, (int)tile * TILE, columns, finish);
  }
  wait_copies<0>();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_F32_CUH_
