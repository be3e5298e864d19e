// The header for translated kernels (translate.h): CUDA C++'s keywords and functions for threads, shared
// memory and operations of a warp's threads, so that g++ compiles them for the CPU. Every operation that
// needs other threads goes through a `Machine`, which the emulator passes in. Inline PTX goes to it as text
// with its operands.
//
// A kernel becomes a shared library of its own. The library's uninitialised variables are its functions'
// shared memory; the machine fills them and, for the blocks of a cluster, swaps them.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace simt {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

// The view of a kernel's code of its own thread. The machine has more (fiber.h).
struct ThreadView {
  Dim thread, block, block_size, grid;
  char* dynamic_shared = nullptr;
};

// An operand of inline PTX: its constraint ('r', 'l', 'h', 'f' or 'n'), its value, and the destination of its
// result, null if it is only read.
struct Operand {
  char kind;
  void* to;
  uint64_t value;
};

enum class WarpOp {
  kSync,
  kShuffleXor,
  kShuffle,
  kBallot,
  kMatch,
  kReduceMax,
  kReduceMin,
  kReduceMaxSigned,
  kReduceMinSigned,
  kAny
};

// Services of the emulator for a kernel, all for the calling thread.
class Machine {
 public:
  virtual void SyncThreads() = 0;
  // Whether `predicate` is true in any thread of the block.
  virtual bool SyncThreadsOr(bool predicate) = 0;
  // An operation of the lanes of `mask` on one word of each; `lane`: the other lane, or the mask of the
  // exclusive or.
  virtual uint64_t Together(WarpOp op, uint32_t mask, uint64_t value, uint32_t lane) = 0;
  virtual size_t SharedAddress(const void* p) = 0;
  virtual void Ptx(const char* text, std::initializer_list<Operand> operands) = 0;

 protected:
  ~Machine() = default;
};

// A kernel of a library, and the function that calls it with the addresses of its parameters.
struct KernelEntry {
  const char* name;
  void (*call)(void* const* params);
  const size_t* param_bytes;
  size_t param_count;
  unsigned cluster;  // blocks
};

// The object that a library exports as `simt_library`.
struct Library {
  char* shared() const { return (char*)(((uintptr_t)shared_begin + 127) / 128 * 128); }
  size_t shared_bytes() const {
    return shared_end > shared() ? ((size_t)(shared_end - shared()) + 127) / 128 * 128 : 0;
  }

  Machine** machine;
  ThreadView** thread;
  char *shared_begin,
      *shared_end;  // of static shared memory, which begins at the first multiple of 128 there
  const KernelEntry* kernels;
  size_t kernel_count;
};

}  // namespace simt

#ifdef SIMT_KERNELS  // the rest is for kernels alone

// Puts these into the section of initialised variables: uninitialised ones are shared memory.
static simt::Machine* simt_machine __attribute__((section(".data"))) = nullptr;
static simt::ThreadView* simt_thread __attribute__((section(".data"))) = nullptr;

