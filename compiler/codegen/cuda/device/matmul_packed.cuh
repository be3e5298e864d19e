// Matmuls of 1 to 16 rows of A in 16 bits by weights of fewer bits (core/packed_weights.h), by mma.sync.
//
// B is streamed once, as few_rows_stream does it: every warp copies pieces of it, with their scales, into
// slots of its own, stages ahead. A piece is 16 columns, which take the 16-wide extent of the instruction.
// What the numbers of a block add up to is multiplied by its scale, in f32.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/few_rows_epilogue.cuh"
#include "compiler/codegen/cuda/device/packed_codes.cuh"

// Where B lies, by matrix.
struct PackedMatrices {
  const char* const* codes;
  const char* const* scales;
  const char* const* zeros;
};

template <PackedMatmul M>
struct PackedStream {
  static constexpr int ROWS = M.m, B_COUNT = M.b_count, STAGES = M.stages, PIECES = M.pieces;
  static constexpr int FRAGMENTS = (ROWS + 7) / 8, PIECE_K = M.piece_k(), WARP_K = M.warp_k();
  static constexpr int SLICES = M.warps * M.cluster;  // of K
  static constexpr int STEPS = M.steps(), PITCH = M.a_pitch();
  static constexpr u32 TILES = (M.n + M.tile_n() - 1) / M.tile_n(), COLUMNS = (M.n + 15) / 16;
  static constexpr bool BF16 = M.bf16, EVEN_K = M.even_k(), EVEN_N = COLUMNS % (8 / M.warps) == 0;
  typedef PackedCodes<M> Codes;

  const PackedMatrices b;
  const int lane, g, t, k_warp, n_warp;
  const u32 rank, first, stride;  // the block's in its cluster; its tiles of columns
  const int slice;
  const u32 own, a;  // shared addresses: of the warp's slot in the first stage; of A
  // Of the next copy: its tile and step, bytes from the matrices' beginnings, the slot.
  u32 tile;
  int step;
  u64 from;
  u32 scales_from, to;

  MEMBER PackedStream(u32 block, u32 count, PackedMatrices b)
      : b(b),
        lane(threadIdx.x & 31),
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
        tile(first),
        to(own) {
    begin_tile();
  }

