// wgmma on bytes, A from registers (sm_90a): 32 of K an instruction, whole numbers exact in 32 bits.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_BYTES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_BYTES_CUH_

#include "compiler/codegen/cuda/device/wgmma_registers.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum WgmmaBytes { kWgmmaU8, kWgmmaS8 };  // the type of A

#define WGMMA_BYTES_8(x)                                                                      \
  "+r"(d[x]), "+r"(d[x + 1]), "+r"(d[x + 2]), "+r"(d[x + 3]), "+r"(d[x + 4]), "+r"(d[x + 5]), \
      "+r"(d[x + 6]), "+r"(d[x + 7])
#define WGMMA_BYTES_NAMES_8 WGMMA_NAMES_FIRST_8
#define WGMMA_BYTES_NAMES_16 WGMMA_NAMES_16
#define WGMMA_BYTES_NAMES_24 WGMMA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_BYTES_NAMES_32 WGMMA_NAMES_32
#define WGMMA_BYTES_SUMS_8 WGMMA_BYTES_8(0)
#define WGMMA_BYTES_SUMS_16 WGMMA_BYTES_SUMS_8, WGMMA_BYTES_8(8)
#define WGMMA_BYTES_SUMS_24 WGMMA_BYTES_SUMS_16, WGMMA_BYTES_8(16)
#define WGMMA_BYTES_SUMS_32 WGMMA_BYTES_SUMS_24, WGMMA_BYTES_8(24)
#define WGMMA_BYTES_TYPED(type, n, count, a_names, b_name, adds)                                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.s32." type ".s8 {" WGMMA_BYTES_NAMES_##count \
               "}, {" a_names "}, " b_name ", " adds ";"                                                \
               : WGMMA_BYTES_SUMS_##count                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WGMMA_BYTES_OF(type, n, count, a_names, b_name)        \
  {                                                            \
    if constexpr (ADDS)                                        \
      WGMMA_BYTES_TYPED(type, n, count, a_names, b_name, "1"); \
    else                                                       \
      WGMMA_BYTES_TYPED(type, n, count, a_names, b_name, "0"); \
  }
#define WGMMA_BYTES(n, count, a_names, b_name)                                              \
  if constexpr (N == n && TYPE == kWgmmaU8) WGMMA_BYTES_OF("u8", n, count, a_names, b_name) \
  if constexpr (N == n && TYPE == kWgmmaS8) WGMMA_BYTES_OF("s8", n, count, a_names, b_name)

// d (64 x N; N / 2 sums of each thread) += A (64 x 32) * B (32 x N, signed), or = without ADDS, begun:
// complete after wgmma_wait, and until then `a` must stay as it is. a[0..3]: of the warp's 16 rows what
// mma.m16n8k32 takes as A. `b` as wgmma_descriptor makes it; its lines run along K.
template <int N, WgmmaBytes TYPE, bool ADDS>
DEV void wgmma_bytes(int* d, const u32* a, u64 b) {
  static_assert(N == 16 || N == 32 || N == 48 || N == 64, "a width of wgmma that has its line here");
  WGMMA_BYTES(16, 8, "%8, %9, %10, %11", "%12")
  WGMMA_BYTES(32, 16, "%16, %17, %18, %19", "%20")
  WGMMA_BYTES(48, 24, "%24, %25, %26, %27", "%28")
  WGMMA_BYTES(64, 32, "%32, %33, %34, %35", "%36")
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_BYTES_CUH_
