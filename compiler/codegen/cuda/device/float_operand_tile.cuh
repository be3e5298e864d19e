// One side (A or B) of a tile of f32 in shared memory, and how it gets there.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_OPERAND_TILE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_OPERAND_TILE_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/place.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tile_layout.h"

// One side of a tile: SIDE rows (or columns) by TILE_K floats; lines as in OperandTile, one piece longer so
// that threads that walk down them meet different banks.
template <int SIDE, int TILE_K, bool ALONG, int VECTOR>
struct FloatOperandTile {
  static constexpr FloatOperandTileLayout LAYOUT = {SIDE, TILE_K, ALONG};
  static constexpr int PITCH = LAYOUT.pitch(), LINES = LAYOUT.lines(), BYTES = LAYOUT.bytes();
  static constexpr int PIECES = LAYOUT.length() / 4;
  static constexpr bool MADE_AT_ONCE = false;
  static constexpr int COPIES = LINES * PIECES / kBlockThreads;  // of a thread
  static_assert(LINES * PIECES % kBlockThreads == 0, "each thread of a block has as many pieces");
  // Fills `to` with rows (columns) from `side` on of `sides`, from depth k on of `depth`; zeros beyond. All
  // threads of the block call.
  template <typename Place, typename Deep, typename Present, typename Value>
  DEV void copy(u32 to, const char* base, int side, int sides, int k, int depth, Place place_at, Deep deep_at,
                Present present, Value value) {
#pragma unroll(VECTOR > 0 ? COPIES : 1)
    for (int c = 0; c < COPIES; ++c) {
      const int n = threadIdx.x + c * kBlockThreads, line = n / PIECES, piece = n % PIECES;
      const u32 slot = to + (u32)(line * PITCH + piece * 4) * 4;
      const int s = side + (ALONG ? line : piece * 4), d = k + (ALONG ? piece * 4 : line);
      if constexpr (VECTOR > 0) {
#pragma unroll
        for (int v = 0; v < 4; v += VECTOR) {
          const At at = place_at(ALONG ? s : s + v) + deep_at(ALONG ? d + v : d);
          const bool real = (ALONG ? s : s + v) < sides && (ALONG ? d + v : d) < depth && present(at);
          copy_async<VECTOR * 4>(slot + v * 4, real ? base + 4 * at.a : base, real);
        }
      } else {
        float x[4];
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
          x[v] = sv < sides && dv < depth ? value(sv, dv) : 0.0f;
        }
        store_shared_16(slot, make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
                                         __float_as_uint(x[3])));
      }
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_OPERAND_TILE_CUH_
