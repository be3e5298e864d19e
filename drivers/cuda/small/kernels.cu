// The kernels of small collectives, for GPUs from sm_80 on. kernels.ptx is what NVRTC makes of it
// (tests/cuda/small_kernels_test.cc compares, and writes it again when asked): the driver carries that.
#include "drivers/cuda/small/norm.h"

namespace rondo::small {

struct Gpu {
  const Group& group;
  const Call& call;
  long long began = 0, next = 0;  // of the wait under way: clocks when it began, and when to look again

  enum : long long { kFirstLook = 200'000, kSeldom = 4'000'000 };  // clocks: 100 us and 2 ms, or a little more
  enum : u64 { kClocksPerNanosecond = 2 };                         // at most

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
  static __device__ __forceinline__ float Root(float value) { return __fsqrt_rn(value); }
  static __device__ __forceinline__ u32 Now(const u32* at) {
    return *const_cast<const volatile u32*>(at);
  }
  __device__ __forceinline__ bool GoOn(u32 tries, u32 rank) { return tries % 32 != 0 || Look(tries == 32, rank); }
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

// Waits for the kernels before it, which it may have begun beside: where the GPU can. The driver takes "//+90" away
// there (SmallKernels::LoadFunctions): the text is for older ones too.
__device__ __forceinline__ void WaitForKernelsBefore() { asm volatile("//+90 griddepcontrol.wait;" ::: "memory"); }

// All blocks of the kernel before have ended, and those of this one add all its ticks only when all of them have
// read the epoch. Nobody waits for the sum.
__device__ __forceinline__ u32 NextEpoch(State* state, u32 blocks) {
  const u64 ticks = *const_cast<const volatile u64*>(&state->ticks);
  __syncthreads();
  const u32 share = kTicks / blocks, rest = kTicks - share * (blocks - 1);
  if (threadIdx.x == 0) atomicAdd(&state->ticks, u64{blockIdx.x == 0 ? rest : share});
  return static_cast<u32>(ticks / kTicks);
}

// The kernels behind it may begin where they wait for it: it waits for no rank any more.
__device__ __forceinline__ void LaunchDependents() {
  asm volatile("//+90 griddepcontrol.launch_dependents;" ::: "memory");
}

template <class Body>
__device__ __forceinline__ void Run(const Group& group, const Call& call, Body body) {
  WaitForKernelsBefore();
  const bool dead = Gpu::Now(&group.state->dead) != 0;
  const u32 epoch = NextEpoch(group.state, gridDim.x);
  if (dead) return;
  Gpu gpu{group, call};
  Exchange<Gpu> exchange(gpu, group, call, epoch, u64{blockIdx.x} * blockDim.x + threadIdx.x,
                         u64{gridDim.x} * blockDim.x);
  body(exchange);
}

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

#define SMALL_KERNEL(name, body)                                                                  \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Group group,     \
                                                         const __grid_constant__ Call call) {     \
    Run(group, call, [](Exchange<Gpu>& exchange) { exchange.body(); });                           \
  }

SMALL_KERNEL(rondo_small_one_shot, AllReduceOneShot)
SMALL_KERNEL(rondo_small_two_shot, AllReduceTwoShot)
SMALL_KERNEL(rondo_small_reduce_scatter, ReduceScatter)
SMALL_KERNEL(rondo_small_all_gather, AllGather)

#define NORM_KERNEL(name, type)                                                                            \
  extern "C" __global__ void __launch_bounds__(256)                                                        \
      name(const __grid_constant__ Group group, const __grid_constant__ Call call,                         \
           const __grid_constant__ Norm norm) {                                                            \
    RunNorm<type>(group, call, norm);                                                                      \
  }

NORM_KERNEL(rondo_small_norm_f32, F32)
NORM_KERNEL(rondo_small_norm_f16, F16)
NORM_KERNEL(rondo_small_norm_bf16, BF16)

// Writes `count` packs to another rank's memory as collectives do, each of its number.
extern "C" __global__ void __launch_bounds__(256) rondo_small_probe(Words* to, u64 seed, u32 count) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) Gpu::Store(to + i, Words{seed + i, ~(seed + i)});
}
