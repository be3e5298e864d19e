// Matmuls of f32 by tiles whose factors are rounded to tf32, on tensor cores.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TF32_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TF32_CUH_

#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/float_side.cuh"
#include "compiler/codegen/cuda/device/tile_sums.cuh"

DEV u32 tf32(float x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
// d += a (16 x 8) * b (8 x 8)
DEV void multiply_tf32(float* d, const u32* a, u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// M x N tiles, 32 deep at a time in STAGES stages; the warps of a block are WARPS_M x WARPS_N; the CLUSTER
// blocks of a cluster split the depth. EARLY: the right side is constant, so that its copies begin before the
// kernels ahead are complete.
template <int M, int N, int WARPS_M, int WARPS_N, int STAGES, int RIGHTS, int CLUSTER, bool LEFT_ALONG,
          int LEFT_VECTOR, bool RIGHT_ALONG, int RIGHT_VECTOR, int VECTOR, bool EARLY, typename Row,
          typename LeftDepth, typename Present, typename LeftValue, typename Column, typename RightDepth,
          typename RightValue, typename Finish>
DEV void tf32_product(u32 row_tile, u32 column_tile, u32 rank, int rows, int columns, int depth,
                      const char* left, const char* const* right, Row row_at, LeftDepth left_depth_at,
                      Present left_present, LeftValue left_value, Column column_at, RightDepth right_depth_at,
                      RightValue right_value, Finish finish) {
  constexpr int DEEP = 32, WM = M / WARPS_M, WN = N / WARPS_N, TM = WM / 16, TN = WN / 8;
  using Left = FloatSide<M, DEEP, LEFT_ALONG, LEFT_VECTOR>;
  using Right = FloatSide<N, DEEP, RIGHT_ALONG, RIGHT_VECTOR>;
  constexpr int STAGE = Left::BYTES + RIGHTS * Right::BYTES;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int wm = warp % WARPS_M, wn = warp / WARPS_M, row = (int)row_tile * M, column = (int)column_tile * N;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + CLUSTER - 1) / CLUSTER;
  const int begin = (int)rank * each, end = begin + each < all ? begin + each : all;
  const u32 memory = shared_address(shared_memory);
  float acc[RIGHTS][TM][TN][4];
#pragma unroll
  for (int x = 0; x < RIGHTS * TM * TN * 4; ++x) (&acc[0][0][0][0])[x] = 0;
  auto copy_left = [&](int step, int stage) {
    if (step < end)
      Left::copy(memory + stage * STAGE, left, row, rows, step * DEEP, depth, row_at, left_depth_at,
                 left_present, left_value);
  };
  auto copy_right = [&](int step, int stage) {
    if (step >= end) return;
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
      Right::copy(
          memory + stage * STAGE + Left::BYTES + j * Right::BYTES, right[j], column, columns, step * DEEP,
          depth, column_at, right_depth_at, [](At) { return true; },
          [&](int c, int k) { return right_value(j, c, k); });
  };
  if (EARLY) {
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) copy_right(begin + s, s);
  }
  wait_for_earlier();
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    copy_left(begin + s, s);
    if (!EARLY) copy_right(begin + s, s);
    commit_copies();
  }
  int stage = 0;
  for (int step = begin; step < end; ++step) {
    wait_copies<STAGES - 2>();
    __syncthreads();
    const int ahead = step + STAGES - 1, free = stage == 0 ? STAGES - 1 : stage - 1;
    copy_left(ahead, free);
    copy_right(ahead, free);
    commit_copies();
    const float* lefts = (const float*)(shared_memory + stage * STAGE);
    auto left_element = [&](int r, int k) {
      return tf32(lefts[LEFT_ALONG ? r * Left::PITCH + k : k * Left::PITCH + r]);
    };
#pragma unroll
    for (int k = 0; k < DEEP; k += 8) {
      u32 a[TM][4];
#pragma unroll
      for (int m = 0; m < TM; ++m) {
        const int r = wm * WM + m * 16 + g;
        a[m][0] = left_element(r, k + t);
        a[m][1] = left_element(r + 8, k + t);
        a[m][2] = left_element(r, k + t + 4);
        a[m][3] = left_element(r + 8, k + t + 4);
      }
#pragma unroll
      for (int j = 0; j < RIGHTS; ++j) {
        const float* rights = lefts + (Left::BYTES + j * Right::BYTES) / 4;
        auto right_element = [&](int c, int x) {
          return tf32(rights[RIGHT_ALONG ? c * Right::PITCH + x : x * Right::PITCH + c]);
        };
#pragma unroll
        for (int n = 0; n < TN; ++n) {
          const int c = wn * WN + n * 8 + g;
          const u32 b0 = right_element(c, k + t), b1 = right_element(c, k + t + 4);
#pragma unroll
          for (int m = 0; m < TM; ++m) multiply_tf32(acc[j][m][n], a[m], b0, b1);
        }
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  wait_copies<0>();
  __syncthreads();
  float* sums = (float*)shared_memory;
#pragma unroll
  for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
    for (int m = 0; m < TM; ++m)
#pragma unroll
      for (int n = 0; n < TN; ++n)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          *(float2*)(sums + (j * M + wm * WM + m * 16 + g + 8 * h) * (N + 4) + wn * WN + n * 8 + 2 * t) =
              make_float2(acc[j][m][n][2 * h], acc[j][m][n][2 * h + 1]);
  __syncthreads();
  finish_tile<M, N, RIGHTS, CLUSTER, VECTOR>(sums, rank, row, column, rows, columns, finish);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TF32_CUH_
