#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo {

const char* CudaPrelude() {
  return R"cuda(
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
#define DEV static __device__ __forceinline__

// ---- dependent launch: a kernel lets the next one begin, and waits until all earlier ones are complete
DEV void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
DEV void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- widening loads and narrowing stores, by element number
DEV float bits_float(u32 u) { return __int_as_float((int)u); }
DEV float half_float(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
DEV unsigned short float_half(float f) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
DEV float bf16_float(unsigned short h) { return bits_float((u32)h << 16); }
DEV unsigned short float_bf16(float f) { unsigned short h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
DEV float ld_f32(const char* p, i64 i) { return ((const float*)p)[i]; }
DEV float ld_f16(const char* p, i64 i) { return half_float(((const unsigned short*)p)[i]); }
DEV float ld_bf16(const char* p, i64 i) { return bf16_float(((const unsigned short*)p)[i]); }
DEV double ld_f64(const char* p, i64 i) { return ((const double*)p)[i]; }
DEV i64 ld_i64(const char* p, i64 i) { return ((const i64*)p)[i]; }
DEV i64 ld_i32(const char* p, i64 i) { return ((const int*)p)[i]; }
DEV i64 ld_i16(const char* p, i64 i) { return ((const short*)p)[i]; }
DEV i64 ld_i8(const char* p, i64 i) { return ((const signed char*)p)[i]; }
DEV i64 ld_u8(const char* p, i64 i) { return ((const unsigned char*)p)[i]; }
DEV i64 ld_u16(const char* p, i64 i) { return ((const unsigned short*)p)[i]; }
DEV i64 ld_u32(const char* p, i64 i) { return ((const u32*)p)[i]; }
DEV i64 ld_u64(const char* p, i64 i) { return ((const i64*)p)[i]; }
DEV i64 ld_bool(const char* p, i64 i) { return ((const unsigned char*)p)[i]; }
DEV void st_f32(char* p, i64 i, float v) { ((float*)p)[i] = v; }
DEV void st_f16(char* p, i64 i, float v) { ((unsigned short*)p)[i] = float_half(v); }
DEV void st_bf16(char* p, i64 i, float v) { ((unsigned short*)p)[i] = float_bf16(v); }
DEV void st_f64(char* p, i64 i, double v) { ((double*)p)[i] = v; }
DEV void st_i64(char* p, i64 i, i64 v) { ((i64*)p)[i] = v; }
DEV void st_i32(char* p, i64 i, i64 v) { ((int*)p)[i] = (int)v; }
DEV void st_i16(char* p, i64 i, i64 v) { ((short*)p)[i] = (short)v; }
DEV void st_i8(char* p, i64 i, i64 v) { ((signed char*)p)[i] = (signed char)v; }
DEV void st_u8(char* p, i64 i, i64 v) { ((unsigned char*)p)[i] = (unsigned char)v; }
DEV void st_u16(char* p, i64 i, i64 v) { ((unsigned short*)p)[i] = (unsigned short)v; }
DEV void st_u32(char* p, i64 i, i64 v) { ((u32*)p)[i] = (u32)v; }
DEV void st_u64(char* p, i64 i, i64 v) { ((i64*)p)[i] = v; }
DEV void st_bool(char* p, i64 i, i64 v) { ((unsigned char*)p)[i] = v != 0; }

// ---- vectors of neighbouring elements, as 32-bit words
template <int N> DEV void load_words(const char* p, u32* w) {
#pragma unroll
  for (int k = 0; k < N / 4; ++k) {
    const uint4 v = ((const uint4*)p)[k];
    w[4 * k] = v.x; w[4 * k + 1] = v.y; w[4 * k + 2] = v.z; w[4 * k + 3] = v.w;
  }
  if (N % 4 == 2) { const uint2 v = *(const uint2*)p; w[0] = v.x; w[1] = v.y; }
  if (N % 4 == 1) w[0] = *(const u32*)p;
}
template <int N> DEV void store_words(char* p, const u32* w) {
#pragma unroll
  for (int k = 0; k < N / 4; ++k) ((uint4*)p)[k] = make_uint4(w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]);
  if (N % 4 == 2) *(uint2*)p = make_uint2(w[0], w[1]);
  if (N % 4 == 1) *(u32*)p = w[0];
}
template <int N> DEV void fill_words(u32* w) {
#pragma unroll
  for (int k = 0; k < N; ++k) w[k] = 0;
}
template <int N> DEV void widen_f32(const u32* w, float* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = bits_float(w[k]);
}
template <int N> DEV void widen_f16(const u32* w, float* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = half_float((unsigned short)(w[k / 2] >> (k % 2 * 16)));
}
template <int N> DEV void widen_bf16(const u32* w, float* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = bits_float(k % 2 == 0 ? w[k / 2] << 16 : w[k / 2] & 0xffff0000u);
}
template <int N> DEV void store_f32(char* p, i64 at, const float* x) {
  u32 w[N];
#pragma unroll
  for (int k = 0; k < N; ++k) w[k] = (u32)__float_as_int(x[k]);
  store_words<N>(p + at * 4, w);
}
template <int N> DEV void store_f16(char* p, i64 at, const float* x) {
  u32 w[N / 2];
#pragma unroll
  for (int k = 0; k < N / 2; ++k) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[k]) : "f"(x[2 * k + 1]), "f"(x[2 * k]));
  store_words<N / 2>(p + at * 2, w);
}
template <int N> DEV void store_bf16(char* p, i64 at, const float* x) {
  u32 w[N / 2];
#pragma unroll
  for (int k = 0; k < N / 2; ++k) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w[k]) : "f"(x[2 * k + 1]), "f"(x[2 * k]));
  store_words<N / 2>(p + at * 2, w);
}

