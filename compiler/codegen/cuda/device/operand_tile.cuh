// The tile of an operand (A or B) of 16-bit elements in shared memory, and how it gets there.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OPERAND_TILE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OPERAND_TILE_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/place.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tile_layout.h"

// MN rows of A (columns of B) by TILE_K, copied in pieces of 16 bytes. K_MAJOR: lines run along K; else along
// M or N. VECTOR elements are one access; 0: `value` makes each; below 0: all of a piece.
template <int MN, int TILE_K, bool K_MAJOR, int VECTOR, bool BF16>
struct OperandTile {
  static constexpr OperandTileLayout LAYOUT = {MN, TILE_K, K_MAJOR};
  static constexpr int LINE = LAYOUT.line(), BYTES = LAYOUT.bytes();
  static constexpr int PIECES = LINE / 16, COPIES = MN * TILE_K / 8 / kBlockThreads;
  static constexpr bool MADE_AT_ONCE = VECTOR < 0;
  static constexpr int AT_ONCE =
      COPIES >= 12 ? 1 : 12 / (COPIES > 0 ? COPIES : 1);  // stages whose pieces registers hold
  // This thread's pieces of STAGES stages from first_k on, all read before the first is written.
  template <int STAGES, typename Value>
  DEV void fill(u32 to, u32 pitch, int first, int end, int first_k, int end_k, Value value) {
    const int piece = threadIdx.x % PIECES;
#pragma unroll
    for (int begun = 0; begun < STAGES; begun += AT_ONCE) {
      uint4 made[AT_ONCE][COPIES];
#pragma unroll
      for (int b = 0; b < AT_ONCE; ++b)
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
          if (begun + b >= STAGES) continue;
          const int mn = first + (int)threadIdx.x / PIECES + n * (kBlockThreads / PIECES),
                    k = first_k + (begun + b) * TILE_K + piece * 8;
          const bool real = mn < end && k < end_k;
          float x[8];
          value(real ? mn : 0, real ? k : 0, x);  // no branch around loads
#pragma unroll
          for (int v = 0; v < 8; ++v) x[v] = real ? x[v] : 0.0f;
          made[b][n] = make_uint4(pack_pair<BF16>(x[0], x[1]), pack_pair<BF16>(x[2], x[3]),
                                  pack_pair<BF16>(x[4], x[5]), pack_pair<BF16>(x[6], x[7]));
        }
#pragma unroll
      for (int b = 0; b < AT_ONCE; ++b)
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
          if (begun + b >= STAGES) continue;
          const int line = (int)threadIdx.x / PIECES + n * (kBlockThreads / PIECES);
          store_shared_16(to + (begun + b) * pitch + swizzled<LINE>(line, piece), made[b][n]);
        }
    }
  }
  template <typename MnAt, typename KAt, typename Present, typename Value>
  DEV void copy(u32 to, const char* base, int first, int end, int first_k, int end_k, MnAt mn_at, KAt k_at,
                Present present, Value value) {
    const int piece = threadIdx.x % PIECES;
#pragma unroll
    for (int n = 0; n < COPIES; ++n) {
      const int line = threadIdx.x / PIECES + n * (kBlockThreads / PIECES);
      const u32 slot = to + swizzled<LINE>(line, piece);
      const int mn = first + (K_MAJOR ? line : piece * 8), k = first_k + (K_MAJOR ? piece * 8 : line);
      if (VECTOR == 1) {
        u32 x[8];
        const At at_mn = mn_at(mn), at_k = k_at(k);
#pragma unroll
        for (int v = 0; v < 8; ++v) {
          const int mn_v = K_MAJOR ? mn : mn + v, k_v = K_MAJOR ? k + v : k;
          const At at = (K_MAJOR ? at_mn : mn_at(mn_v)) + (K_MAJOR ? k_at(k_v) : at_k);
          x[v] = mn_v < end && k_v < end_k && present(at) ? *(const unsigned short*)(base + 2 * at.a) : 0u;
        }
        store_shared_16(
            slot, make_uint4(x[0] | x[1] << 16, x[2] | x[3] << 16, x[4] | x[5] << 16, x[6] | x[7] << 16));
      } else if (VECTOR > 1) {
#pragma unroll
        for (int v = 0; v < 8; v += VECTOR < 1 ? 8 : VECTOR) {
          const int mn_v = K_MAJOR ? mn : mn + v, k_v = K_MAJOR ? k + v : k;
          const At at = mn_at(mn_v) + k_at(k_v);
          const bool real = mn_v < end && k_v < end_k && present(at);
          copy_async < VECTOR<2 ? 4 : VECTOR * 2>(slot + v * 2, real ? base + 2 * at.a : base, real);
        }
      } else {
        float x[8];
        if constexpr (VECTOR < 0) {
#pragma unroll
          for (int v = 0; v < 8; ++v) x[v] = 0;
          if (mn < end && k < end_k) value(mn, k, x);
        } else {
#pragma unroll
          for (int v = 0; v < 8; ++v) {
            const int mn_v = K_MAJOR ? mn : mn + v, k_v = K_MAJOR ? k + v : k;
            x[v] = mn_v < end && k_v < end_k ? value(mn_v, k_v) : 0.0f;
          }
        }
        store_shared_16(slot, make_uint4(pack_pair<BF16>(x[0], x[1]), pack_pair<BF16>(x[2], x[3]),
                                         pack_pair<BF16>(x[4], x[5]), pack_pair<BF16>(x[6], x[7])));
      }
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OPERAND_TILE_CUH_
