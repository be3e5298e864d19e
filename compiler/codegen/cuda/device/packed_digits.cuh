// What a PackedStream streams, multiplied by A on the units of tensor cores for bytes: whole numbers exactly
// in 32 bits, FP8 as it lies.
//
// Of a block (PackedMatmul::block_k), the elements of a row of A are taken as two digits (digits.cuh), the
// columns 2 m and 2 m + 1 of the instruction. An element that is no finite number makes the block NaN.
// Columns of the instruction for which there are no rows take further blocks, as in packed_halves.cuh.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_DIGITS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_DIGITS_CUH_

#include "compiler/codegen/cuda/device/digits.cuh"
#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/packed_codes.cuh"
#include "compiler/codegen/cuda/device/packed_stream.cuh"

template <bool REAL>
struct PackedDigitSums {
  typedef int Type;
};
template <>
struct PackedDigitSums<true> {
  typedef float Type;
};

template <PackedMatmul M>
struct PackedDigits : PackedStream<M> {
  typedef PackedStream<M> Stream;
  using Stream::lane, Stream::g, Stream::t, Stream::k_warp, Stream::n_warp, Stream::rank, Stream::a,
      Stream::blank, Stream::scales_of;
  using Stream::ROWS, Stream::B_COUNT, Stream::STAGES, Stream::PIECES, Stream::FRAGMENTS, Stream::PIECE_K,
      Stream::WARP_K, Stream::BLOCKS, Stream::BLOCK_K, Stream::COLUMNS, Stream::ABREAST, Stream::STEPS,
      Stream::BF16;
  static constexpr int PITCH = M.digit_pitch();
  static constexpr int UNITS = BLOCK_K / 32;  // of K, that an instruction takes
  static constexpr int VALUES = 2;            // of a fragment: the columns g and g + 8 of a piece
  // Codes are multiplied less OFFSET, times TIMES: of 4 bits, the middle is taken off in the place where they
  // lie, the upper half of a byte.
  static constexpr bool NIBBLES = M.format.bits == 4,
                        REAL = M.format.type == kPackedE4M3 || M.format.type == kPackedE5M2;
  static constexpr int OFFSET = NIBBLES ? 8 : 0, TIMES = NIBBLES ? 16 : 1;
  static constexpr bool CORRECTED = !REAL && (M.format.zeros || M.format.zero != OFFSET);  // for zero points
  static_assert(REAL || WARP_K * (NIBBLES ? 128 : 255) <= 65536, "sums of two digits overflow 32 bits");
  static_assert(!REAL || (BF16 && Stream::EVEN_K), "codes behind the end of K may be no numbers");
  using Stream::Stream;