// ---- scalar functions: core/scalar.h on a device
#define UNARY(name, expr_float, expr_double)                 \
  DEV float op_##name(float x) { return expr_float; }        \
  DEV double op_##name(double x) { return expr_double; }     \
  DEV i64 op_##name(i64 v) { double x = (double)v; return (i64)(expr_double); }
UNARY(sqrt, sqrtf(x), sqrt(x))
UNARY(rsqrt, 1.0f / sqrtf(x), 1.0 / sqrt(x))
UNARY(exp, expf(x), exp(x))
UNARY(log, logf(x), log(x))
UNARY(sin, sinf(x), sin(x))
UNARY(cos, cosf(x), cos(x))
UNARY(tan, tanf(x), tan(x))
UNARY(asin, asinf(x), asin(x))
UNARY(acos, acosf(x), acos(x))
UNARY(atan, atanf(x), atan(x))
UNARY(sinh, sinhf(x), sinh(x))
UNARY(cosh, coshf(x), cosh(x))
UNARY(tanh, tanhf(x), tanh(x))
UNARY(asinh, asinhf(x), asinh(x))
UNARY(acosh, acoshf(x), acosh(x))
UNARY(atanh, atanhf(x), atanh(x))
UNARY(erf, erff(x), erf(x))
UNARY(log1p, log1pf(x), log1p(x))
UNARY(expm1, expm1f(x), expm1(x))
UNARY(sigmoid, 1.0f / (1.0f + expf(-x)), 1.0 / (1.0 + exp(-x)))
#define REAL(name, expr_float, expr_double, expr_int)        \
  DEV float op_##name(float x) { return expr_float; }        \
  DEV double op_##name(double x) { return expr_double; }     \
  DEV i64 op_##name(i64 x) { return expr_int; }