#define __device__
#define __host__
#define __global__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static
#define threadIdx (simt_thread->thread)
#define blockIdx (simt_thread->block)
#define blockDim (simt_thread->block_size)
#define gridDim (simt_thread->grid)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template <typename To, typename From>
static inline To simt_bits(From from) {
  static_assert(sizeof(To) >= sizeof(From));
  To to{};
  std::memcpy(&to, &from, sizeof from);
  return to;
}
// The inverse: takes the first bytes.
template <typename To>
static inline To simt_bits_back(uint64_t from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
static inline float __int_as_float(int x) { return simt_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return simt_bits<float>(x); }
static inline int __float_as_int(float x) { return simt_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return simt_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return simt_bits<long long>(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
#define __expf simt_expf  // math.h has a function of that name
static inline float simt_expf(float x) { return std::exp(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline int __float2int_rz(float x) {
  return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : (int)x;
}
static inline int __float2int_rn(float x) { return __float2int_rz(std::nearbyint(x)); }
static inline int __ffs(unsigned x) { return x == 0 ? 0 : std::countr_zero(x) + 1; }
static inline int __popc(unsigned x) { return std::popcount(x); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = (uint64_t)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned from = selector >> (4 * i) & 15;
    unsigned byte = (unsigned)(bytes >> (8 * (from & 7))) & 255;
    if ((from & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
template <typename T>
static inline T min(T a, std::type_identity_t<T> b) {
  return b < a ? b : a;
}
template <typename T>
static inline T max(T a, std::type_identity_t<T> b) {
  return a < b ? b : a;
}

static inline void __syncthreads() { simt_machine->SyncThreads(); }
static inline int __syncthreads_or(int predicate) { return simt_machine->SyncThreadsOr(predicate != 0); }
static inline void __trap() { __builtin_trap(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
  simt_machine->Together(simt::WarpOp::kSync, mask, 0, 0);
}
static inline void __threadfence_system() {}
static inline void __threadfence() {}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int other) {
  return simt_bits_back<T>(
      simt_machine->Together(simt::WarpOp::kShuffleXor, mask, simt_bits<uint64_t>(value), (unsigned)other));
}
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int lane) {
  return simt_bits_back<T>(
      simt_machine->Together(simt::WarpOp::kShuffle, mask, simt_bits<uint64_t>(value), (unsigned)lane));
}
static inline int __any_sync(unsigned mask, int predicate) {
  return (int)simt_machine->Together(simt::WarpOp::kAny, mask, predicate != 0, 0);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return (unsigned)simt_machine->Together(simt::WarpOp::kBallot, mask, predicate != 0, 0);
}
static inline unsigned __match_any_sync(unsigned mask, unsigned value) {
  return (unsigned)simt_machine->Together(simt::WarpOp::kMatch, mask, value, 0);
}
static inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return (unsigned)simt_machine->Together(simt::WarpOp::kReduceMax, mask, value, 0);
}
static inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return (unsigned)simt_machine->Together(simt::WarpOp::kReduceMin, mask, value, 0);
}
static inline int __reduce_max_sync(unsigned mask, int value) {
  return (int)simt_machine->Together(simt::WarpOp::kReduceMaxSigned, mask, (unsigned)value, 0);
}
static inline int __reduce_min_sync(unsigned mask, int value) {
  return (int)simt_machine->Together(simt::WarpOp::kReduceMinSigned, mask, (unsigned)value, 0);
}
static inline unsigned long long atomicCAS_system(unsigned long long* at, unsigned long long expected,
                                                  unsigned long long value) {
  const unsigned long long was = *at;
  if (was == expected) *at = value;
  return was;
}
template <typename T>
static inline T atomicMax(T* at, T value) {
  const T was = *at;
  if (was < value) *at = value;
  return was;
}
template <typename T>
static inline T atomicAdd(T* at, T value) {
  const T was = *at;
  *at = was + value;
  return was;
}
template <typename T>
static inline T atomicMin(T* at, T value) {
  const T was = *at;
  if (value < was) *at = value;
  return was;
}
static inline size_t __cvta_generic_to_shared(const void* p) { return simt_machine->SharedAddress(p); }

// Operands of inline PTX, by constraint.
template <typename T>
static inline simt::Operand simt_operand(const char* constraint, T&& x) {
  using Value = std::remove_cvref_t<T>;
  simt::Operand operand{constraint[0], nullptr, 0};
  if (constraint[0] == '=' || constraint[0] == '+') {
    operand.kind = constraint[1];
    if constexpr (std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>)
      operand.to = (void*)&x;
    if (constraint[0] == '=') return operand;
  }
  if constexpr (std::is_pointer_v<Value>) {
    operand.value = (uint64_t)x;
  } else if (operand.kind == 'n') {
    operand.value = (uint64_t)(int64_t)x;
  } else {
    operand.value = simt_bits<uint64_t>((Value)x);
  }
  return operand;
}

// `f` with the parameters at `params`.
template <typename... A, size_t... I>
static inline void simt_call(void (*f)(A...), void* const* params, std::index_sequence<I...>) {
  f(*(std::remove_cvref_t<A>*)params[I]...);
}
template <auto F>
struct SimtEntry;
template <typename... A, void (*F)(A...)>
struct SimtEntry<F> {
  static constexpr size_t kBytes[] = {sizeof(std::remove_cvref_t<A>)...};
  static void Call(void* const* params) { simt_call(F, params, std::index_sequence_for<A...>()); }
  static constexpr simt::KernelEntry Of(const char* name, unsigned cluster) {
    return {name, &Call, kBytes, sizeof...(A), cluster};
  }
};

#endif  // SIMT_KERNELS
