// Matmuls of 1 to 16 rows of A: B, in 16 bits, is streamed once, by every warp through slots of its own.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/few_rows_epilogue.cuh"
#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// The right side takes the 16-wide side of the tensor cores, rows the 8-wide one. WIDE: its columns are
// contiguous; a warp takes 64 columns and 16 deep at a time, thread (g, t) the columns 8g to 8g + 7 at depths
// 4t to 4t + 3. Else its depth is; a warp takes 16 columns and 64 deep, thread (g, t) the columns g and g + 8
// at depths 8t to 8t + 7 and 32 more. Copies take whole lines of 128 bytes, eight threads each, and lie
// swizzled. WARPS warps of a block, and the CLUSTER blocks of a cluster, split the depth. Each block takes
// every `blocks / CLUSTER`-th tile of columns, and its copies run on from one tile into the next. EARLY: the
// right side is constant, so that its copies begin before the kernels ahead are complete.
template <int RIGHTS, int ROWS, int WARPS, int STAGES, int CLUSTER, bool WIDE, bool BF16, bool EARLY,
          typename Column, typename Depth, typename Left, typename Finish>
DEV void matmul_few_rows(u32 block, u32 blocks, int columns, int depth, const char* const* right,
                         Column column_at, Depth depth_at, Left left_at, Finish finish) {
  constexpr FewRowsLayout LAYOUT = {ROWS, RIGHTS, WARPS, WIDE, false};
  constexpr int STEP = LAYOUT.warp_step(), WARP_TILE = LAYOUT.warp_columns(), TILE = LAYOUT.columns();
  constexpr int POINTS = LAYOUT.points(), SLOT = FewRowsLayout::kSlot, STAGE = LAYOUT.stage();
  constexpr int GROUPS = (ROWS + 7) / 8, PARTS = WIDE ? 4 : 1, SLICES = WARPS * CLUSTER;
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
  const int slice_warp = warp % WARPS, column_warp = warp / WARPS;
  const u32 rank = CLUSTER > 1 ? block % CLUSTER : 0, first = block / CLUSTER, stride = blocks / CLUSTER;
  const int slice = (int)rank * WARPS + slice_warp;
  const int steps = (depth + STEP * SLICES - 1) / (STEP * SLICES), pitch = LAYOUT.a_pitch(depth);
  const u32 tiles = (u32)(columns + TILE - 1) / TILE;
  const u32 slots = shared_address(shared_memory), own = slots + warp * 2048;
  const int line = lane >> 3, piece = lane & 7;
  const u32 lefts = slots + STAGES * STAGE;
  float* partial = (float*)(shared_memory + STAGES * STAGE + LAYOUT.a_bytes(depth));

  u32 copy_tile = first;
  int copy_step = 0;
  auto copy = [&](int stage) {
    if (copy_tile < tiles) {
      const int k = (copy_step * SLICES + slice) * STEP, c = (int)copy_tile * TILE + column_warp * WARP_TILE;
      const i64 fixed = WIDE ? column_at(c + 8 * piece) : depth_at(k + 8 * piece);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int l = 4 * i + line, ki = WIDE ? k + l : k + 8 * piece, ci = WIDE ? c + 8 * piece : c + l;
        const bool present = ki < depth && ci < columns;
        const i64 a = fixed + (WIDE ? depth_at(ki) : column_at(ci));
        const u32 slot = own + (u32)(l * 128 + ((piece ^ (WIDE ? i << 1 : (l & 1) << 2)) << 4));
#pragma unroll
        for (int j = 0; j < RIGHTS; ++j)
          copy_async<16>(slot + (stage * RIGHTS + j) * SLOT, present ? right[j] + 2 * a : right[j], present);
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

  // The left side's rows, once, this block's slices of the depth only.
  const int chunks = depth / 8;
#pragma unroll 4
  for (int c = threadIdx.x; c < ROWS * chunks; c += kBlockThreads) {
    const int row = ROWS == 1 ? 0 : c / chunks, k = (ROWS == 1 ? c : c % chunks) * 8;
    if (CLUSTER == 1 || (u32)(k / (STEP * WARPS)) % CLUSTER == rank)
      store_shared_16(lefts + (u32)(row * pitch + k) * 2, left_at(row, k));
  }
  __syncthreads();

  int stage = 0;
  for (u32 tile = first; tile < tiles; tile += stride) {
    float acc[RIGHTS][PARTS][GROUPS][4];
#pragma unroll
    for (int x = 0; x < RIGHTS * PARTS * GROUPS * 4; ++x) (&acc[0][0][0][0])[x] = 0;
    for (int step = 0; step < steps; ++step) {
      const int k = (step * SLICES + slice) * STEP;
      wait_copies<STAGES - 2>();
      __syncwarp();
      uint4 w[RIGHTS][4];
#pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const int l = WIDE ? 4 * t + x : g + 8 * (x & 1),
                    p = WIDE ? g ^ (t << 1) : (4 * (x >> 1) + t) ^ ((g & 1) << 2);
          w[j][x] = shared_16(own + (stage * RIGHTS + j) * SLOT + l * 128 + (p << 4));
        }
      copy(stage == 0 ? STAGES - 1 : stage - 1);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      if (k >= depth) continue;
#pragma unroll
      for (int n = 0; n < GROUPS; ++n) {
        const bool real = 8 * n + g < ROWS;
        const u32 left = lefts + (u32)((8 * n + g) * pitch + k) * 2;
        if (WIDE) {
          const uint2 x = real && k + 4 * t < depth ? shared_8(left + 8 * t) : make_uint2(0, 0);
#pragma unroll
          for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
            for (int q = 0; q < 4; ++q)
              multiply<BF16>(acc[j][q % PARTS][n], __byte_perm(word(w[j][0], q), word(w[j][1], q), 0x5410),
                             __byte_perm(word(w[j][0], q), word(w[j][1], q), 0x7632),
                             __byte_perm(word(w[j][2], q), word(w[j][3], q), 0x5410),
                             __byte_perm(word(w[j][2], q), word(w[j][3], q), 0x7632), x.x, x.y);
        } else {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const uint4 x = real && k + 32 * h + 8 * t < depth ? shared_16(left + 64 * h + 16 * t)
                                                               : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int j = 0; j < RIGHTS; ++j) {
              const uint4 low = w[j][2 * h], high = w[j][2 * h + 1];
              multiply<BF16>(acc[j][0][n], low.x, high.x, low.y, high.y, x.x, x.y);
              multiply<BF16>(acc[j][0][n], low.z, high.z, low.w, high.w, x.z, x.w);
            }
          }
        }
      }
    }
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
      for (int q = 0; q < PARTS; ++q)
#pragma unroll
        for (int n = 0; n < GROUPS; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = 8 * n + 2 * t + (e & 1),
                      c = column_warp * WARP_TILE + (WIDE ? 8 * g + 2 * q + (e >> 1) : g + 8 * (e >> 1));
            if (row < ROWS) partial[(j * WARPS + slice_warp) * POINTS + row * TILE + c] = acc[j][q][n][e];
          }
    few_rows_epilogue<RIGHTS, ROWS, TILE, WARPS, CLUSTER>(partial, rank, (int)tile * TILE, columns, finish);
  }
  wait_copies<0>();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_CUH_
