// wgmma (sm_90a): matmuls of 64 rows by a warpgroup (four warps), which reads A and B from shared memory,
// accumulators in f32, and run while the threads go on.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Shared memory as wgmma addresses it: lines of 128 bytes swizzled as `swizzled` does, groups of eight lines
// 1024 bytes apart; `panel`: bytes between panels of 64 columns where lines run along N.
DEV u64 wgmma_descriptor(u32 address, u32 panel) {
  return (u64)((address & 0x3ffffu) >> 4) | (u64)(panel >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
DEV void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// PTX wants the accumulators of an instruction one by one: their names, then what they are, four at a time
// (`four`: WGMMA_FLOATS, or another of other constraints).
#define WGMMA_NAMES_4 "%0, %1, %2, %3"
#define WGMMA_NAMES_8 WGMMA_NAMES_4 ", %4, %5, %6, %7"
#define WGMMA_NAMES_12 WGMMA_NAMES_8 ", %8, %9, %10, %11"
#define WGMMA_NAMES_16 WGMMA_NAMES_12 ", %12, %13, %14, %15"
#define WGMMA_NAMES_24 WGMMA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_32 WGMMA_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_40 WGMMA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_48 WGMMA_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_56 WGMMA_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_64 WGMMA_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_72 WGMMA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NAMES_80 WGMMA_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_88 WGMMA_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NAMES_96 WGMMA_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_104 WGMMA_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NAMES_112 WGMMA_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_120 WGMMA_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NAMES_128 WGMMA_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_FLOATS(x) "+f"(d[x]), "+f"(d[x + 1]), "+f"(d[x + 2]), "+f"(d[x + 3])
#define WGMMA_SUMS_4(four) four(0)
#define WGMMA_SUMS_8(four) WGMMA_SUMS_4(four), four(4)
#define WGMMA_SUMS_12(four) WGMMA_SUMS_8(four), four(8)
#define WGMMA_SUMS_16(four) WGMMA_SUMS_12(four), four(12)
#define WGMMA_SUMS_24(four) WGMMA_SUMS_16(four), four(16), four(20)
#define WGMMA_SUMS_32(four) WGMMA_SUMS_24(four), four(24), four(28)
#define WGMMA_SUMS_40(four) WGMMA_SUMS_32(four), four(32), four(36)
#define WGMMA_SUMS_48(four) WGMMA_SUMS_40(four), four(40), four(44)
#define WGMMA_SUMS_56(four) WGMMA_SUMS_48(four), four(48), four(52)
#define WGMMA_SUMS_64(four) WGMMA_SUMS_56(four), four(56), four(60)
#define WGMMA_SUMS_72(four) WGMMA_SUMS_64(four), four(64), four(68)
#define WGMMA_SUMS_80(four) WGMMA_SUMS_72(four), four(72), four(76)
#define WGMMA_SUMS_88(four) WGMMA_SUMS_80(four), four(80), four(84)
#define WGMMA_SUMS_96(four) WGMMA_SUMS_88(four), four(88), four(92)
#define WGMMA_SUMS_104(four) WGMMA_SUMS_96(four), four(96), four(100)
#define WGMMA_SUMS_112(four) WGMMA_SUMS_104(four), four(104), four(108)
#define WGMMA_SUMS_120(four) WGMMA_SUMS_112(four), four(112), four(116)
#define WGMMA_SUMS_128(four) WGMMA_SUMS_120(four), four(120), four(124)
// The frame of all of them. `instruction`: its name behind m64; `a_names`, `b_name`: the names of A and B,
// which come after the accumulators; `more`: what comes behind those; then the operands themselves.
#define WGMMA_BEGIN(instruction, count, four, a_names, b_name, more, ...)              \
  asm volatile("wgmma.mma_async.sync.aligned.m64" instruction " {" WGMMA_NAMES_##count \
               "}, " a_names ", " b_name ", " more ";"                                 \
               : WGMMA_SUMS_##count(four)                                              \
               : __VA_ARGS__)
// The same, that adds to the accumulators or, without ADDS, sets them.
#define WGMMA_ADD_OR_SET(instruction, count, four, a_names, b_name, more, ...)       \
  {                                                                                  \
    if constexpr (ADDS)                                                              \
      WGMMA_BEGIN(instruction, count, four, a_names, b_name, "1" more, __VA_ARGS__); \
    else                                                                             \
      WGMMA_BEGIN(instruction, count, four, a_names, b_name, "0" more, __VA_ARGS__); \
  }
// Operands where A is in registers, `a_names` four of them.
#define WGMMA_FROM_REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)

#define WGMMA_TYPED(type, n, count, a_name, b_name, transposed)                          \
  WGMMA_ADD_OR_SET("n" #n "k16.f32." type "." type, count, WGMMA_FLOATS, a_name, b_name, \
                   ", 1, 1, 0, " transposed, "l"(a), "l"(b), "n"((int)TRANSPOSED))
#define WGMMA(n, count, a_name, b_name, transposed)                                       \
  if constexpr (N == n && BF16) WGMMA_TYPED("bf16", n, count, a_name, b_name, transposed) \
  if constexpr (N == n && !BF16) WGMMA_TYPED("f16", n, count, a_name, b_name, transposed)

// d (64 x N; N / 2 accumulators of each thread) += A (64 x 16) * B (16 x N), or = without ADDS, begun:
// complete after wgmma_wait. `a` and `b` as wgmma_descriptor makes them. TRANSPOSED: lines of B run along N,
// not K.
template <int N, bool BF16, bool TRANSPOSED, bool ADDS = true>
DEV void wgmma(float* d, u64 a, u64 b) {
  static_assert(N >= 64 && N <= 256 && N % 16 == 0, "a width of wgmma that has its line here");
  WGMMA(64, 32, "%32", "%33", "%34")
  WGMMA(80, 40, "%40", "%41", "%42")
  WGMMA(96, 48, "%48", "%49", "%50")
  WGMMA(112, 56, "%56", "%57", "%58")
  WGMMA(128, 64, "%64", "%65", "%66")
  WGMMA(144, 72, "%72", "%73", "%74")
  WGMMA(160, 80, "%80", "%81", "%82")
  WGMMA(176, 88, "%88", "%89", "%90")
  WGMMA(192, 96, "%96", "%97", "%98")
  WGMMA(208, 104, "%104", "%105", "%106")
  WGMMA(224, 112, "%112", "%113", "%114")
  WGMMA(240, 120, "%120", "%121", "%122")
  WGMMA(256, 128, "%128", "%129", "%130")
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_CUH_