REAL(neg, -x, -x, (i64)(0 - (u64)x))
REAL(abs, fabsf(x), fabs(x), x < 0 ? (i64)(0 - (u64)x) : x)
REAL(sign, x != x ? x : (float)((x > 0) - (x < 0)), x != x ? x : (double)((x > 0) - (x < 0)), (i64)((x > 0) - (x < 0)))
REAL(floor, floorf(x), floor(x), x)
REAL(ceil, ceilf(x), ceil(x), x)
REAL(round, rintf(x), rint(x), x)
REAL(trunc, truncf(x), trunc(x), x)
REAL(reciprocal, 1.0f / x, 1.0 / x, x == 1 || x == -1 ? x : 0)
DEV i64 op_bitnot(i64 x) { return ~x; }
template <typename T> DEV i64 op_not(T x) { return x == 0; }
template <typename T> DEV i64 op_isnan(T x) { return x != x; }
template <typename T> DEV i64 op_isinf(T x, i64 which) {
  T inf = (T)(1.0 / 0.0);
  return ((which & 1) && x == inf) || ((which & 2) && x == -inf);
}
template <typename T> DEV T op_add(T a, T b) { return a + b; }
DEV i64 op_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
template <typename T> DEV T op_sub(T a, T b) { return a - b; }
DEV i64 op_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
template <typename T> DEV T op_mul(T a, T b) { return a * b; }
DEV i64 op_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
template <typename T> DEV T op_div(T a, T b) { return a / b; }
DEV i64 op_div(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : a / b; }
DEV float op_pow(float a, float b) { return powf(a, b); }
DEV double op_pow(double a, double b) { return pow(a, b); }
DEV i64 op_pow(i64 a, i64 b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  u64 r = 1, x = (u64)a;
  for (u64 e = (u64)b; e != 0; e >>= 1) { if (e & 1) r *= x; x *= x; }
  return (i64)r;
}
template <typename T> DEV T op_min(T a, T b) { return a != a ? a : b != b ? b : a < b ? a : b; }
template <typename T> DEV T op_max(T a, T b) { return a != a ? a : b != b ? b : a > b ? a : b; }
DEV float op_fmod(float a, float b) { return fmodf(a, b); }
DEV double op_fmod(double a, double b) { return fmod(a, b); }
DEV i64 op_fmod(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
template <typename T> DEV T op_mod(T a, T b) { T r = op_fmod(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
DEV i64 op_bitand(i64 a, i64 b) { return a & b; }
DEV i64 op_bitor(i64 a, i64 b) { return a | b; }
DEV i64 op_bitxor(i64 a, i64 b) { return a ^ b; }
DEV i64 op_shl(i64 a, i64 b) { return b < 0 || b > 63 ? 0 : (i64)((u64)a << b); }
DEV i64 op_shr(i64 a, i64 b) { return b < 0 || b > 63 ? 0 : (i64)((u64)a >> b); }
DEV float op_atan2(float a, float b) { return atan2f(a, b); }
DEV double op_atan2(double a, double b) { return atan2(a, b); }
template <typename T> DEV i64 op_less(T a, T b) { return a < b; }
template <typename T> DEV i64 op_lessequal(T a, T b) { return a <= b; }
template <typename T> DEV i64 op_equal(T a, T b) { return a == b; }
template <typename T> DEV T op_fma(T a, T b, T c) { return a * b + c; }

// ---- the same where results are rounded to 16 bits: to about 1e-6
DEV float quick_exp(float x) { return __expf(x); }
DEV float quick_sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
// Abramowitz and Stegun 7.1.26, which errs by 1.5e-7; the first terms of the series near 0.
DEV float quick_erf(float x) {
  const float y = fabsf(x), t = __fdividef(1.0f, __fmaf_rn(0.3275911f, y, 1.0f));
  float p = __fmaf_rn(1.061405429f, t, -1.453152027f);
  p = __fmaf_rn(p, t, 1.421413741f);
  p = __fmaf_rn(p, t, -0.284496736f);
  p = __fmaf_rn(p, t, 0.254829592f);
  const float far = copysignf(__fmaf_rn(-p * t, __expf(-x * x), 1.0f), x);
  return y < 0.05f ? x * __fmaf_rn(-0.3761264f, x * x, 1.1283792f) : far;
}

// ---- casts: `to` is a DType number
template <typename F> DEV i64 float_int(F x) {
  if (x != x) return 0;
  if (x >= (F)9223372036854775808.0) return 0x7fffffffffffffffll;
  if (x <= (F)-9223372036854775808.0) return (i64)0x8000000000000000ull;
  return (i64)x;
}
template <typename F> DEV i64 float_uint(F x) {
  if (x != x || x <= 0) return 0;
  if (x >= (F)18446744073709551616.0) return -1;
  return (i64)(u64)x;
}
template <int to> DEV i64 wrap(i64 x) {
  return to == 5 ? (i64)(int)x : to == 6 ? (i64)(short)x : to == 7 ? (i64)(signed char)x : to == 8 ? (i64)(unsigned char)x
       : to == 9 ? (i64)(unsigned short)x : to == 10 ? (i64)(u32)x : to == 12 ? (i64)(x != 0) : x;
}
template <int to> DEV float round_to(float x) {
  return to == 1 ? half_float(float_half(x)) : to == 2 ? bf16_float(float_bf16(x)) : x;
}
template <int to> DEV i64 cast_i64(float x) { return to == 12 ? (i64)(x != 0) : wrap<to>(to == 11 ? float_uint(x) : float_int(x)); }
template <int to> DEV i64 cast_i64(double x) { return to == 12 ? (i64)(x != 0) : wrap<to>(to == 11 ? float_uint(x) : float_int(x)); }
template <int to> DEV i64 cast_i64(i64 x) { return wrap<to>(x); }
template <int to, typename T> DEV float cast_f32(T x) { return round_to<to>((float)x); }
template <int to, typename T> DEV double cast_f64(T x) { return (double)x; }

// ---- a fault: the first one of a run is kept
DEV void fault(u64* record, u32 step, i64 value, i64 extent) {
  if (atomicCAS_system(record, 0ull, 1ull) == 0ull) {
    record[1] = step;
    record[2] = (u64)value;
    record[3] = (u64)extent;
    __threadfence_system();
  }
}

// ---- reductions over W threads (a warp, or the whole block of 256)
struct Sum { template <typename T> DEV T of(T a, T b) { return op_add(a, b); } };
struct Prod { template <typename T> DEV T of(T a, T b) { return op_mul(a, b); } };
struct Max { template <typename T> DEV T of(T a, T b) { return op_max(a, b); } };
struct Min { template <typename T> DEV T of(T a, T b) { return op_min(a, b); } };
template <typename Op, int W, typename T> DEV T reduce(T v) {
  for (int d = 16; d > 0; d >>= 1) v = Op::of(v, (T)__shfl_xor_sync(0xffffffffu, v, d));
  if (W > 32) {
    __shared__ __align__(16) T warps[8];  // read whole, and nothing beside it
    __syncthreads();
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = v;
    __syncthreads();
    v = warps[0];
    for (int w = 1; w < 8; ++w) v = Op::of(v, warps[w]);
  }
  return v;
}
// The position of the extreme: ties go to the least (last = false) or greatest position.
template <bool max, bool last, typename T> DEV bool better(T v, i64 at, T best, i64 best_at) {
  if (best_at < 0) return at >= 0;
  if (at < 0) return false;
  if (v != best) return max ? v > best : v < best;
  return last ? at > best_at : at < best_at;
}
template <bool max, bool last, int W, typename T> DEV i64 reduce_arg(T v, i64 at) {
  for (int d = 16; d > 0; d >>= 1) {
    T ov = (T)__shfl_xor_sync(0xffffffffu, v, d);
    i64 oat = __shfl_xor_sync(0xffffffffu, at, d);
    if (better<max, last>(ov, oat, v, at)) { v = ov; at = oat; }
  }
  if (W > 32) {
    __shared__ __align__(16) T vs[8];
    __shared__ __align__(16) i64 ats[8];
    __syncthreads();
    if ((threadIdx.x & 31) == 0) { vs[threadIdx.x >> 5] = v; ats[threadIdx.x >> 5] = at; }
    __syncthreads();
    v = vs[0]; at = ats[0];
    for (int w = 1; w < 8; ++w) if (better<max, last>(vs[w], ats[w], v, at)) { v = vs[w]; at = ats[w]; }
  }
  return at;
}
)cuda";
}

}  // namespace rondo
