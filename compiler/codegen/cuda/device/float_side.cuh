// One side (A or B) of a tile of f32 in shared memory, and how it gets there.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_SIDE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_SIDE_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/place.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// One side of a tile: SIDE rows (or columns) by DEEP floats; lines as in TileSide, one piece longer so that
// threads that walk down them meet different banks.
template <int SIDE, int DEEP, bool ALONG, int VECTOR>
struct FloatSide {
  static constexpr int LENGTH = ALONG ? DEEP : SIDE, PITCH = LENGTH + 4, LINES = ALONG ? SIDE : DEEP,
                       PIECES = LENGTH / 4;
  static constexpr int BYTES = LINES * PITCH * 4;
  template <typename Place, typename Deep, typename Present, typename Value>
  DEV void copy(u32 to, const char* base, int side, int sides, int k, int depth, Place place_at, Deep deep_at,
                Present present, Value value) {
    for (int n = threadIdx.x; n < LINES * PIECES; n += 256) {
      const int line = n / PIECES, piece = n % PIECES;
      const u32 slot = to + (u32)(line * PITCH + piece * 4) * 4;
      const int s = side + (ALONG ? line : piece * 4), d = k + (ALONG ? piece * 4 : line);
      if (VECTOR > 0) {
#pragma unroll
        for (int v = 0; v<4; v += VECTOR> 0 ? VECTOR : 4) {
          const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
          const At at = place_at(sv) + deep_at(dv);
          const bool real = sv < sides && dv < depth && present(at);
          copy_async < VECTOR<1 ? 4 : VECTOR * 4>(slot + v * 4, real ? base + 4 * at.a : base, real);
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

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FLOAT_SIDE_CUH_
