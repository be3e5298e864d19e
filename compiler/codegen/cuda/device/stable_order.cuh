// Where the items of a block go when they are put in order of a digit, those of equal digits in the order
// that they have: one pass of a radix sort, or, with no bits, a list without those that are not there.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_STABLE_ORDER_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_STABLE_ORDER_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// The number of item k of a thread, of blocks whose warps have 32 * `steps` items each, in order.
DEV u32 item_number(u32 k, u32 steps) { return threadIdx.x / 32 * (32 * steps) + k * 32 + threadIdx.x % 32; }

// By all threads of a block of WARPS warps; item k of a thread is there if bit k of `there` is set, and goes
// to `at[k]`. Returns the number of items. `counts`: shared, (WARPS << BITS) words; those of digit d begin at
// counts[d * WARPS] afterwards, until it is called again, before which all threads must have met. `totals`:
// shared, WARPS words.
template <int WARPS, int BITS, int EACH>
DEV u32 stable_order(const u32 (&digit)[EACH], u32 there, u32 (&at)[EACH], u32* counts, u32* totals) {
  constexpr u32 ALL = 0xffffffffu, COUNTS = WARPS << BITS;
  static_assert(BITS <= 5 && COUNTS <= 32 * WARPS && WARPS <= 32);
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, below = (1u << lane) - 1;
  u32 count = 0;  // of items of digit `lane` so far
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    u32 same = __ballot_sync(ALL, there >> k & 1), of_lane = same;
    at[k] = 0;
    if (same == 0) continue;
#pragma unroll
    for (int b = 0; b < BITS; ++b) {
      const u32 ones = __ballot_sync(ALL, digit[k] >> b & 1);
      same &= (digit[k] >> b & 1) != 0 ? ones : ~ones;
      of_lane &= (lane >> b & 1) != 0 ? ones : ~ones;
    }
    at[k] = __shfl_sync(ALL, count, BITS == 0 ? 0 : digit[k] % 32) + __popc(same & below);
    count += __popc(of_lane);
  }
  if (lane < 1u << BITS) counts[lane * WARPS + warp] = count;
  __syncthreads();
  const u32 own = threadIdx.x < COUNTS ? counts[threadIdx.x] : 0;
  u32 sum = own;
#pragma unroll
  for (u32 d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_sync(ALL, sum, lane >= d ? lane - d : lane);
    if (lane >= d) sum += other;
  }
  if (lane == 31) totals[warp] = sum;
  __syncthreads();
  u32 before = 0, all = 0;
#pragma unroll
  for (u32 w = 0; w < WARPS; ++w) {
    before += w < warp ? totals[w] : 0;
    all += totals[w];
  }
  if (threadIdx.x < COUNTS) counts[threadIdx.x] = before + sum - own;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k) at[k] += counts[(BITS == 0 ? 0 : digit[k] % (1u << BITS)) * WARPS + warp];
  return all;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_STABLE_ORDER_CUH_
