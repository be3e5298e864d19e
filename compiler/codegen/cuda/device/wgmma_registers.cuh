// wgmma whose A comes from registers (sm_90a): what threads make of packed weights need not go through shared
// memory.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_REGISTERS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_REGISTERS_CUH_

#include "compiler/codegen/cuda/device/wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A warpgroup gives back registers, or takes those that others gave back, until each thread has COUNT (a
// multiple of 8).
template <int COUNT>
DEV void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
DEV void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

#define WGMMA_REGISTERS_TYPED(type, n, count, a_names, b_name, transposed)                        \
  WGMMA_ADD_OR_SET("n" #n "k16.f32." type "." type, count, WGMMA_FLOATS, "{" a_names "}", b_name, \
                   ", 1, 1, " transposed, WGMMA_FROM_REGISTERS, "n"((int)TRANSPOSED))
#define WGMMA_REGISTERS(n, count, a_names, b_name, transposed)                                       \
  if constexpr (N == n && BF16) WGMMA_REGISTERS_TYPED("bf16", n, count, a_names, b_name, transposed) \
  if constexpr (N == n && !BF16) WGMMA_REGISTERS_TYPED("f16", n, count, a_names, b_name, transposed)

// d (64 x N; N / 2 accumulators of each thread) += A (64 x 16) * B (16 x N), or = without ADDS, begun:
// complete after wgmma_wait, and until then `a` must stay as it is. a[0..3]: of the warp's 16 rows what
// mma.m16n8k16 takes as A. `b` as wgmma_descriptor makes it. TRANSPOSED: lines of B run along N, not K.
template <int N, bool BF16, bool ADDS = true, bool TRANSPOSED = false>
DEV void wgmma_registers(float* d, const u32* a, u64 b) {
  static_assert(N == 8 || N == 24 || (N <= 128 ? N % 16 == 0 : N <= 256 && N % 32 == 0),
                "a width of wgmma that has its line here");
  WGMMA_REGISTERS(8, 4, "%4, %5, %6, %7", "%8", "%9")
  WGMMA_REGISTERS(16, 8, "%8, %9, %10, %11", "%12", "%13")
  WGMMA_REGISTERS(24, 12, "%12, %13, %14, %15", "%16", "%17")
  WGMMA_REGISTERS(32, 16, "%16, %17, %18, %19", "%20", "%21")
  WGMMA_REGISTERS(48, 24, "%24, %25, %26, %27", "%28", "%29")
  WGMMA_REGISTERS(64, 32, "%32, %33, %34, %35", "%36", "%37")
  WGMMA_REGISTERS(80, 40, "%40, %41, %42, %43", "%44", "%45")
  WGMMA_REGISTERS(96, 48, "%48, %49, %50, %51", "%52", "%53")
  WGMMA_REGISTERS(112, 56, "%56, %57, %58, %59", "%60", "%61")
  WGMMA_REGISTERS(128, 64, "%64, %65, %66, %67", "%68", "%69")
  WGMMA_REGISTERS(160, 80, "%80, %81, %82, %83", "%84", "%85")
  WGMMA_REGISTERS(192, 96, "%96, %97, %98, %99", "%100", "%101")
  WGMMA_REGISTERS(224, 112, "%112, %113, %114, %115", "%116", "%117")
  WGMMA_REGISTERS(256, 128, "%128, %129, %130, %131", "%132", "%133")
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_REGISTERS_CUH_
