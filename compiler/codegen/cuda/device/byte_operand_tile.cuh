// The tile of an operand (A or B) of 8-bit integers or FP8 in shared memory, and how it gets there.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BYTE_OPERAND_TILE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BYTE_OPERAND_TILE_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"
#include "compiler/codegen/cuda/device/place.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// MN rows of A (columns of B) by TILE_K, lines along K, swizzled. VECTOR bytes are one access (4, 8 or 16);
// fewer than 4: byte by byte, wherever they lie. ABSENT: the byte that stands where the operand is padded.
template <int MN, int TILE_K, int VECTOR, int ABSENT>
struct ByteOperandTile {
  static constexpr int LINE = TILE_K, BYTES = MN * TILE_K;
  static constexpr int PIECES = LINE / 16, COPIES = MN * PIECES / kBlockThreads;
  static constexpr bool MADE_AT_ONCE = false;
  static constexpr u32 PADDING = (u32)ABSENT * 0x01010101u;
  static_assert(MN * PIECES % kBlockThreads == 0, "each thread of a block has as many pieces");
  // Fills `to` with rows (columns) from `first` to `end`, of K from `first_k` to `end_k`; zeros beyond. All
  // threads of the block call.
  template <typename MnAt, typename KAt, typename Present, typename Value>
  DEV void copy(u32 to, const char* base, int first, int end, int first_k, int end_k, MnAt mn_at, KAt k_at,
                Present present, Value) {
    const int piece = threadIdx.x % PIECES;
#pragma unroll
    for (int n = 0; n < COPIES; ++n) {
      const int line = threadIdx.x / PIECES + n * (kBlockThreads / PIECES);
      const u32 slot = to + swizzled<LINE>(line, piece);
      const int mn = first + line, k = first_k + piece * 16;
      if constexpr (VECTOR >= 4) {
#pragma unroll
        for (int v = 0; v < 16; v += VECTOR) {
          const At at = mn_at(mn) + k_at(k + v);
          const bool inside = mn < end && k + v < end_k, real = inside && present(at);
          if (ABSENT != 0 && inside && !real) {
#pragma unroll
            for (int w = 0; w < VECTOR; w += 4)
              asm volatile("st.shared.u32 [%0], %1;" ::"r"(slot + v + w), "r"(PADDING) : "memory");
          } else {
            copy_async<VECTOR>(slot + v, real ? base + at.a : base, real);
          }
        }
      } else {
        u32 x[4] = {0, 0, 0, 0};
        const At at_mn = mn_at(mn);
#pragma unroll
        for (int v = 0; v < 16; ++v) {
          const At at = at_mn + k_at(k + v);
          const bool inside = mn < end && k + v < end_k;
          const u32 byte = !inside ? 0u : present(at) ? *(const unsigned char*)(base + at.a) : (u32)ABSENT;
          x[v / 4] |= byte << v % 4 * 8;
        }
        store_shared_16(slot, make_uint4(x[0], x[1], x[2], x[3]));
      }
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BYTE_OPERAND_TILE_CUH_
