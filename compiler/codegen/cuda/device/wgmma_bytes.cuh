// wgmma on bytes, A from registers (sm_90a): 32 of K an instruction, whole numbers exact in 32 bits.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_BYTES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_BYTES_CUH_

#include "compiler/codegen/cuda/device/wgmma_registers.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum WgmmaBytes { kWgmmaU8, kWgmmaS8 };  // the type of A

#define WGMMA_INTS(x) "+r"(d[x]), "+r"(d[x + 1]), "+r"(d[x + 2]), "+r"(d[x + 3])
#define WGMMA_BYTES_TYPED(type, n, count, a_names, b_name)                                       \
  WGMMA_ADD_OR_SET("n" #n "k32.s32." type ".s8", count, WGMMA_INTS, "{" a_names "}", b_name, "", \
                   WGMMA_FROM_REGISTERS)
#define WGMMA_BYTES(n, count, a_names, b_name)                                                 \
  if constexpr (N == n && TYPE == kWgmmaU8) WGMMA_BYTES_TYPED("u8", n, count, a_names, b_name) \
  if constexpr (N == n && TYPE == kWgmmaS8) WGMMA_BYTES_TYPED("s8", n, count, a_names, b_name)

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
