// The tile of an operand (A or B) of f32 in shared memory, and how it gets there.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_OPERAND_TILE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_OPERAND_TILE_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/place.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tile_layout.h"

// MN rows of A (columns of B) by TILE_K floats; lines as in OperandTile, one piece longer so that threads
// that walk down them meet different banks.
template <int MN, int TILE_K, bool K_MAJOR, int VECTOR>
struct FloatOperandTile {
  static constexpr FloatOperandTileLayout LAYOUT = {MN, TILE_K, K_MAJOR};
  static constexpr int PITCH = LAYOUT.pitch(), LINES = LAYOUT.lines(), BYTES = LAYOUT.bytes();
  static constexpr int PIECES = LAYOUT.length() / 4;
  static constexpr bool MADE_AT_ONCE = false;
  static constexpr int COPIES = LINES * PIECES / kBlockThreads;  // of a thread
  static_assert(LINES * PIECES % kBlockThreads == 0, "each thread of a block has as many pieces");
  // Fills `to` with rows (columns) from `first` to `end`, of K from `first_k` to `end_k`; zeros beyond. All
  // threads of the block call.
  template <typename MnAt, typename KAt, typename Present, typename Value>
  DEV void copy(u32 to, const char* base, int first, int end, int first_k, int end_k, MnAt mn_at, KAt k_at,
                Present present, Value value) {
#pragma unroll(VECTOR > 0 ? COPIES : 1)
    for (int c = 0; c < COPIES; ++c) {
      const int n = threadIdx.x + c * kBlockThreads, line = n / PIECES, piece = n % PIECES;
      const u32 slot = to + (u32)(line * PITCH + piece * 4) * 4;
      const int mn = first + (K_MAJOR ? line : piece * 4), k = first_k + (K_MAJOR ? piece * 4 : line);
      if constexpr (VECTOR > 0) {
#pragma unroll
        for (int v = 0; v < 4; v += VECTOR) {
          const At at = mn_at(K_MAJOR ? mn : mn + v) + k_at(K_MAJOR ? k + v : k);
          const bool real = (K_MAJOR ? mn : mn + v) < end && (K_MAJOR ? k + v : k) < end_k && present(at);
          copy_async<VECTOR * 4>(slot + v * 4, real ? base + 4 * at.a : base, real);
        }
      } else {
        float x[4];
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          const int mn_v = K_MAJOR ? mn : mn + v, k_v = K_MAJOR ? k + v : k;
          x[v] = mn_v < end && k_v < end_k ? value(mn_v, k_v) : 0.0f;
        }
        store_shared_16(slot, make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
                                         __float_as_uint(x[3])));
      }
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_OPERAND_TILE_CUH_
