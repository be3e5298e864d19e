// Stages of matmul_packed_tiles.cuh in which A lies as two digits of 8 bits (digits.cuh): a thread asks for
// boxes of A as it is, and of B; three warps make digits of a step each, in turns, so that what one waits for
// in a step is beside the others' work.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_DIGIT_COPIES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_DIGIT_COPIES_CUH_

#include "compiler/codegen/cuda/device/digits.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_copies.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What sums of products of codes and digits are multiplied by and less, of each row and block: (unit, shift).
template <PackedTiles MATMUL>
struct PackedTilesTerms {
  // Codes are multiplied less OFFSET, times TIMES (nibble_bytes).
  static constexpr bool NIBBLES = MATMUL.format.bits == 4;
  static constexpr int OFFSET = NIBBLES ? 8 : 0, TIMES = NIBBLES ? 16 : 1;
  static constexpr bool CORRECTED = MATMUL.format.zeros || MATMUL.format.zero != OFFSET;  // for zero points
  static_assert(MATMUL.stage_k * (NIBBLES ? 128 : 255) <= 65536, "sums of two digits overflow 32 bits");

  // Where a stage has them, from its begin on.
  DEV u32 at(int row, int block) {
    return (u32)(MATMUL.terms_at() + (row * MATMUL.digit_blocks() + block) * 8);
  }
};

template <PackedTiles MATMUL, typename MakeA>
struct PackedTilesDigitCopies : PackedTilesCopies<MATMUL, MakeA> {
  typedef PackedTilesCopies<MATMUL, MakeA> Copies;
  typedef PackedTilesTerms<MATMUL> Terms;
  using Copies::Copies, Copies::own, Copies::thread, Copies::M, Copies::STAGE_K;
  static constexpr bool BF16 = MATMUL.format.bf16;
  // A lane has 16 of the 32 along K that an instruction takes, in the order of the codes: its share of a
  // digit's line is 16 bytes.
  static constexpr int SHARERS = STAGE_K / 16, ROWS = 32 / SHARERS;  // of a row, at a time
  static constexpr int BLOCK_SHARERS = MATMUL.digit_k() / 16;        // lanes that share a power of two
  static constexpr u32 WARPS = MATMUL.digit_warps(), RAW_STEPS = MATMUL.raw_steps(), RAW = MATMUL.a_bytes();
  static constexpr u32 STAGES = MATMUL.stages;
  static_assert(STAGE_K == 128, "a line of a digit is 128 bytes");

  MEMBER void run() const {
    if (thread >= 32)
      make_steps((u32)thread / 32 - 1);
    else if (thread == 0)
      ask_steps();
    __syncwarp();
  }

