// The kernels of small collectives, for GPUs from sm_80 on. kernels.ptx is what NVRTC makes of it
// (tests/cuda/small_kernels_test.cc compares, and writes it again when asked): the driver carries that.
#include "drivers/cuda/peer_collectives/gpu.h"

namespace rondo::small {

template <class Body>
__device__ __forceinline__ void Run(const Group& group, const Call& call, Body body) {
  WaitForKernelsBefore();
  const bool dead = Gpu::Now(&group.state->dead) != 0;
  const u32 epoch = NextEpoch(group, call);
  if (dead) return;
  Gpu gpu{group, call};
  Exchange<Gpu> exchange(gpu, group, call, epoch, u64{blockIdx.x} * blockDim.x + threadIdx.x,
                         u64{gridDim.x} * blockDim.x);
  body(exchange);
}

}  // namespace rondo::small

using namespace rondo::small;

#define SMALL_KERNEL(name, body)                                                                  \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Group group,     \
                                                         const __grid_constant__ Call call) {     \
    Run(group, call, [](Exchange<Gpu>& exchange) { exchange.body(); });                           \
  }

SMALL_KERNEL(rondo_small_one_shot, AllReduceOneShot)
SMALL_KERNEL(rondo_small_two_shot, AllReduceTwoShot)
SMALL_KERNEL(rondo_small_reduce_scatter, ReduceScatter)
SMALL_KERNEL(rondo_small_all_gather, AllGather)

// Writes `count` packs to another rank's memory as collectives do, each of its number.
extern "C" __global__ void __launch_bounds__(256) rondo_small_probe(Words* to, u64 seed, u32 count) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) Gpu::Store(to + i, Words{seed + i, ~(seed + i)});
}

extern "C" __global__ void rondo_small_note(u32* at) {
  WaitForKernelsBefore();
  Note(at);
}
