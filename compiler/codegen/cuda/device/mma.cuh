// Matmuls of 16-bit types on tensor cores by mma.sync (sm_80 and later), accumulated in f32: d (16 x 8) += A
// (16 x 16) * B (16 x 8), fragments as PTX gives them for mma.m16n8k16; and loads of fragments from shared
// memory by ldmatrix.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MMA_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// Two floats as a pair of bf16, or f16.
template <bool BF16>
DEV u32 pack_pair(float low, float high) {
  u32 w;
  if (BF16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
}

template <bool BF16>
DEV void mma(float* d, const u32* a, u32 b0, u32 b1) {
#define MMA(type)                                                  \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type       \
      ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if (BF16)
    MMA("bf16");
  else
    MMA("f16");
#undef MMA
}

template <bool BF16>
DEV void mma(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  const u32 a[4] = {a0, a1, a2, a3};
  mma<BF16>(d, a, b0, b1);
}

// d (16 x 8) += A (16 x 32) * B (32 x 8). Fragments are those of mma.m16n8k16, two bytes in place of each
// 16-bit element.
template <bool A_SIGNED, bool B_SIGNED>
DEV void mma_bytes(int* d, const u32* a, u32 b0, u32 b1) {
#define MMA(a_type, b_type)                                        \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." a_type "." b_type   \
      ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if (A_SIGNED && B_SIGNED)
    MMA("s8", "s8");
  else if (A_SIGNED)
    MMA("s8", "u8");
  else if (B_SIGNED)
    MMA("u8", "s8");
  else
    MMA("u8", "u8");
#undef MMA
}

// The same of FP8, E4M3 or E5M2, sums in f32 (sm_89 and later). Where only wgmma or tcgen05 reach the units
// of FP8 (sm_90, sm_100), the assembler makes f16 of the operands.
template <bool A_E5M2, bool B_E5M2 = false>
DEV void mma_fp8(float* d, const u32* a, u32 b0, u32 b1) {
#define MMA(a_type, b_type)                                        \
  asm("mma.sync.aligned.m16n8k32.row.col.f32." a_type "." b_type   \
      ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if (A_E5M2 && B_E5M2)
    MMA("e5m2", "e5m2");
  else if (A_E5M2)
    MMA("e5m2", "e4m3");
  else if (B_E5M2)
    MMA("e4m3", "e5m2");
  else
    MMA("e4m3", "e4m3");
#undef MMA
}

// Four 8 x 8 matrices of 16-bit elements; thread n gives the address of row n.
DEV void ldmatrix(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// The same, each transposed.
DEV void ldmatrix_transposed(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MMA_CUH_