 private:
  // One after another, of A and of B: who waits for A of a step knows that stages of all steps before it were
  // free.
  MEMBER void ask_steps() const {
    int m = 0, n = 0;
    if (own.first < own.tiles) own.place(own.first, m, n);
    int ahead = Copies::ask_ahead(n);
    u32 stage = 0, phase = 1, raw = 0, raw_phase = 1;
    wait_for_earlier();
    for (u32 tile = own.first; tile < own.tiles; tile += own.stride) {
      own.place(tile, m, n);
      for (int step = own.begin; step < own.end; ++step) {
        mbarrier_wait(own.raw_empty + 8 * raw, raw_phase);
        mbarrier_expect(own.raw_full + 8 * raw, RAW);
        Copies::copy_a(own.raw + raw * RAW, own.raw_full + 8 * raw, m, step);
        if (ahead > 0) {
          --ahead;
        } else {
          mbarrier_wait(own.empty + 8 * stage, phase);
          Copies::copy_b((int)stage, n, step);
        }
        if (++raw == RAW_STEPS) raw = 0, raw_phase ^= 1;
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
  }
  // Every WARPS-th step from number `warp` on, counted over all tiles.
  MEMBER void make_steps(u32 warp) const {
    if (own.begin >= own.end) return;
    const u32 tiles = own.first < own.tiles ? (own.tiles - own.first + own.stride - 1) / own.stride : 0,
              steps = tiles * (u32)(own.end - own.begin);
    u32 stage = warp % STAGES, phase = warp / STAGES & 1 ^ 1, raw = warp, raw_phase = 0;
    for (u32 step = warp; step < steps; step += WARPS) {
      mbarrier_wait(own.raw_full + 8 * raw, raw_phase);
      mbarrier_wait(own.empty + 8 * stage, phase);
      make(own.raw + raw * RAW, own.memory + stage * MATMUL.stage());
      fence_proxy_async();
      __syncwarp();
      if (thread % 32 == 0) {
        mbarrier_arrive(own.full + 8 * stage);
        mbarrier_arrive(own.raw_empty + 8 * raw);
      }
      raw += WARPS;
      if (raw >= RAW_STEPS) raw -= RAW_STEPS, raw_phase ^= 1;
      for (stage += WARPS; stage >= STAGES; stage -= STAGES) phase ^= 1;
    }
  }
  // Digits of a step, whose A lies at `raw`.
  MEMBER void make(u32 raw, u32 stage) const {
    // Eights of K: bytes of codes have the elements of two by turns.
    const int share = share_of(), first = share / 2 * 4 + (Terms::NIBBLES ? share % 2 : share % 2 * 2);
#pragma unroll
    for (int i = 0; i < M; i += ROWS) {
      const int row = i + (int)(threadIdx.x & 31) / SHARERS;
      keep_row(eight(raw, row, first), eight(raw, row, first + (Terms::NIBBLES ? 2 : 1)), row, stage);
    }
  }
  DEV int share_of() { return (int)(threadIdx.x % SHARERS); }
  DEV uint4 eight(u32 raw, int row, int k) {
    return shared_16(raw + (u32)(k / 8 * (M * 128)) + swizzled<128>(row, k % 8));
  }
  MEMBER void keep_row(uint4 first, uint4 second, int row, u32 stage) const {
    const int share = share_of();
    const DigitScale scale = digit_scale<BF16>(greatest(first, second));
    u32 sum = 0, high[4], low[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      four_digits<BF16, Terms::CORRECTED>(word(first, w), word(second, w), scale.up, high[w], low[w], sum);
    store_shared_16(stage + swizzled<128>(2 * row, share), make_uint4(high[0], high[1], high[2], high[3]));
    store_shared_16(stage + swizzled<128>(2 * row + 1, share), make_uint4(low[0], low[1], low[2], low[3]));
    sum -= 16 * (u32)__float_as_int(digit_magic());
#pragma unroll
    for (int other = 1; Terms::CORRECTED && other < BLOCK_SHARERS; other *= 2)
      sum += __shfl_xor_sync(~0u, sum, other);
    if (share % BLOCK_SHARERS == 0) {
      const float zero = MATMUL.format.zeros ? 1.0f : (float)(MATMUL.format.zero - Terms::OFFSET);
      store_shared_8(stage + Terms::at(row, share / BLOCK_SHARERS),
                     make_uint2((u32)__float_as_int(scale.unit / Terms::TIMES),
                                (u32)__float_as_int(-zero * (float)Terms::TIMES * (float)(int)sum)));
    }
  }
  // The greatest of the block's elements without their signs, as bits.
  DEV u32 greatest(uint4 first, uint4 second) {
    u32 pairs = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      pairs = greater_pair(pairs, word(first, w) & 0x7fff7fffu);
      pairs = greater_pair(pairs, word(second, w) & 0x7fff7fffu);
    }
    u32 most = pairs >> 16 > (pairs & 0xffffu) ? pairs >> 16 : pairs & 0xffffu;
#pragma unroll
    for (int other = 1; other < BLOCK_SHARERS; other *= 2) {
      const u32 theirs = __shfl_xor_sync(~0u, most, other);
      most = most > theirs ? most : theirs;
    }
    return most;
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_DIGIT_COPIES_CUH_
