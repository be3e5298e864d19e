// The dynamic shared memory of a block, and accesses to shared memory by its 32-bit addresses.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SHARED_MEMORY_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SHARED_MEMORY_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// Of the bytes that a launch asks for; what lies where is the template's.
extern __shared__ __align__(128) char shared_memory[];

DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

DEV uint4 shared_16(u32 address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
DEV uint2 shared_8(u32 address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
DEV void store_shared_4(u32 address, u32 v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
DEV void store_shared_8(u32 address, uint2 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}
DEV void store_shared_16(u32 address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// Byte of 16-byte piece `piece` of a line of LINE bytes (32, 64, 128 or more), so that eight lines' equal
// pieces lie in different banks.
template <int LINE>
DEV u32 swizzled(int line, int piece) {
  const int turn = LINE >= 128 ? line & 7 : LINE == 64 ? line >> 1 & 3 : line >> 2 & 1;
  return (u32)(line * LINE + ((piece ^ turn) << 4));
}

// Word number i of four.
DEV u32 word(uint4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// V floats: 1, 2 or a multiple of 4.
template <int V>
DEV void load_shared(const float* from, float* out) {
  if (V == 1) out[0] = from[0];
  if (V == 2) {
    const float2 x = *(const float2*)from;
    out[0] = x.x;
    out[V - 1] = x.y;
  }
#pragma unroll
  for (int v = 0; v + 3 < V; v += 4) {
    const float4 x = *(const float4*)(from + v);
    out[v] = x.x;
    out[v + 1] = x.y;
    out[v + 2] = x.z;
    out[v + 3] = x.w;
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SHARED_MEMORY_CUH_
