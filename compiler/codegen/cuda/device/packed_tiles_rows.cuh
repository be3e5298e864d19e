// Sums of matmul_packed_tiles.cuh of few rows, by wgmma as packed_tiles_wgmma.cuh has it, whose scales
// multiply sums: what the numbers of a block add up to, in f32.
//
// A warpgroup has several tiles of 64 columns; warpgroups take turns with the steps. An instruction of so few
// rows takes as long as one of more, about 20 cycles, so nothing is multiplied that threads can do.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_ROWS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_ROWS_CUH_

#include "compiler/codegen/cuda/device/packed_tiles_copies.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_unpack.cuh"
#include "compiler/codegen/cuda/device/wgmma_registers.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What a thread adds up: of 2 columns of each of its warpgroup's tiles, some of the rows.
template <PackedTiles MATMUL>
struct PackedTilesRows {
  static constexpr int M = MATMUL.m, N = MATMUL.n, THREADS = MATMUL.multipliers(), TILES = MATMUL.warp_tiles;
  static constexpr int TURNS = MATMUL.turns, STAGES = MATMUL.stages, SUMS = M / 2;
  static constexpr bool BY_COLUMN = MATMUL.by_column(), BF16 = MATMUL.format.bf16,
                        ZEROS = MATMUL.format.zeros;
  typedef PackedTilesUnpack<MATMUL> Unpack;
  typedef PackedCodes<MATMUL.format, false> Codes;
  // Of half a stage: 16s of K; of a block, and of what is multiplied at a time.
  static constexpr int SLICES = Unpack::SLICES, SHARE = Unpack::SHARE, AT_ONCE = SHARE < 2 ? SHARE : 2;
  // Halves of a stage whose numbers share scales are one block.
  static constexpr bool WHOLE_STAGE = MATMUL.stage_blocks() == 1;
  static_assert(STAGES % TURNS == 0, "a warp would not see every use of its stages");

  const PackedTilesBlock<MATMUL>& own;
  const int lane, turn, first;  // its first tile of 16 columns, of all matrices'; the next is four further
  u32 begun;                    // steps of the tiles ahead
  float acc[TILES][SUMS];
  float scale[TILES][2], column_zeros[TILES][2];  // with a scale a column

  MEMBER PackedTilesRows(const PackedTilesBlock<MATMUL>& own, int warp)
      : own(own),
        lane(threadIdx.x & 31),
        turn(warp / MATMUL.column_warps()),
        first(warp % MATMUL.column_warps() / 4 * (4 * TILES) + warp % 4),
        begun(0) {}