  MEMBER u32 column() const { return tile * (8 / M.warps) + n_warp; }
  MEMBER void begin_tile() {
    step = 0;
    from = ((u64)column() * M.k_pieces() + slice * PIECES) * 512 + lane * 16;
    scales_from = (column() * M.k_blocks() + slice * PIECES * PIECE_K / M.block) * 16 * M.scale_bytes;
  }
  // The warp's part of the next step: one group of copies, which is empty behind the last tile.
  MEMBER void copy() {
    if (tile < TILES) {
      const bool real = EVEN_N || column() < COLUMNS;
      const int piece = (step * SLICES + slice) * PIECES;
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) {
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
          const bool present = real && (EVEN_K || piece + p < M.k_pieces());
          copy_async<16>(to + j * M.one() + p * 512 + lane * 16, b.codes[j] + (present ? from + p * 512 : 0),
                         present);
        }
        copy_scales(to + j * M.one() + PIECES * 512, b.scales[j], piece * PIECE_K / M.block, real);
        if (M.zeros)
          copy_scales(to + j * M.one() + PIECES * 512 + M.scales(), b.zeros[j], piece * PIECE_K / M.block,
                      real);
      }
      if (++step == STEPS) {
        tile += stride;
        begin_tile();
      } else {
        from += SLICES * PIECES * 512;
        // Of one block for several steps the next may be the same.
        scales_from =
            M.block <= SLICES * WARP_K
                ? scales_from + SLICES * WARP_K / M.block * 16 * M.scale_bytes
                : (column() * M.k_blocks() + (step * SLICES + slice) * WARP_K / M.block) * 16 * M.scale_bytes;
      }
    }
    to = to == own + (STAGES - 1) * M.stage() ? own : to + M.stage();
    commit_copies();
  }
  MEMBER void copy_scales(u32 to, const char* scales, int block, bool real) const {
    constexpr int ROW = 16 * M.scale_bytes;  // of a block
#pragma unroll
    for (int c = 0; c < M.scales(); c += 512) {
      const int at = c + lane * 16;
      const bool present = real && (EVEN_K || block + at / ROW < M.k_blocks());
      if (M.scales() % 512 == 0 || at < M.scales())
        copy_async<16>(to + at, scales + (present ? scales_from + at : 0), present);
    }
  }
  // This block's part of A, 32 of K at a time as fragments have them: thread t of four the pairs at 2t, 8 +
  // 2t, 16 + 2t and 24 + 2t. a_at(m, k): 8 elements along K.
  template <typename A>
  MEMBER void prepare(A a_at) const {
    const int units = STEPS * M.tile_k() / 32;
#pragma unroll 2
    for (int u = threadIdx.x; u < ROWS * units; u += kBlockThreads) {
      const int row = ROWS == 1 ? 0 : u / units, at = (ROWS == 1 ? u : u % units) * 32;
      const int k = (at / M.tile_k() * M.cluster + (int)rank) * M.tile_k() + at % M.tile_k();
      uint4 x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = k + 8 * i < M.k ? a_at(row, k + 8 * i) : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        store_shared_16(a + (u32)(row * PITCH + at) * 2 + i * 16,
                        make_uint4(word(x[0], i), word(x[1], i), word(x[2], i), word(x[3], i)));
      }
    }
  }
  // The scales, or zero points, of the thread's columns.
  MEMBER void scales_of(u32 at, int block, float* out) const {
    const u32 from = at + (block * 16 + 2 * g) * M.scale_bytes;
    if (M.scale_bytes == 4) {
      const uint2 x = shared_8(from);
      out[0] = bits_float(x.x);
      out[1] = bits_float(x.y);
      return;
    }
    u32 x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    if (M.scale_bf16) {
      out[0] = bits_float(x << 16);
      out[1] = bits_float(x & 0xffff0000u);
    } else {
      asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
          : "=f"(out[0]), "=f"(out[1])
          : "r"(x));
    }
  }
  // Adds the warp's step of a tile, which is at `at`.
  MEMBER void multiply(float (*acc)[FRAGMENTS][4], u32 at, int step) const {
    // 16s of K: of a piece; that share a scale, at most those of a piece; in a word.
    constexpr int PIECE = PIECE_K / 16, SHARE = (M.block < PIECE_K ? M.block : PIECE_K) / 16,
                  WORD = 8 / M.bits;
    const int first_k = (step * SLICES + slice) * WARP_K;
    const u32 row = a + (u32)(g * PITCH + (step * M.warps + k_warp) * WARP_K) * 2 + t * 16;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      if (!EVEN_K && first_k + p * PIECE_K >= M.k) break;
      uint4 x[PIECE / 2][FRAGMENTS];
#pragma unroll
      for (int s = 0; s < PIECE; s += 2)
#pragma unroll
        for (int n = 0; n < FRAGMENTS; ++n)
          x[s / 2][n] = 8 * n + 7 < ROWS || 8 * n + g < ROWS
                            ? shared_16(row + (8 * n * PITCH + p * PIECE_K + s * 16) * 2)
                            : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) multiply_piece<PIECE, SHARE, WORD>(acc[j], at + j * M.one(), p, x);
    }
  }
  template <int PIECE, int SHARE, int WORD>
  MEMBER void multiply_piece(float (*acc)[4], u32 at, int p, const uint4 (*x)[FRAGMENTS]) const {
    const uint4 w = shared_16(at + p * 512 + lane * 16);
    float sums[FRAGMENTS][4], scale[2], zero[2] = {(float)M.zero, (float)M.zero};
    u32 bias[2] = {Codes::bias(zero[0]), Codes::bias(zero[1])};
#pragma unroll
    for (int s = 0; s < PIECE; ++s) {
      if (s % SHARE == 0) {
        const int block = (p * PIECE_K + s * 16) / M.block % M.blocks();
        scales_of(at + PIECES * 512, block, scale);
        if (M.zeros) {
          scales_of(at + PIECES * 512 + M.scales(), block, zero);
          bias[0] = Codes::bias(zero[0]);
          bias[1] = Codes::bias(zero[1]);
        }
#pragma unroll
        for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[n][e] = 0;
      }
      const u32 low = word(w, s / WORD * 2), high = word(w, s / WORD * 2 + 1);
      const int i = s % WORD * 2;
      const u32 codes[4] = {Codes::pair(low, i, bias[0]), Codes::pair(high, i, bias[1]),
                            Codes::pair(low, i + 1, bias[0]), Codes::pair(high, i + 1, bias[1])};
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n) {
        const uint4 y = x[s / 2][n];
        mma<BF16>(sums[n], codes, s % 2 == 0 ? y.x : y.z, s % 2 == 0 ? y.y : y.w);
      }
      if (s % SHARE == SHARE - 1) {
#pragma unroll
        for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) acc[n][e] = __fmaf_rn(scale[e >> 1], sums[n][e], acc[n][e]);
      }
    }
  }
  MEMBER void store(float (*acc)[FRAGMENTS][4], float* partial) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = 8 * n + 2 * t + (e & 1), column = n_warp * 16 + g + 8 * (e >> 1);
          if (row < ROWS)
            partial[(j * M.warps + k_warp) * M.few_rows().points() + row * M.tile_n() + column] =
                acc[j][n][e];
        }
  }
};

// a_at(m, k): 8 elements of A along K; epilogue(m, n, accumulators of each B).
template <PackedMatmul M, typename A, typename Epilogue>
DEV void matmul_packed(u32 block, u32 count, PackedMatrices b, A a_at, Epilogue epilogue) {
  typedef PackedStream<M> Stream;
  PackedStream<M> stream(block, count, b);
  float* const partial = (float*)(shared_memory + M.stages * M.stage() + M.a_bytes());
  if (!M.b_constant) wait_for_earlier();
#pragma unroll 1
  for (int s = 0; s < M.stages - 1; ++s) stream.copy();
  if (M.b_constant) wait_for_earlier();
  stream.prepare(a_at);
  __syncthreads();

  u32 at = stream.own;
  for (u32 tile = stream.first; tile < Stream::TILES; tile += stream.stride) {
    float acc[M.b_count][Stream::FRAGMENTS][4] = {};
#pragma unroll 1
    for (int step = 0; step < Stream::STEPS; ++step) {
      wait_copies<M.stages - 2>();
      __syncwarp();  // lanes read what others have copied, and have read what is copied over now
      stream.copy();
      stream.multiply(acc, at, step);
      at = at == stream.own + (M.stages - 1) * M.stage() ? stream.own : at + M.stage();
    }
    stream.store(acc, partial);
    few_rows_epilogue<M.few_rows()>(partial, stream.rank, (int)tile * M.tile_n(), M.n, epilogue);
  }
  wait_copies<0>();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_
