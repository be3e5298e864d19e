// The kernel of all-reduces that go on with a residual and a norm, named RONDO_NORM, of the type RONDO_ELEMENT, of
// up to RONDO_RANKS ranks. norm_f32_2.ptx and the others are what NVRTC makes of it, as kernels.cu says.
#include "drivers/cuda/peer_collectives/gpu.h"
#include "drivers/cuda/peer_collectives/norm.h"

namespace rondo::small {

// A thread with those of its block.
struct Team {
  using Thread = NormThread<Gpu, RONDO_ELEMENT, RONDO_RANKS>;
  Thread& thread;
  float sum = 0;

  template <class F>
  __device__ __forceinline__ void Each(F f) {
    f(thread, sum);
  }
  __device__ __forceinline__ void SumOfRows(bool squares) {
    __shared__ float halves[kRowBlock], sums[kRowBlock];
    const bool second = threadIdx.x >= kRowBlock;
    const u32 t = threadIdx.x % kRowBlock;
    if (!second) halves[t] = thread.AddUp(0, squares);
    __syncthreads();
    if (second) {
      const float of_vectors = thread.TellAndGather(thread.AddUp(halves[t], squares), squares);
      if (thread.IsOfShortRow()) {
        sums[t] = of_vectors;
      } else {
        const float of_warp = OfWarp(of_vectors);
        if (t % 32 == 0) sums[t / 32] = of_warp;
      }
    }
    __syncthreads();
    if (thread.IsOfShortRow()) {
      sum = OfWarp(thread.SumOfWarps(sums));
      return;
    }
    sum = sums[0];
    RONDO_UNROLL
    for (u32 w = 1; w < kRowBlock / 32; ++w) sum = sum + sums[w];
  }
  static __device__ __forceinline__ float OfWarp(float sum) {
    RONDO_UNROLL
    for (int d = 16; d > 0; d >>= 1) sum = sum + __shfl_xor_sync(0xffffffffu, sum, d);
    return sum;
  }
};

}  // namespace rondo::small

using namespace rondo::small;

extern "C" __global__ void __launch_bounds__(512)
    RONDO_NORM(const __grid_constant__ Group group, const __grid_constant__ Call call,
               const __grid_constant__ Norm norm) {
  const bool constant = (norm.flags & kConstantRows) != 0;
  Gpu gpu{group, call};
  Team::Thread thread(gpu, group, call, norm, blockIdx.x, gridDim.x, threadIdx.x);
  if (constant) thread.ReadRows();
  WaitForKernelsBefore();
  const bool dead = Gpu::Now(&group.state->dead) != 0;
  thread.Read();
  const u32 epoch = NextEpoch(group, call);
  if (dead) return;
  thread.Send(epoch);
  if (!constant) thread.ReadRows();
  thread.Reduce();
  LaunchDependents();
  Team team{thread};
  NormRows(team, norm);
}