  MEMBER void begin(const PackedTilesB& b, int n) {
#pragma unroll
    for (int j = 0; j < TILES; ++j) {
#pragma unroll
      for (int e = 0; e < SUMS; ++e) acc[j][e] = 0;
      if constexpr (BY_COLUMN) packed_column_scales<MATMUL>(b.scales, n, first + 4 * j, scale[j]);
      if constexpr (BY_COLUMN && ZEROS)
        packed_column_scales<MATMUL>(b.zeros, n, first + 4 * j, column_zeros[j]);
    }
  }
  // The warpgroup's steps of a tile. Counted over all tiles, so that its stages are always the same: whoever
  // has not waited for a stage's last use may take that for the next.
  MEMBER void run() {
    int step = (int)(((u32)(turn + TURNS) - begun % TURNS) % TURNS);
    u32 stage = (begun + step) % STAGES, phase = (begun + step) / STAGES & 1;
#pragma unroll 1
    for (; step < own.end - own.begin; step += TURNS) {
      mbarrier_wait(own.full + 8 * stage, phase);
      multiply(own.memory + stage * MATMUL.stage());
      if (lane == 0) mbarrier_arrive(own.empty + 8 * stage);
      stage += TURNS;
      if (stage >= STAGES) {
        stage -= STAGES;
        phase ^= 1;
      }
    }
    begun += own.end > own.begin ? own.end - own.begin : 0;
  }
  // Of ROWS rows from `first_row` on, to memory that has ALL of each: [turns][B][row][pitch].
  template <int ROWS, int ALL>
  MEMBER void store(float* sums, int first_row) const {
#pragma unroll
    for (int j = 0; j < TILES; ++j) {
      const int tile = first + 4 * j, row = (lane & 3) * 2;
      float* const at = sums + ((turn * MATMUL.b_count + tile / (N / 16)) * ALL + row) * MATMUL.pitch() +
                        tile % (N / 16) * 16 + (lane >> 2);
#pragma unroll
      for (int e = 0; e < ROWS / 2; ++e) {
        const float sum = acc[j][first_row / 2 + e];
        at[(e / 4 * 8 + (e & 1)) * MATMUL.pitch() + (e >> 1 & 1) * 8] =
            BY_COLUMN ? sum * scale[j][e >> 1 & 1] : sum;
      }
    }
  }
  MEMBER static void barrier() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }

 private:
  // What is under way: fragments by turns, and sums of blocks by turns with their scales.
  struct Begun {
    u32 fragments[2][AT_ONCE][4];
    float sums[2][SUMS], scale[2][2];
  };
  // Piece number PIECE of a stage: of tile TILE, the 16s of K [FIRST, FIRST + AT_ONCE) of half HALF.
  template <int PIECE>
  struct Piece {
    static constexpr int HALVES = SLICES / AT_ONCE;  // pieces of one half
    static constexpr int TILE = PIECE / (2 * HALVES), HALF = PIECE / HALVES % 2,
                         FIRST = PIECE % HALVES * AT_ONCE, BLOCK = FIRST / SHARE;
    static constexpr bool BEGINS = FIRST % SHARE == 0 && !(WHOLE_STAGE && HALF == 1);
    static constexpr bool ENDS = (FIRST + AT_ONCE) % SHARE == 0 && !(WHOLE_STAGE && HALF == 0);
    // Of its fragments, and of its block's sums.
    static constexpr int TURN = PIECE % 2,
                         SUMS_TURN = (WHOLE_STAGE ? TILE : (TILE * 2 + HALF) * (SLICES / SHARE) + BLOCK) % 2;
  };
  static constexpr int PIECES = TILES * 2 * SLICES / AT_ONCE;

  // A stage, one tile of 64 columns after another.
  MEMBER void multiply(u32 from) {
    Begun b;
    Unpack unpack;
    multiply_from<0>(from, unpack, b);
  }
  // Every piece from number PIECE on; of the one before, results are taken.
  template <int PIECE>
  MEMBER void multiply_from(u32 from, Unpack& unpack, Begun& b) {
    if constexpr (PIECE < PIECES) {
      typedef Piece<PIECE> P;
      if constexpr (P::FIRST == 0) unpack.template load<P::HALF>(from, first + 4 * P::TILE);
      begin_piece<PIECE>(from, unpack, b);
      if constexpr (PIECE > 0) finish<PIECE - 1, 1>(b);
      multiply_from<PIECE + 1>(from, unpack, b);
    } else {
      finish<PIECE - 1, 0>(b);
    }
  }
  template <int PIECE>
  MEMBER void begin_piece(u32 from, const Unpack& unpack, Begun& b) {
    typedef Piece<PIECE> P;
    u32 bias[2];
    bias_of(unpack, P::BLOCK, P::TILE, bias);
    if constexpr (!BY_COLUMN && P::BEGINS)
      unpack.widen_scales(unpack.scales[P::BLOCK], b.scale[P::SUMS_TURN]);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int slice = P::FIRST + i;
        b.fragments[P::TURN][i][e] = Codes::pair(unpack.words[slice / Unpack::WORD * 2 + (e & 1)],
                                                 slice % Unpack::WORD * 2 + e / 2, bias[e & 1]);
      }
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int slice = P::HALF * SLICES + P::FIRST + i;
      const u64 a = wgmma_descriptor(from + slice / 4 * (M * 128) + slice % 4 * 32, 0);
      const u32* const codes = b.fragments[P::TURN][i];
      if constexpr (BY_COLUMN)
        wgmma_registers<M, BF16>(acc[P::TILE], codes, a);
      else if (P::BEGINS && i == 0)
        wgmma_registers<M, BF16, false>(b.sums[P::SUMS_TURN], codes, a);
      else
        wgmma_registers<M, BF16>(b.sums[P::SUMS_TURN], codes, a);
    }
    wgmma_commit();
  }
  // Waits for piece number PIECE, behind which PENDING are under way; a block that ends with it is scaled.
  template <int PIECE, int PENDING>
  MEMBER void finish(Begun& b) {
    typedef Piece<PIECE> P;
    wgmma_wait<PENDING>();
    if constexpr (!BY_COLUMN && P::ENDS) {
#pragma unroll
      for (int e = 0; e < SUMS; ++e) {
        float& sum = b.sums[P::SUMS_TURN][e];
        asm volatile("" : "+f"(sum)::"memory");  // not to be read before the wait
        acc[P::TILE][e] = __fmaf_rn(b.scale[P::SUMS_TURN][e >> 1 & 1], sum, acc[P::TILE][e]);
      }
    }
  }
  // What is added to the pairs of codes of a block of tile j, for the columns g and g + 8.
  MEMBER void bias_of(const Unpack& unpack, int block, int j, u32* bias) const {
    float zero[2] = {(float)MATMUL.format.zero, (float)MATMUL.format.zero};
    if constexpr (ZEROS && BY_COLUMN)
      zero[0] = column_zeros[j][0], zero[1] = column_zeros[j][1];
    else if constexpr (ZEROS)
      unpack.widen_scales(unpack.zeros[block], zero);
    bias[0] = Codes::bias(zero[0]);
    bias[1] = Codes::bias(zero[1]);
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_ROWS_CUH_
