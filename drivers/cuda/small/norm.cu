// The kernel of all-reduces that go on with a residual and a norm, named RONDO_NORM, of the type RONDO_ELEMENT.
// norm_f32.ptx and the others are what NVRTC makes of it, as kernels.cu says.
#include "drivers/cuda/small/gpu.h"
#include "drivers/cuda/small/norm.h"

namespace rondo::small {

// A thread with those of its block.
template <class Type>
struct Team {
  using Thread = NormThread<Gpu, Type>;
  Thread& thread;

  template <class F>
  __device__ __forceinline__ void Each(F f) {
    f(thread);
  }
  __device__ __forceinline__ void Sum() {
    __shared__ float sums[kRowBlock];
    __syncthreads();
    if (thread.IsOfShortRow()) {
      sums[threadIdx.x] = thread.sum();
      __syncthreads();
      thread.SetSum(OfWarp(thread.SumOfWarps(sums)));
      return;
    }
    const float of_warp = OfWarp(thread.sum());
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = of_warp;
    __syncthreads();
    float sum = sums[0];
    RONDO_UNROLL
    for (u32 w = 1; w < kRowBlock / 32; ++w) sum = sum + sums[w];
    thread.SetSum(sum);
  }
  static __device__ __forceinline__ float OfWarp(float sum) {
    RONDO_UNROLL
    for (int d = 16; d > 0; d >>= 1) sum = sum + __shfl_xor_sync(0xffffffffu, sum, d);
    return sum;
  }
};

__device__ __forceinline__ void ReadAhead(const Norm& norm) {
  const u64 threads = u64{gridDim.x - norm.blocks} * kRowBlock;
  const u64 first = u64{blockIdx.x - norm.blocks} * kRowBlock + threadIdx.x;
  for (const Ahead& ahead : norm.ahead) {
    for (u64 at = first * kAheadPiece; at < ahead.bytes; at += threads * kAheadPiece) {
      const u32 bytes = static_cast<u32>(LeastOf(ahead.bytes - at, kAheadPiece));
      asm volatile("//+90 cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(ahead.from + at), "r"(bytes) : "memory");
    }
  }
}

template <class Type>
__device__ __forceinline__ void RunNorm(const Group& group, const Call& call, const Norm& norm) {
  if (blockIdx.x >= norm.blocks) return ReadAhead(norm);
  const bool constant = (norm.flags & kConstantRows) != 0;
  Gpu gpu{group, call};
  NormThread<Gpu, Type> thread(gpu, group, call, norm, blockIdx.x, norm.blocks, threadIdx.x);
  if (constant) thread.ReadRows();
  WaitForKernelsBefore();
  const bool dead = Gpu::Now(&group.state->dead) != 0;
  thread.Begin(NextEpoch(group.state, norm.blocks));
  if (dead) return;
  thread.Send();
  if (!constant) thread.ReadRows();
  thread.Reduce();
  LaunchDependents();
  Team<Type> team{thread};
  NormRows(team, norm);
}

}  // namespace rondo::small

using namespace rondo::small;

extern "C" __global__ void __launch_bounds__(256)
    RONDO_NORM(const __grid_constant__ Group group, const __grid_constant__ Call call,
                     const __grid_constant__ Norm norm) {
  RunNorm<RONDO_ELEMENT>(group, call, norm);
}