  // This block's part of A, 32 of K at a time: of each row and digit the bytes of thread t of four, in the
  // order of the codes that it multiplies by them; of its blocks, the terms. a_at(m, k): 8 elements along K.
  // Up to four threads share the 32, as far as there are threads: with two, each has every other word of the
  // bytes (HALVES), with four, half of those (WORDS).
  static constexpr int ALL = STEPS * M.tile_k() / 32;
  static constexpr int SHARERS = ROWS * ALL * 4 <= M.threads() ? 4 : ROWS * ALL * 2 <= M.threads() ? 2 : 1;
  static constexpr int HALVES = SHARERS == 1 ? 2 : 1, WORDS = SHARERS == 4 ? 2 : 4;
  static_assert(SHARERS * UNITS <= 32, "a block's greatest is found by one warp");
  // What a thread has of 32 elements: bytes of codes have the pairs of `first` and `second` by turns.
  struct Elements {
    u32 first[HALVES][WORDS], second[HALVES][WORDS];
  };
  static constexpr u32 THREADS = M.threads(), COUNT = ROWS * ALL * SHARERS;
  static constexpr int AT_ONCE = COUNT > THREADS ? 2 : 1;  // what one thread waits for together
  // Whether that is all, and whether all threads have some: of one row. Of more, saying so made slower code.
  static constexpr bool ONCE = ROWS == 1 && COUNT <= AT_ONCE * THREADS,
                        EVEN = ROWS == 1 && COUNT % (AT_ONCE * THREADS) == 0;
  DEV int row_of(u32 unit) { return ROWS == 1 ? !EVEN && unit >= ALL : (int)(unit / ALL); }
  template <typename A>
  MEMBER void prepare(A a_at) const {
    if (threadIdx.x * 16 < M.blank_bytes()) store_shared_16(blank + threadIdx.x * 16, make_uint4(0, 0, 0, 0));
    const u32 sharer = threadIdx.x % SHARERS;
#pragma unroll 1
    for (u32 begin = threadIdx.x; ONCE ? begin == threadIdx.x : begin < COUNT + threadIdx.x;
         begin += AT_ONCE * THREADS) {
      Elements x[AT_ONCE];
#pragma unroll
      for (int v = 0; v < AT_ONCE; ++v) {
        const u32 unit = (begin + v * THREADS) / SHARERS;
        read(a_at, row_of(unit), (int)(unit - row_of(unit) * ALL) * 32, sharer, x + v);
      }
#pragma unroll
      for (int v = 0; v < AT_ONCE; ++v) {
        const u32 unit = (begin + v * THREADS) / SHARERS;
        keep(x[v], row_of(unit), (int)(unit - row_of(unit) * ALL) * 32, sharer);
      }
    }
  }
  template <typename A>
  MEMBER void read(A a_at, int row, int at, u32 sharer, Elements* x) const {
    const int k =
        M.cluster == 1 ? at : (at / M.tile_k() * M.cluster + (int)rank) * M.tile_k() + at % M.tile_k();
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
      for (int other = 0; other < 2; ++other) {
        const int half = HALVES == 2 ? h : (int)(sharer % 2);
        const int from = k + 8 * (NIBBLES ? half + 2 * other : 2 * half + other);
        const uint4 eight =
            (EVEN || row < ROWS) && (Stream::EVEN_K || from < M.k) ? a_at(row, from) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
          const u32 own = WORDS == 4 || sharer < 2 ? word(eight, w) : word(eight, 2 + w);
          (other == 0 ? x->first : x->second)[h][w] = own;
        }
      }
  }
  // The greatest of the 16-bit numbers without their signs, as such bits, among the threads of a block.
  DEV u32 greatest(const Elements& x) {
    u32 pairs = 0;
#pragma unroll
    for (int i = 0; i < HALVES * WORDS; ++i) {
      pairs = greater_pair(pairs, x.first[i / WORDS][i % WORDS] & 0x7fff7fffu);
      pairs = greater_pair(pairs, x.second[i / WORDS][i % WORDS] & 0x7fff7fffu);
    }
    u32 most = pairs >> 16 > (pairs & 0xffffu) ? pairs >> 16 : pairs & 0xffffu;
#if __CUDA_ARCH__ >= 800
    if (SHARERS * UNITS == 32) return __reduce_max_sync(~0u, most);
    if (SHARERS * UNITS == 16) {  // two at once are sooner there than four exchanges
      const bool upper = threadIdx.x & 16;
      const u32 low = __reduce_max_sync(~0u, upper ? 0 : most),
                high = __reduce_max_sync(~0u, upper ? most : 0);
      return upper ? high : low;
    }
#endif
#pragma unroll
    for (int other = 1; other < SHARERS * UNITS; other *= 2) {
      const u32 theirs = __shfl_xor_sync(~0u, most, other);
      most = most > theirs ? most : theirs;
    }
    return most;
  }
  MEMBER void keep(const Elements& x, int row, int at, u32 sharer) const {
    const DigitScale scale = REAL ? real_digit_scale(greatest(x)) : digit_scale<BF16>(greatest(x));
    const u32 to = a + row * 2 * PITCH + at + (SHARERS > 1 ? sharer % 2 * 4 + sharer / 2 * 16 : 0);
    u32 sum = 0;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      u32 high[HALVES], low[HALVES];
#pragma unroll
      for (int h = 0; h < HALVES; ++h) {
        if constexpr (REAL)
          four_real_digits(x.first[h][w], x.second[h][w], scale.up, high[h], low[h]);
        else
          four_digits<BF16, CORRECTED>(x.first[h][w], x.second[h][w], scale.up, high[h], low[h], sum);
      }
      if (!EVEN && row >= ROWS) continue;
      if (HALVES == 2) {
        store_shared_8(to + w * 8, make_uint2(high[0], high[HALVES - 1]));
        store_shared_8(to + PITCH + w * 8, make_uint2(low[0], low[HALVES - 1]));
      } else {
        store_shared_4(to + w * 8, high[0]);
        store_shared_4(to + PITCH + w * 8, low[0]);
      }
    }
    sum -= (u32)(HALVES * WORDS * 4) * (u32)__float_as_int(digit_magic());
