// What kernels of small collectives are on a GPU: the machine of exchange.h, and how they begin and end.
// Device code.
#ifndef RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_GPU_H_
#define RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_GPU_H_

#include "drivers/cuda/peer_collectives/exchange.h"

namespace rondo::small {

struct Gpu {
  const Group& group;
  const Call& call;
  long long began = 0, next = 0;  // of the wait under way: clocks when it began, and when to look again

  enum : long long {
    kFirstLook = 200'000,
    kSeldom = 4'000'000
  };                                        // clocks: 100 us and 2 ms, or a little more
  enum : u64 { kClocksPerNanosecond = 2 };  // at most

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
  static __device__ __forceinline__ u32 FloatsToHalves(float low, float high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
  }
  static __device__ __forceinline__ u32 FloatsToBHalves(float low, float high) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
  }
  static __device__ __forceinline__ float Root(float value) { return __fsqrt_rn(value); }
  static __device__ __forceinline__ u32 Now(const u32* at) { return *const_cast<const volatile u32*>(at); }
  __device__ __forceinline__ bool GoOn(u32 tries, u32 rank) {
    return tries % 32 != 0 || Look(tries == 32, rank);
  }
  // Looks over the bus at the flag, more and more seldom: many warps do at once. Time is that of the
  // multiprocessor's clock: the GPU's own would have them queue for it.
  __device__ __noinline__ bool Look(bool first, u32 rank) {
    const long long now = clock64();
    if (first) {
      began = now;
      next = now + kFirstLook;
    }
    if (now < next) return true;
    const long long waited = now - began;
    next = now + (waited < kSeldom ? waited : kSeldom);
    if (Now(&group.state->dead) != 0) return false;
    if (Now(group.abort) != 0) return Fail(kAbortFault, rank);
    return static_cast<u64>(waited) / kClocksPerNanosecond <= group.limit_ns || Fail(kLateFault, rank);
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

// Waits for the kernels before it, which it may have begun beside: where the GPU can. The driver takes
// "//+90" away there (SmallKernels::LoadFunctions): the text is for older ones too.
__device__ __forceinline__ void WaitForKernelsBefore() {
  asm volatile("//+90 griddepcontrol.wait;" ::: "memory");
}

// For the watchdog. Nobody waits for it.
__device__ __forceinline__ void Note(u32* at) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(1));
}

// All blocks of the kernel before have ended, and those of this one add all its ticks only when all of them
// have read the epoch. Nobody waits for the sum. The thread that has the least to do notes it.
__device__ __forceinline__ u32 NextEpoch(const Group& group, const Call& call) {
  State* const state = group.state;
  const u64 ticks = *const_cast<const volatile u64*>(&state->ticks);
  __syncthreads();
  const u32 share = kTicks / gridDim.x, rest = kTicks - share * (gridDim.x - 1);
  if (threadIdx.x == 0) atomicAdd(&state->ticks, u64{blockIdx.x == 0 ? rest : share});
  if (blockIdx.x == 0 && threadIdx.x == blockDim.x - 1 && call.note != nullptr) Note(call.note);
  return static_cast<u32>(ticks / kTicks);
}

// The kernels behind it may begin where they wait for it: it waits for no rank any more.
__device__ __forceinline__ void LaunchDependents() {
  asm volatile("//+90 griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace rondo::small

#endif  // RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_GPU_H_
