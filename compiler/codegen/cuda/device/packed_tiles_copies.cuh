// Tiles of matmuls by packed weights (packed_tiles_layout.h): which a block has, and what fills the stages of
// its shared memory.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_COPIES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_COPIES_CUH_

#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/mbarrier.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_layout.h"
#include "compiler/codegen/cuda/device/packed_value.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tma.cuh"
#include "compiler/codegen/cuda/device/tma_layout.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Where B lies, by matrix: maps of codes and, unless a column has one, of scales and zero points; else these
// themselves.
struct PackedTilesB {
  const TensorMap* const* codes;
  const TensorMap* const* scale_maps;
  const TensorMap* const* zero_maps;
  const char* const* scales;
  const char* const* zeros;
};

// Scales or zero points of a matrix that has one a column, of this lane's columns: of tile `tile` of 16, of
// all matrices', where those of each begin with column n. Behind the last column they are the last tile's.
template <PackedTiles MATMUL>
DEV void packed_column_scales(const char* const* matrices, int n, int tile, float* out) {
  constexpr int LAST = (MATMUL.columns + 15) / 16 - 1, TILES = MATMUL.n / 16;
  constexpr int TYPE = MATMUL.format.scale_bytes == 4 ? 0 : 1 + MATMUL.format.scale_bf16;
  const int wanted = n / 16 + tile % TILES;
  const i64 at = (i64)(wanted < LAST ? wanted : LAST) * 16 + (threadIdx.x >> 2 & 7) * 2;
  const char* own = matrices[0];
#pragma unroll
  for (int j = 1; j < MATMUL.b_count; ++j) {
    const char* other = matrices[j];
    asm("" : "+l"(other));  // a choice of values: as one of places, the array would lie in local memory
    own = tile / TILES == j ? other : own;
  }
  out[0] = packed_scale<TYPE>(own, at);
  out[1] = packed_scale<TYPE>(own, at + 1);
}

// Which tiles a block has, and which steps of K, in a room that all its warps share.
template <PackedTiles MATMUL>
struct PackedTilesBlock {
  static constexpr int SPLIT_K = MATMUL.split_k, STAGE = MATMUL.stage(), STAGES = MATMUL.stages;
  static constexpr int STEPS = MATMUL.steps(), EACH = (STEPS + SPLIT_K - 1) / SPLIT_K;

  const TmaExtents problem;
  const u32 rank, first, stride, tall, tiles;
  const int begin, end;  // steps of K
  // Shared addresses: of all, of stages, of A as it is, of barriers.
  const u32 base, memory, raw, full, empty, raw_full, raw_empty;

  MEMBER PackedTilesBlock(u32 block, u32 blocks, TmaExtents problem)
      : problem(problem),
        rank(block % SPLIT_K),
        first(block / SPLIT_K),
        stride(blocks / SPLIT_K),
        tall((problem.m + MATMUL.m - 1) / MATMUL.m),
        tiles(tall * ((problem.n + MATMUL.n - 1) / MATMUL.n)),
        begin((int)rank * EACH),
        end(begin + EACH < STEPS ? begin + EACH : STEPS),
        base(shared_address(shared_memory)),
        memory((base + 1023u) & ~1023u),
        raw(memory + STAGES * STAGE),
        full(raw + MATMUL.raw_steps() * MATMUL.a_bytes()),
        empty(full + 8 * STAGES),
        raw_full(empty + 8 * STAGES),
        raw_empty(raw_full + 8 * MATMUL.raw_steps()) {}

  // Where a tile begins. Blocks at work together have bands of rows, and share what they read.
  MEMBER void place(u32 tile, int& m, int& n) const {
    constexpr u32 BAND = 8;
    const u32 wide = tiles / tall, band = tile / (BAND * wide), in = tile - band * BAND * wide,
              rows_left = tall - band * BAND, height = rows_left < BAND ? rows_left : BAND;
    m = (int)(band * BAND + in % height) * MATMUL.m;
    n = (int)(in / height) * MATMUL.n;
  }
  MEMBER float* behind_barriers() const {
    return (float*)(shared_memory + (full + 8 * MATMUL.barriers() - base));
  }
};

