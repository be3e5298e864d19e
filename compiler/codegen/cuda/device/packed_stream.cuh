// PackedStream: B in fewer bits, streamed once through slots of every warp, as few_rows_stream does it:
// pieces of codes with their scales, stages ahead.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_STREAM_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_STREAM_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/packed_layout.h"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/types.cuh"

// Where B lies, by matrix.
struct PackedMatrices {
  const char* const* codes;
  const char* const* scales;
  const char* const* zeros;
};

template <PackedMatmul M>
struct PackedStream {
  static constexpr int ROWS = M.m, B_COUNT = M.b_count, STAGES = M.stages, PIECES = M.pieces;
  static constexpr int FRAGMENTS = M.fragments(), PIECE_K = M.format.piece_k(), WARP_K = M.warp_k();
  static constexpr int BLOCKS = M.blocks(), BLOCK_K = M.block_k();  // of a step; numbers along K of one
  static constexpr int COLUMNS = M.columns(), ABREAST = M.abreast();
  static constexpr int SLICES = M.warps * M.cluster;  // of K
  static constexpr int STEPS = M.steps();
  static constexpr u32 TILES = (M.n + M.tile_n() - 1) / M.tile_n(), SIXTEENS = (M.n + 15) / 16;
  static constexpr bool BF16 = M.format.bf16, EVEN_K = M.even_k(),
                        EVEN_N = SIXTEENS % (M.block_warps / M.warps) == 0;

  const PackedMatrices b;
  const int lane, g, t, k_warp, n_warp;
  const u32 rank, first, stride;  // the block's in its cluster; its tiles of columns
  const int slice;
  const u32 own, a, blank;  // shared addresses: of the warp's slot in the first stage; of A; of zeros
  // Of the next copy: its tile and step, bytes from the matrices' beginnings, the slot.
  u32 tile;
  int step;
  u64 from;
  u32 scales_from, to;
  // Where scales and zero points begin, for this lane.
  const char *scales[B_COUNT], *zeros[B_COUNT];

  MEMBER PackedStream(u32 block, u32 count, PackedMatrices b)
      : b(b),
        lane((int)kept(threadIdx.x & 31)),
        g(lane >> 2),
        t(lane & 3),
        k_warp((threadIdx.x >> 5) % M.warps),
        n_warp((threadIdx.x >> 5) / M.warps),
        rank(M.cluster > 1 ? block % M.cluster : 0),
        first(block / M.cluster),
        stride(count / M.cluster),
        slice((int)rank * M.warps + k_warp),
        own(shared_address(shared_memory) + (threadIdx.x >> 5) * M.slot()),
        a(shared_address(shared_memory) + STAGES * M.stage()),
        blank(a + M.a_bytes()),
        tile(first),
        to(own) {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) {
      scales[j] = kept(b.scales[j] + lane * 16);
      if (M.format.zeros) zeros[j] = kept(b.zeros[j] + lane * 16);
    }
    begin_tile();
  }

  // The same, kept in a register: else what it is made of is read again in every step, and waited for.
  DEV u32 kept(u32 x) {
    u32 y;
    asm volatile("mov.u32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
  }
  DEV const char* kept(const char* x) {
    const char* y;
    asm volatile("mov.u64 %0, %1;" : "=l"(y) : "l"(x));
    return y;
  }
  MEMBER u32 column() const { return tile * (M.block_warps / M.warps) + n_warp; }
  MEMBER void begin_tile() {
    step = 0;
    from = ((u64)column() * M.k_pieces() + slice * PIECES) * 512 + lane * 16;
    scales_from =
        (column() * M.k_blocks() + slice * PIECES * PIECE_K / M.format.block) * M.format.scale_row();
  }
  // The warp's part of the next step: one group of copies, which is empty behind the last tile.
  MEMBER void copy() {
    if (tile < TILES) {
      const bool real = EVEN_N || column() < SIXTEENS;
      const int piece = (step * SLICES + slice) * PIECES;
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) {
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
          const bool present = real && (EVEN_K || piece + p < M.k_pieces());
          copy_async_16<(M.streamed != 0)>(to + j * M.one() + p * 512 + lane * 16,
                                           b.codes[j] + (present ? from + p * 512 : 0), present);
        }
        copy_scales(to + j * M.one() + PIECES * 512, scales[j], piece * PIECE_K / M.format.block, real);
        if (M.format.zeros)
          copy_scales(to + j * M.one() + PIECES * 512 + M.scales(), zeros[j],
                      piece * PIECE_K / M.format.block, real);
      }
      if (++step == STEPS) {
        tile += stride;
        begin_tile();
      } else {
        from += SLICES * PIECES * 512;
        // Of one block for several steps the next may be the same.
        scales_from = M.format.block <= SLICES * WARP_K
                          ? scales_from + SLICES * WARP_K / M.format.block * M.format.scale_row()
                          : (column() * M.k_blocks() + (step * SLICES + slice) * WARP_K / M.format.block) *
                                M.format.scale_row();
      }
    }
    to = to == own + (STAGES - 1) * M.stage() ? own : to + M.stage();
    commit_copies();
  }
  MEMBER void copy_scales(u32 to, const char* scales, int block, bool real) const {
    constexpr int ROW = M.format.scale_row();  // of a block
#pragma unroll
    for (int c = 0; c < M.scales(); c += 512) {
      const int at = c + lane * 16;
      const bool present = real && (EVEN_K || block + at / ROW < M.k_blocks());
      if (M.scales() % 512 == 0 || at < M.scales())
        copy_async<16>(to + at, scales + (present ? scales_from + c : 0), present);
    }
  }
  // The scales, or zero points, of the thread's columns.
  MEMBER void scales_of(u32 at, int block, float* out) const {
    const u32 from = at + (block * 16 + 2 * g) * M.format.scale_bytes;
    if (M.format.scale_bytes == 4) {
      const uint2 x = shared_8(from);
      out[0] = bits_float(x.x);
      out[1] = bits_float(x.y);
      return;
    }
    u32 x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    if (M.format.scale_bf16) {
      out[0] = bits_float(x << 16);
      out[1] = bits_float(x & 0xffff0000u);
    } else {
      asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
          : "=f"(out[0]), "=f"(out[1])
          : "r"(x));
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_STREAM_CUH_
