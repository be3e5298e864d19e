// Matmuls of 1 to 16 rows of A in 16 bits by weights of fewer bits (core/packed_weights.h), by mma.sync.
//
// B is streamed once, as few_rows_stream does it: every warp copies pieces of it, with their scales, into
// slots of its own, stages ahead. A piece is 16 columns, which take the 16-wide extent of the instruction.
// What the numbers of a block add up to is multiplied by its scale, in f32. Columns of the instruction for
// which there are no rows take further blocks, so that there are fewer sums to scale.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/few_rows_epilogue.cuh"
#include "compiler/codegen/cuda/device/packed_codes.cuh"
#include "compiler/codegen/cuda/device/packed_layout.h"

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
  static constexpr int STEPS = M.steps(), PITCH = M.a_pitch();
  static constexpr u32 TILES = (M.n + M.tile_n() - 1) / M.tile_n(), SIXTEENS = (M.n + 15) / 16;
  static constexpr bool BF16 = M.format.bf16, EVEN_K = M.even_k(),
                        EVEN_N = SIXTEENS % (M.block_warps / M.warps) == 0;
  typedef PackedCodes<M.format, M.summed()> Codes;

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
        blank(a + M.a_bytes()),
        tile(first),
        to(own) {
    begin_tile();
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
          copy_async_once(to + j * M.one() + p * 512 + lane * 16, b.codes[j] + (present ? from + p * 512 : 0),
                          present);
        }
        copy_scales(to + j * M.one() + PIECES * 512, b.scales[j], piece * PIECE_K / M.format.block, real);
        if (M.format.zeros)
          copy_scales(to + j * M.one() + PIECES * 512 + M.scales(), b.zeros[j],
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
        copy_async<16>(to + at, scales + (present ? scales_from + at : 0), present);
    }
  }
  // This block's part of A, 32 of K at a time as fragments have them: thread t of four the pairs at 2t, 8 +
  // 2t, 16 + 2t and 24 + 2t; the sums of its blocks; zeros. a_at(m, k): 8 elements along K.
  template <typename A>
  MEMBER void prepare(A a_at) const {
    constexpr int UNITS = STEPS * M.tile_k() / 32;
    if (threadIdx.x * 16 < M.blank_bytes()) store_shared_16(blank + threadIdx.x * 16, make_uint4(0, 0, 0, 0));
#pragma unroll 2
    for (int begin = 0; begin < ROWS * UNITS; begin += M.threads()) {
      const int u = begin + threadIdx.x, row = u / UNITS, at = u % UNITS * 32;
      const int k = (at / M.tile_k() * M.cluster + (int)rank) * M.tile_k() + at % M.tile_k();
      uint4 x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[i] = row < ROWS && k + 8 * i < M.k ? a_at(row, k + 8 * i) : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (row < ROWS)
          store_shared_16(a + (u32)(row * PITCH + at) * 2 + i * 16,
                          make_uint4(word(x[0], i), word(x[1], i), word(x[2], i), word(x[3], i)));
      }
      if (M.summed()) keep_sums(x, row, at);
    }
  }
  // What the codes' sums of those blocks have too much; with zero points, for each of them.
  MEMBER void keep_sums(const uint4* x, int row, int at) const {
    constexpr int HALVES = BLOCK_K < 32 ? 2 : 1;
    float sums[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const u32 pair = word(x[i / 4], i % 4);
      sums[i / 8 % HALVES] += bits_float(pair << 16) + bits_float(pair & 0xffff0000u);
    }
#pragma unroll
    for (int other = 1; other < BLOCK_K / 32; other *= 2) sums[0] += __shfl_xor_sync(~0u, sums[0], other);
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
      const float sum = M.format.zeros ? -sums[h] : -(128.0f + M.format.zero) * sums[h];
      if (row < ROWS && at % BLOCK_K == 0) {
        float* const to = (float*)(too_much(at / BLOCK_K + h) + (row / 8 * COLUMNS + row % 8) / 2) + row % 2;
        to[0] = to[2] = sum;
      }
    }
  }
  // As accumulators have it: of two rows, twice.
  MEMBER float4* too_much(int block) const {
    return (float4*)(shared_memory + STAGES * M.stage() + M.a_bytes() + M.blank_bytes()) +
           block * FRAGMENTS * COLUMNS / 2;
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
  // Adds the warp's step of a tile, which is at `at`. Blocks that take columns side by side are added up
  // together: column g of an instruction has row g % COLUMNS for block g / COLUMNS, and zeros for the others.
  MEMBER void multiply(float (*acc)[FRAGMENTS][4], u32 at, int step) const {
    const int first_k = (step * SLICES + slice) * WARP_K, own_step = step * M.warps + k_warp;
    if (!EVEN_K && first_k >= M.k) return;
    u32 rows[FRAGMENTS][ABREAST];
#pragma unroll
    for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
      for (int i = 0; i < ABREAST; ++i) {
        const int row = 8 * n + g % COLUMNS;
        const bool real = (8 * n + COLUMNS <= ROWS || row < ROWS) && (COLUMNS == 8 || g / COLUMNS == i);
        rows[n][i] = real ? a + (u32)(row * PITCH + own_step * WARP_K) * 2 + t * 16 : blank + t * 16;
      }
    uint4 w[B_COUNT];
#pragma unroll
    for (int block = 0; block < BLOCKS; block += ABREAST)
      multiply_blocks(acc, at, w, rows, block, too_much(own_step * BLOCKS + block) + t);
  }
  // The blocks [block, block + ABREAST) of the step; w: the piece that was read last.
  MEMBER void multiply_blocks(float (*acc)[FRAGMENTS][4], u32 at, uint4* w, const u32 (*rows)[ABREAST],
                              int block, const float4* more) const {
    constexpr int PIECE = PIECE_K / 16, SHARE = BLOCK_K / 16,
                  WORD = 8 / M.format.bits;  // 16s of K; in a word
    const int lane_block = block + 2 * t / COLUMNS % ABREAST;
    float sums[B_COUNT][FRAGMENTS][4];
    float scale[B_COUNT][2];
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) {
      scales_of(at + j * M.one() + PIECES * 512, lane_block, scale[j]);
      begin_sums(sums[j], at + j * M.one() + PIECES * 512 + M.scales(), lane_block, more);
    }
    uint4 x[FRAGMENTS];
    u32 bias[B_COUNT][2];
#pragma unroll
    for (int s = block * SHARE; s < (block + ABREAST) * SHARE; ++s) {
      const int i = s / SHARE - block;
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n)
        if (s % 2 == 0 || s % SHARE == 0) x[n] = shared_16(rows[n][i] + s / 2 * 64);
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) {
        if (s % PIECE == 0) w[j] = shared_16(at + j * M.one() + s / PIECE * 512 + lane * 16);
        if (s % SHARE == 0 && !M.summed()) bias_of(at + j * M.one(), s / SHARE, bias[j]);
        const int in = s % PIECE, pair = in % WORD * 2;
        const u32 low = word(w[j], in / WORD * 2), high = word(w[j], in / WORD * 2 + 1);
        const u32 codes[4] = {Codes::pair(low, pair, bias[j][0]), Codes::pair(high, pair, bias[j][1]),
                              Codes::pair(low, pair + 1, bias[j][0]),
                              Codes::pair(high, pair + 1, bias[j][1])};
#pragma unroll
        for (int n = 0; n < FRAGMENTS; ++n)
          mma<BF16>(sums[j][n], codes, s % 2 == 0 ? x[n].x : x[n].z, s % 2 == 0 ? x[n].y : x[n].w);
      }
    }
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[j][n][e] = __fmaf_rn(scale[j][e >> 1], sums[j][n][e], acc[j][n][e]);
  }
  // zeros: shared address of the step's zero points.
  MEMBER void begin_sums(float (*sums)[4], u32 zeros, int block, const float4* more) const {
    float zero[2] = {0, 0};
    if (M.summed() && M.format.zeros) scales_of(zeros, block, zero);
#pragma unroll
    for (int n = 0; n < FRAGMENTS; ++n) {
      const float4 sum = M.summed() ? more[n * COLUMNS / 2] : make_float4(0, 0, 0, 0);
      sums[n][0] = sum.x, sums[n][1] = sum.y, sums[n][2] = sum.z, sums[n][3] = sum.w;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (M.format.zeros) sums[n][e] *= 128.0f + zero[e >> 1];
    }
  }
  MEMBER void bias_of(u32 at, int block, u32* bias) const {
    float zero[2] = {(float)M.format.zero, (float)M.format.zero};
    if (M.format.zeros) scales_of(at + PIECES * 512 + M.scales(), block, zero);
    bias[0] = Codes::bias(zero[0]);
    bias[1] = Codes::bias(zero[1]);
  }
  MEMBER void store(float (*acc)[FRAGMENTS][4], float* partial) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (ROWS == 1 && e % 2 != 0) continue;
          float sum = acc[j][n][e];
#pragma unroll
          for (int other = COLUMNS / 2; other < COLUMNS / 2 * ABREAST; other *= 2)
            sum += __shfl_xor_sync(~0u, sum, other);
          const int row = 8 * n + 2 * t % COLUMNS + (e & 1), column = n_warp * 16 + g + 8 * (e >> 1);
          if (2 * t < COLUMNS && row < ROWS)
            partial[(j * M.warps + k_warp) * M.few_rows().points() + row * M.tile_n() + column] = sum;
        }
  }
};

// a_at(m, k): 8 elements of A along K; epilogue(m, n, accumulators of each B).
template <PackedMatmul M, typename A, typename Epilogue>
DEV void matmul_packed(u32 block, u32 count, PackedMatrices b, A a_at, Epilogue epilogue) {
  typedef PackedStream<M> Stream;
  PackedStream<M> stream(block, count, b);
  float* const partial = (float*)(shared_memory + M.accumulators_at());
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
