// Sums of matmul_packed_tiles.cuh of few rows, by wgmma that takes codes from registers; scales multiply
// sums: what the numbers of a block add up to, in f32.
//
// A warpgroup has several tiles of 64 columns; warpgroups take turns with the steps. An instruction of so few
// rows takes as long as one of more, about 20 cycles, so nothing is multiplied that threads can do.
//
// Form: what is multiplied, PackedTilesPairs or PackedTilesDigits, and what it has under way.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_ROWS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_ROWS_CUH_

#include "compiler/codegen/cuda/device/packed_tiles_copies.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_unpack.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Piece number PIECE of a stage: of tile TILE, the 16s of K [FIRST, FIRST + Form::AT_ONCE) of half HALF.
template <PackedTiles MATMUL, typename Form, int PIECE>
struct PackedTilesPiece {
  typedef PackedTilesUnpack<MATMUL> Unpack;
  static constexpr int AT_ONCE = Form::AT_ONCE, TILES = MATMUL.warp_tiles;
  static constexpr int PIECES = Unpack::SLICES / AT_ONCE,  // of one half
      BLOCK_PIECES = Unpack::SHARE / AT_ONCE;              // of what a block has of it
  // Tile after tile, or half after half, so that all tiles share what a form keeps of a half.
  static constexpr int TILE = Form::HALVES_FIRST ? PIECE / PIECES % TILES : PIECE / (2 * PIECES),
                       HALF = Form::HALVES_FIRST ? PIECE / (TILES * PIECES) : PIECE / PIECES % 2,
                       FIRST = PIECE % PIECES * AT_ONCE, BLOCK = FIRST / Unpack::SHARE;
  // Halves of a stage whose numbers share scales are one block.
  static constexpr bool BEGINS = FIRST % Unpack::SHARE == 0 && !(Form::WHOLE_STAGE && HALF == 1);
  static constexpr bool ENDS = (FIRST + AT_ONCE) % Unpack::SHARE == 0 && !(Form::WHOLE_STAGE && HALF == 0);
  // Of two, its fragments, and its block's sums.
  static constexpr int TURN = PIECE % 2, SUMS_TURN = (Form::WHOLE_STAGE ? TILE : PIECE / BLOCK_PIECES) % 2;
};

// What a thread adds up: of 2 columns of each of its warpgroup's tiles, some of the rows.
template <PackedTiles MATMUL, template <PackedTiles> class FormOf>
struct PackedTilesRows {
  typedef FormOf<MATMUL> Form;
  typedef PackedTilesUnpack<MATMUL> Unpack;
  static constexpr int N = MATMUL.n, THREADS = MATMUL.multipliers(), TILES = MATMUL.warp_tiles;
  static constexpr int TURNS = MATMUL.turns, STAGES = MATMUL.stages, SUMS = MATMUL.m / 2;
  static constexpr int PIECES = TILES * 2 * Unpack::SLICES / Form::AT_ONCE;
  static constexpr bool BY_COLUMN = MATMUL.by_column(), ZEROS = MATMUL.format.zeros;
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
      Form form;
      Unpack unpack;
      multiply_from<0>(own.memory + stage * MATMUL.stage(), unpack, form);
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
      const int tile = first + 4 * j, row = Form::first_row(lane);
      float* const at = sums + ((turn * MATMUL.b_count + tile / (N / 16)) * ALL + row) * MATMUL.pitch() +
                        tile % (N / 16) * 16 + (lane >> 2);
#pragma unroll
      for (int e = 0; e < ROWS / 2; ++e) {
        const float sum = acc[j][first_row / 2 + e];
        at[Form::row_of(e) * MATMUL.pitch() + Form::upper(e) * 8] =
            BY_COLUMN ? sum * scale[j][Form::upper(e)] : sum;
      }
    }
  }
  MEMBER static void barrier() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }

 private:
  // Every piece of a stage from number PIECE on; of the one before, results are taken.
  template <int PIECE>
  MEMBER void multiply_from(u32 from, Unpack& unpack, Form& form) {
    if constexpr (PIECE < PIECES) {
      typedef PackedTilesPiece<MATMUL, Form, PIECE> P;
      if constexpr (P::FIRST == 0) unpack.template load<P::HALF>(from, first + 4 * P::TILE);
      form.template begin<P>(from, unpack, acc[P::TILE], column_zeros[P::TILE]);
      if constexpr (PIECE > 0) finish<PIECE - 1, 1>(form);
      multiply_from<PIECE + 1>(from, unpack, form);
    } else {
      finish<PIECE - 1, 0>(form);
    }
  }
  // Waits for piece number PIECE, behind which PENDING are under way.
  template <int PIECE, int PENDING>
  MEMBER void finish(Form& form) {
    typedef PackedTilesPiece<MATMUL, Form, PIECE> P;
    wgmma_wait<PENDING>();
    form.template finish<P>(acc[P::TILE]);
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_ROWS_CUH_