#pragma unroll
    for (int other = 1; CORRECTED && other < SHARERS * UNITS; other *= 2)
      sum += __shfl_xor_sync(~0u, sum, other);
    if ((EVEN || row < ROWS) && at % BLOCK_K == 0 && sharer == 0) {
      const float zero = M.format.zeros ? 1.0f : (float)(M.format.zero - OFFSET);
      store_shared_8(terms(at / BLOCK_K) + (row / 4 * COLUMNS / 2 + row % 4) * 8,
                     make_uint2((u32)__float_as_int(scale.unit / TIMES),
                                (u32)__float_as_int(-zero * (float)TIMES * (float)(int)sum)));
    }
  }
  // Where a block's terms are: of each row the factor of its sums, and what is added to them for the zero
  // point, or for 1 of it.
  MEMBER u32 terms(int block) const {
    return shared_address(shared_memory) + STAGES * M.stage() + M.a_bytes() + M.blank_bytes() +
           block * FRAGMENTS * COLUMNS / 2 * 8;
  }

  // Adds the warp's step of a tile, which is at `at`. Blocks that take columns side by side are added up
  // together: column g of an instruction is a digit of block g / COLUMNS, and zero for the others.
  MEMBER void multiply(float (*acc)[FRAGMENTS][VALUES], u32 at, int step) const {
    const int own_step = step * M.warps + k_warp, own = g / COLUMNS % ABREAST;
    u32 rows[FRAGMENTS];
#pragma unroll
    for (int n = 0; n < FRAGMENTS; ++n) {
      const int column = 8 * n + g % COLUMNS, row = column / 2;
      const bool real = ROWS % 4 == 0 || row < ROWS;
      rows[n] =
          (real ? a + (2 * row + column % 2) * PITCH + own_step * WARP_K : blank) + t * 8 + own * BLOCK_K;
    }
    uint4 w[B_COUNT];
#pragma unroll
    for (int block = 0; block < BLOCKS; block += ABREAST)
      multiply_blocks(acc, at, w, rows, block, terms(own_step * BLOCKS + block) + t * 8, own);
  }
  // The blocks [block, block + ABREAST) of the step; w: the piece that was read last; own: which of them the
  // thread has digits of.
  MEMBER void multiply_blocks(float (*acc)[FRAGMENTS][VALUES], u32 at, uint4* w, const u32* rows, int block,
                              u32 terms, int own) const {
    constexpr int PIECE_UNITS = PIECE_K / 32;
    uint2 x[FRAGMENTS][UNITS];
#pragma unroll
    for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
      for (int u = 0; u < UNITS; ++u) x[n][u] = shared_8(rows[n] + block * BLOCK_K + u * 32);
    typename PackedDigitSums<REAL>::Type sums[B_COUNT][FRAGMENTS][4] = {};
#pragma unroll
    for (int i = 0; i < ABREAST; ++i)
#pragma unroll
      for (int u = 0; u < UNITS; ++u) {
        const int s = (block + i) * UNITS + u;
#pragma unroll
        for (int j = 0; j < B_COUNT; ++j) {
          if (s % PIECE_UNITS == 0) w[j] = shared_16(at + j * M.one() + s / PIECE_UNITS * 512 + lane * 16);
          u32 codes[4];
          bytes_of(w[j], s % PIECE_UNITS, codes);
#pragma unroll
          for (int n = 0; n < FRAGMENTS; ++n) {
            const bool real = ABREAST == 1 || own == i;
            const u32 low = real ? x[n][u].x : 0, high = real ? x[n][u].y : 0;
            if constexpr (REAL)
              mma_fp8<M.format.type == kPackedE5M2>(sums[j][n], codes, low, high);
            else
              mma_bytes<NIBBLES, true>(sums[j][n], codes, low, high);
          }
        }
      }
    const int lane_block = block + 2 * t / COLUMNS % ABREAST;
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) {
      const u32 scales = at + j * M.one() + PIECES * 512;
      float scale[2], zero[2];
      scales_of(scales, lane_block, scale);
      if (M.format.zeros) scales_of(scales + M.scales(), lane_block, zero);
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n) {
        const uint2 term = shared_8(terms + n * COLUMNS / 2 * 8);
#pragma unroll
        for (int h = 0; h < VALUES; ++h) {
          float sum = value_of(sums[j][n][2 * h], sums[j][n][2 * h + 1]);
          if (M.format.zeros)
            sum = __fmaf_rn(zero[h] - OFFSET, bits_float(term.y), sum);
          else if (CORRECTED)
            sum += bits_float(term.y);
          acc[j][n][h] = __fmaf_rn(scale[h] * bits_float(term.x), sum, acc[j][n][h]);
        }
      }
    }
  }
  // What sums of the upper and the lower digits make.
  DEV float value_of(int upper, int lower) { return (float)(upper * 256 + lower); }
  DEV float value_of(float upper, float lower) { return __fmaf_rn(lower, 0.0625f, upper); }
  // The codes of unit u of a piece's 16 bytes, one a byte.
  DEV void bytes_of(uint4 w, int u, u32* codes) {
    if (NIBBLES) {
      nibble_bytes(word(w, 2 * u), word(w, 2 * u + 1), codes);
    } else {
      codes[0] = w.x, codes[1] = w.y, codes[2] = w.z, codes[3] = w.w;
    }
  }
  MEMBER void store(float (*acc)[FRAGMENTS][VALUES], float* partial) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
        for (int h = 0; h < VALUES; ++h) {
          float sum = acc[j][n][h];
#pragma unroll
          for (int other = COLUMNS / 2; other < COLUMNS / 2 * ABREAST; other *= 2)
            sum += __shfl_xor_sync(~0u, sum, other);
          const int row = 4 * n + t % (COLUMNS / 2), column = n_warp * 16 + g + 8 * h;
          if (2 * t < COLUMNS && row < ROWS)
            partial[(j * M.warps + k_warp) * M.few_rows().points() + row * M.tile_n() + column] = sum;
        }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_DIGITS_CUH_
