// What a PackedStream streams, multiplied by A in 16 bits by mma.sync.
//
// A piece is 16 columns, which take the 16-wide extent of the instruction. What the numbers of a block add up
// to is multiplied by its scale, in f32. Columns of the instruction for which there are no rows take further
// blocks, so that there are fewer sums to scale.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_HALVES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_HALVES_CUH_

#include "compiler/codegen/cuda/device/packed_codes.cuh"
#include "compiler/codegen/cuda/device/packed_stream.cuh"

template <PackedMatmul M>
struct PackedHalves : PackedStream<M> {
  typedef PackedStream<M> Stream;
  typedef PackedCodes<M.format, M.summed()> Codes;
  using Stream::lane, Stream::g, Stream::t, Stream::k_warp, Stream::n_warp, Stream::rank, Stream::slice,
      Stream::a, Stream::blank, Stream::scales_of;
  using Stream::ROWS, Stream::B_COUNT, Stream::STAGES, Stream::PIECES, Stream::FRAGMENTS, Stream::PIECE_K,
      Stream::WARP_K, Stream::BLOCKS, Stream::BLOCK_K, Stream::COLUMNS, Stream::ABREAST, Stream::SLICES,
      Stream::STEPS, Stream::BF16, Stream::EVEN_K;
  static constexpr int PITCH = M.a_pitch(), VALUES = 4;
  using Stream::Stream;

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

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_HALVES_CUH_
