// The kernels of small collectives, for GPUs from sm_80 on. kernels.ptx is what NVRTC makes of it
// (tests/cuda/small_kernels_test.cc compares, and writes it again when asked): the driver carries that.
#include "drivers/cuda/small/exchange.h"

namespace rondo::small {

struct Gpu {
  const Group& group;
  const Call& call;
  u64 began = 0;

  static __device__ __forceinline__ Words Load(const Words* at) {
    Words words;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(words.low), "=l"(words.high)
                 : "l"(at));
    return words;
  }
  static __device__ __forceinline__ void Store(Words* at, Words words) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(words.low), "l"(words.high));
  }
  static __device__ __forceinline__ u64 ReadPack(const char* at) { return *reinterpret_cast<const u64*>(at); }
  static __device__ __forceinline__ void WritePack(char* at, u64 pack) { *reinterpret_cast<u64*>(at) = pack; }
  static __device__ __forceinline__ float HalfToFloat(u32 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
    return value;
  }
  static __device__ __forceinline__ u32 FloatToHalf(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
  static __device__ __forceinline__ u32 Now(const u32* at) {
    return *const_cast<const volatile u32*>(at);
  }
  static __device__ __forceinline__ u64 Nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
  }

  // Looks at the clock, and over the bus at the flag, now and then.
  __device__ __noinline__ bool GoOn(u32 tries, u32 rank) {
    if (tries % 64 != 0) return true;
    if (Now(&group.state->dead) != 0) return false;
    if (Now(group.abort) != 0) return Fail(kAbortFault, rank);
    const u64 now = Nanoseconds();
    if (began == 0) began = now;
    return now - began <= group.limit_ns || Fail(kLateFault, rank);
  }
  __device__ bool Fail(u32 fault, u32 rank) {
    *const_cast<volatile u32*>(&group.state->dead) = 1;
    if (atomicCAS_system(&call.faults->taken, 0ull, static_cast<u64>(fault)) == 0) {
      call.faults->step = call.step;
      call.faults->value = rank;
      call.faults->extent = group.limit_ns;
      __threadfence_system();
    }
    return false;
  }
};

// All blocks of the kernel before have ended, so the epoch is that of this one until its last block ends.
template <class Body>
__device__ __forceinline__ void Run(const Group& group, const Call& call, Body body) {
  State* const state = group.state;
  const u32 epoch = Gpu::Now(&state->epoch);
  Gpu gpu{group, call};
  if (Gpu::Now(&state->dead) == 0) {
    Exchange<Gpu> exchange(gpu, group, call, epoch, u64{blockIdx.x} * blockDim.x + threadIdx.x,
                           u64{gridDim.x} * blockDim.x);
    body(exchange);
  }
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(&state->arrived, 1u) + 1 != gridDim.x) return;
  state->arrived = 0;
  state->epoch = epoch + 1;
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