// What fills stages: a thread that asks for boxes of A and of B, or four warps of which one does and all make
// A.
template <PackedTiles MATMUL, typename MakeA>
struct PackedTilesCopies {
  static constexpr int M = MATMUL.m, STAGE_K = MATMUL.stage_k;

  const PackedTilesBlock<MATMUL>& own;
  const PackedTilesB b;
  const TensorMap* const a;
  const MakeA a_at;
  const int thread;

  MEMBER PackedTilesCopies(const PackedTilesBlock<MATMUL>& own, const PackedTilesB& b, const TensorMap* a,
                           const MakeA& a_at, int thread)
      : own(own), b(b), a(a), a_at(a_at), thread(thread) {}

  // Codes, scales and zero points of columns from n on.
  MEMBER void copy_b(int stage, int n, int step) const {
    constexpr int RUN = MATMUL.code_run();
    const u32 to = own.memory + stage * MATMUL.stage(), barrier = own.full + 8 * stage;
    mbarrier_expect(barrier, MATMUL.filled());
#pragma unroll
    for (int j = 0; j < MATMUL.b_count; ++j) {
#pragma unroll
      for (int r = 0; r < MATMUL.tile_codes(); r += RUN)
        tma_copy<false>(to + MATMUL.codes_box(j, r), b.codes[j], barrier, 0,
                        (step * MATMUL.tile_codes() + r) / 4, n / 16, 0);
      if (MATMUL.by_column()) continue;
      const int block = step * STAGE_K / MATMUL.format.block * 16;
      tma_copy<false>(to + MATMUL.scales_box(j), b.scale_maps[j], barrier, 0, block, n / 16, 0);
      if (MATMUL.format.zeros)
        tma_copy<false>(to + MATMUL.zeros_box(j), b.zero_maps[j], barrier, 0, block, n / 16, 0);
    }
  }
  MEMBER void fill_a(int stage, int m, int step) const {
    const u32 to = own.memory + stage * MATMUL.stage();
    if constexpr (MATMUL.a_made) {
#pragma unroll 4
      for (int p = thread; p < M * STAGE_K / 8; p += 128) {
        const int line = p / 8 % M, k = step * STAGE_K + p / (8 * M) * 64 + p % 8 * 8;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (m + line < own.problem.m && k < MATMUL.k) x = a_at(m + line, k);
        store_shared_16(to + p / (8 * M) * (M * 128) + swizzled<128>(line, p % 8), x);
      }
      fence_proxy_async();
      mbarrier_arrive(own.full + 8 * stage);
    } else if (thread == 0) {
      copy_a(to, own.full + 8 * stage, m, step);
    }
  }
  // A as it is, 64 of K after another.
  MEMBER void copy_a(u32 to, u32 barrier, int m, int step) const {
#pragma unroll
    for (int run = 0; run < STAGE_K / 64; ++run) {
      const int x = step * STAGE_K + run * 64;
      tma_copy<false>(to + run * (M * 128), a, barrier, 0, x % own.problem.k_run, m % own.problem.m_run,
                      x / own.problem.k_run, m / own.problem.m_run, 0);
    }
  }
  // B of the first stages of the block's first tile, whose columns begin with n, if that need not wait for
  // the kernels ahead; how many that were.
  MEMBER int ask_ahead(int n) const {
    int ahead = 0;
    if (!MATMUL.b_constant || own.first >= own.tiles) return ahead;
    for (; ahead < MATMUL.ahead() && own.begin + ahead < own.end; ++ahead) {
      if (thread == 0) copy_b(ahead, n, own.begin + ahead);
    }
    return ahead;
  }
  MEMBER void run() const {
    int m = 0, n = 0, stage = 0;
    u32 phase = 1;
    if (own.first < own.tiles) own.place(own.first, m, n);
    int ahead = ask_ahead(n);
    wait_for_earlier();
    for (u32 tile = own.first; tile < own.tiles; tile += own.stride) {
      own.place(tile, m, n);
      for (int step = own.begin; step < own.end; ++step) {
        if (ahead > 0) {
          --ahead;
        } else {
          mbarrier_wait(own.empty + 8 * stage, phase);
          if (thread == 0) copy_b(stage, n, step);
        }
        fill_a(stage, m, step);
        if (++stage == MATMUL.stages) {
          stage = 0;
          phase ^= 1;
        }
      }
    }
    __syncwarp();
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_COPIES_CUH_
