// Reductions of rows that lie side by side: threads of a block share the elements of the same rows.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COLUMNS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COLUMNS_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// values[e] of all threads of the block (and of the cluster's blocks) with the same threadIdx.x % WIDE,
// combined, in steps, so that several values share what is waited for between them. All threads of a block of
// 256 take each; `warps`: shared, a line for each warp and one for the block's total. What is read of other
// warps and blocks is read by one warp, number `own`.
//
// First, of each warp; then __syncthreads.
template <typename Op, int WIDE, int LANES, typename T>
DEV void join_columns_of_warp(T (&values)[LANES], T (*warps)[WIDE * LANES]) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, column = threadIdx.x % WIDE;
#pragma unroll
  for (int e = 0; e < LANES; ++e) {
#pragma unroll
    for (int d = WIDE; d < 32; d <<= 1)
      values[e] = Op::of(values[e], (T)__shfl_xor_sync(0xffffffffu, values[e], d));
    if (lane < WIDE) warps[warp][column * LANES + e] = values[e];
  }
}
// Second, of the block; then __syncthreads, or cluster_barrier.
template <typename Op, int WIDE, int LANES, typename T>
DEV void join_columns_of_block(T (*warps)[WIDE * LANES], int own) {
  static_assert(WIDE * LANES <= 32, "of one warp");
  const int p = (int)threadIdx.x - own * 32;
  if (p < 0 || p >= WIDE * LANES) return;
  T total = warps[0][p];
#pragma unroll
  for (int w = 1; w < 8; ++w) total = Op::of(total, warps[w][p]);
  warps[8][p] = total;
}
// Third, in a cluster, of its blocks; then __syncthreads. None ends before all have come so far.
template <typename Op, int WIDE, int LANES, int CLUSTER, typename T>
DEV void join_columns_of_cluster(T (*warps)[WIDE * LANES], int own) {
  const int p = (int)threadIdx.x - own * 32;
  if (p < 0 || p >= WIDE * LANES) return;
  T totals[CLUSTER];
#pragma unroll
  for (int r = 0; r < CLUSTER; ++r) totals[r] = remote_value<T>(shared_address(&warps[8][p]), r);
#pragma unroll
  for (int r = 1; r < CLUSTER; ++r) totals[0] = Op::of(totals[0], totals[r]);
  warps[0][p] = totals[0];
}
// Then every thread takes the result, from the block's line or, of a cluster, the first.
template <typename Op, int WIDE, int LANES, int CLUSTER, typename T>
DEV void take_columns(const T (*warps)[WIDE * LANES], T (&result)[LANES]) {
#pragma unroll
  for (int e = 0; e < LANES; ++e) result[e] = warps[CLUSTER > 1 ? 0 : 8][threadIdx.x % WIDE * LANES + e];
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COLUMNS_CUH_
