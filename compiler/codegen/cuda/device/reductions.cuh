// Reductions over W threads: a power of two of neighbours in a warp, a warp (32), or the whole block of W,
// all of which must call. Every thread has the result.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_REDUCTIONS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_REDUCTIONS_CUH_

#include "compiler/codegen/cuda/device/scalar.cuh"

struct Sum {
  template <typename T>
  DEV T of(T a, T b) {
    return op_add(a, b);
  }
};
struct Prod {
  template <typename T>
  DEV T of(T a, T b) {
    return op_mul(a, b);
  }
};
struct Max {
  template <typename T>
  DEV T of(T a, T b) {
    return op_max(a, b);
  }
  DEV float of(float a, float b) {
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
    return a;
  }
};
struct Min {
  template <typename T>
  DEV T of(T a, T b) {
    return op_min(a, b);
  }
  DEV float of(float a, float b) {
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
    return a;
  }
};
// The threads of the warp among which this one reduces.
template <int W>
DEV u32 neighbours() {
  return W >= 32 ? 0xffffffffu : ((1u << (W & 31)) - 1u) << (threadIdx.x & 31 & ~(W - 1));
}
template <typename Op, int W, typename T>
DEV T reduce(T v) {
  for (int d = W < 32 ? W / 2 : 16; d > 0; d >>= 1) v = Op::of(v, (T)__shfl_xor_sync(neighbours<W>(), v, d));
  if (W > 32) {
    __shared__ __align__(16) T warps[W / 32 + (W < 32)];  // read whole, and nothing beside it
    __syncthreads();
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = v;
    __syncthreads();
    v = warps[0];
    for (int w = 1; w < W / 32; ++w) v = Op::of(v, warps[w]);
  }
  return v;
}
// The position of the extreme: ties go to the least (last = false) or greatest position.
template <bool max, bool last, typename T>
DEV bool better(T v, i64 at, T best, i64 best_at) {
  if (best_at < 0) return at >= 0;
  if (at < 0) return false;
  if (v != best) return max ? v > best : v < best;
  return last ? at > best_at : at < best_at;
}
// The same of a value whose position is greater than any before it.
template <bool max, bool last, typename T>
DEV bool better_later(T v, T best, i64 best_at) {
  return best_at < 0 || (max ? v > best : v < best) || (last && v == best);
}
template <bool max, bool last, int W, typename T>
DEV i64 reduce_arg(T v, i64 at) {
  for (int d = W < 32 ? W / 2 : 16; d > 0; d >>= 1) {
    T ov = (T)__shfl_xor_sync(neighbours<W>(), v, d);
    i64 oat = __shfl_xor_sync(neighbours<W>(), at, d);
    if (better<max, last>(ov, oat, v, at)) {
      v = ov;
      at = oat;
    }
  }
  if (W > 32) {
    __shared__ __align__(16) T vs[W / 32 + (W < 32)];
    __shared__ __align__(16) i64 ats[W / 32 + (W < 32)];
    __syncthreads();
    if ((threadIdx.x & 31) == 0) {
      vs[threadIdx.x >> 5] = v;
      ats[threadIdx.x >> 5] = at;
    }
    __syncthreads();
    v = vs[0];
    at = ats[0];
    for (int w = 1; w < W / 32; ++w)
      if (better<max, last>(vs[w], ats[w], v, at)) {
        v = vs[w];
        at = ats[w];
      }
  }
  return at;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_REDUCTIONS_CUH_
