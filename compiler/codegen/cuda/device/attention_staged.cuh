// Attention of many queries: the queries of a block share keys and values, which go through shared memory,
// copied ahead. Scores only ever exist in registers. What multiplies is a policy: mma.sync, or wgmma.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_STAGED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_STAGED_CUH_

#include "compiler/codegen/cuda/device/attention_lines.cuh"
#include "compiler/codegen/cuda/device/attention_masks.cuh"
#include "compiler/codegen/cuda/device/attention_rows.cuh"
#include "compiler/codegen/cuda/device/attention_staged_layout.h"
#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/wgmma_registers.cuh"

// Lines of ELEMENTS in shared memory as ldmatrix reads them, PITCH bytes apart.
template <int ELEMENTS, int PITCH>
struct PaddedLines {
  static constexpr int PIECES = ELEMENTS / 8;
  DEV u32 place(int line, int piece) { return (u32)(line * PITCH + piece * 16); }
};
// LINES lines as wgmma reads them: panels of 64 elements, their lines swizzled. So many pieces of a line are
// copied.
template <int PIECES_COPIED, int LINES>
struct PanelLines {
  static constexpr int PIECES = PIECES_COPIED, PANEL = LINES * 128;
  DEV u32 place(int line, int piece) { return (u32)(piece / 8 * PANEL) + swizzled<128>(line, piece % 8); }
};

// A thread has the scores of keys at the columns 8 * j + 2 * quarter + x of its rows. In which order the keys
// of a stage lie is free, if it is the same for keys and values. As they come.
struct KeysInOrder {
  DEV int key(int j, int x, int quarter) { return 8 * j + 2 * quarter + x; }
};
// So that a thread's keys are runs of eight neighbours, one in each 32, whose mask is read at once.
struct PermutedKeys {
  DEV int key(int j, int x, int quarter) { return j / 4 * 32 + 8 * quarter + j % 4 * 2 + x; }
  DEV int column(int key) { return (key & ~31) | key % 8 / 2 * 8 | key % 32 / 8 * 2 | key % 2; }
};
template <int PIECES_COPIED, int LINES>
struct PermutedPanelLines : PanelLines<PIECES_COPIED, LINES> {
  DEV u32 place(int line, int piece) {
    return PanelLines<PIECES_COPIED, LINES>::place(PermutedKeys::column(line), piece);
  }
};

template <bool BF16, int COUNT>
DEV void pack_weights(const float (*s)[4], u32 (*weights)[4]) {
#pragma unroll
  for (int j = 0; j < COUNT; ++j) {
    weights[j][0] = pack_pair<BF16>(s[2 * j][0], s[2 * j][1]);
    weights[j][1] = pack_pair<BF16>(s[2 * j][2], s[2 * j][3]);
    weights[j][2] = pack_pair<BF16>(s[2 * j + 1][0], s[2 * j + 1][1]);
    weights[j][3] = pack_pair<BF16>(s[2 * j + 1][2], s[2 * j + 1][3]);
  }
}

// What a thread has of its rows. Fragment v is the 8 features from 8 * v on.
template <int VALUES>
struct StagedRows : AttentionRows<VALUES> {
  static constexpr bool PAIRS = true;
  DEV int feature(int v, int quarter, int odd) { return 8 * v + 2 * quarter + odd; }
};

// The matmuls of a block whose 8 warps are ROW_WARPS by 8 / ROW_WARPS: rows, and shares of KEYS keys. By
// mma.sync.
template <StagedAttention ATTENTION>
struct StagedMma : KeysInOrder {
  static constexpr StagedAttention LAYOUT = ATTENTION;
  static constexpr int FEATURES = LAYOUT.padded(LAYOUT.features), VALUES = LAYOUT.padded(LAYOUT.values),
                       ROW_WARPS = LAYOUT.row_warps, KEYS = LAYOUT.keys;
  static constexpr int OWN = LAYOUT.own();
  static constexpr bool BF16 = LAYOUT.bf16;
  static constexpr bool TOGETHER = false;  // do all warps of a block take part in every stage?
  using Rows = StagedRows<VALUES>;
  using Queries = PaddedLines<FEATURES, LAYOUT.pitch(FEATURES)>;
  using Keys = Queries;
  using Values = PaddedLines<VALUES, LAYOUT.pitch(VALUES)>;

  DEV u32 begin() { return shared_address(shared_memory); }
  DEV void show() {}
  // The scores of the warp's rows with its share of the keys. Of eight features at the end, the instruction's
  // other eight are zeros in registers.
  DEV void score(u32 queries, u32 keys, float (*s)[4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp % ROW_WARPS * 16 + lane % 16;
    const int first = warp / ROW_WARPS * OWN + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < OWN / 8; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
    for (int c = 0; c < (FEATURES + 8) / 16; ++c) {
      const bool half = 16 * c + 8 == FEATURES;
      u32 q[4];
      ldmatrix(q, queries + Queries::place(row, 2 * c + (half ? 0 : lane / 16)));
      if (half) q[2] = q[3] = 0;
#pragma unroll
      for (int j = 0; j < OWN / 16; ++j) {
        u32 b[4];
        ldmatrix(b, keys + Keys::place(first + 16 * j, 2 * c + (half ? 0 : lane / 8 % 2)));
        mma<BF16>(s[2 * j], q, b[0], half ? 0 : b[1]);
        mma<BF16>(s[2 * j + 1], q, b[2], half ? 0 : b[3]);
      }
    }
  }
  // Adds the values of the warp's share of the keys, weighed.
  DEV void add(u32 values, const u32 (*weights)[4], float (*out)[4]) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 / ROW_WARPS * OWN + lane % 16;
#pragma unroll
    for (int j = 0; j < OWN / 16; ++j) {
#pragma unroll
      for (int v = 0; v < (VALUES + 8) / 16; ++v) {
        const bool half = 16 * v + 8 == VALUES;
        u32 b[4];
        ldmatrix_transposed(b, values + Values::place(first + 16 * j, 2 * v + (half ? 0 : lane / 16)));
        mma<BF16>(out[2 * v], weights[j], b[0], b[1]);
        if (!half) mma<BF16>(out[2 * v + 1], weights[j], b[2], b[3]);
      }
    }
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Accumulators of wgmma are not to be touched while it runs: nothing that reads or writes them moves across
// this.
template <int COUNT>
DEV void hold_accumulators(float (*s)[4]) {
#pragma unroll
  for (int j = 0; j < COUNT; ++j)
    asm volatile("" : "+f"(s[j][0]), "+f"(s[j][1]), "+f"(s[j][2]), "+f"(s[j][3])::"memory");
}

// The same by wgmma: warpgroups, 64 rows each.
template <StagedAttention ATTENTION>
struct StagedWgmma : PermutedKeys {
  static constexpr StagedAttention LAYOUT = ATTENTION;
  static constexpr int CHUNKS = (LAYOUT.features + 15) / 16, VALUES = LAYOUT.wgmma_values(),
                       ROW_WARPS = LAYOUT.row_warps, KEYS = LAYOUT.keys;
  static constexpr int OWN = LAYOUT.own();
  static constexpr bool BF16 = LAYOUT.bf16;
  static constexpr bool TOGETHER = true;
  static_assert(OWN % 32 == 0 && OWN >= 64 && OWN <= 192, "keys that one instruction of wgmma takes");
  using Rows = StagedRows<VALUES>;
  using Queries = PanelLines<2 * CHUNKS, LAYOUT.rows()>;
  using Keys = PermutedPanelLines<2 * CHUNKS, KEYS>;
  using Values = PermutedPanelLines<LAYOUT.padded(LAYOUT.values) / 8, KEYS>;

  DEV u32 begin() {
    constexpr u32 LAST = StagedAttention::kAlignment - 1;
    return (shared_address(shared_memory) + LAST) & ~LAST;
  }
  DEV void show() { fence_proxy_async(); }
  // Where in the lines of the block's queries, and in those of a stage's keys or values, a warpgroup's are.
  DEV u32 own_queries(u32 group) { return group % (ROW_WARPS / 4) * 8192; }
  DEV u32 own_keys(u32 group) { return group / (ROW_WARPS / 4) * (OWN * 128); }
  // Of both matmuls, by a warpgroup's lines: what is begun is complete after wgmma_wait, and its accumulators
  // are to be held then.
  DEV void begin_score(u32 queries, u32 keys, float (*s)[4]) {
    hold_accumulators<OWN / 8>(s);
    wgmma_fence();
    wgmma<OWN, BF16, false, false>(&s[0][0], wgmma_descriptor(queries, 0), wgmma_descriptor(keys, 0));
#pragma unroll
    for (int c = 1; c < CHUNKS; ++c)
      wgmma<OWN, BF16, false>(&s[0][0], wgmma_descriptor(queries + c / 4 * Queries::PANEL + c % 4 * 32, 0),
                              wgmma_descriptor(keys + c / 4 * Keys::PANEL + c % 4 * 32, 0));
    wgmma_commit();
  }
  DEV void score(u32 queries, u32 keys, float (*s)[4]) {
    const u32 group = threadIdx.x / 128;
    begin_score(queries + own_queries(group), keys + own_keys(group), s);
    wgmma_wait<0>();
    hold_accumulators<OWN / 8>(s);
  }
  DEV void begin_add(u32 values, const u32 (*weights)[4], float (*out)[4]) {
    hold_accumulators<VALUES / 8>(out);
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < OWN / 16; ++j)
      wgmma_registers<VALUES, BF16, true, true>(&out[0][0], weights[j],
                                                wgmma_descriptor(values + j * 2048, Values::PANEL));
    wgmma_commit();
  }
  DEV void add(u32 values, const u32 (*weights)[4], float (*out)[4]) {
    begin_add(values + own_keys(threadIdx.x / 128), weights, out);
    wgmma_wait<0>();
    hold_accumulators<VALUES / 8>(out);
  }
};

#endif

// Where tiles of keys, and of values, are: in memory, and in the stages. THREADS copy them, with UNROLL
// addresses at once.
template <typename Matmuls, int THREADS = kBlockThreads, int UNROLL = 64>
struct StagedSource {
  static constexpr StagedAttention LAYOUT = Matmuls::LAYOUT;

  u32 stages;
  LinesAt keys, values;

  MEMBER u32 stage(int tile) const { return stages + tile % LAYOUT.stages * LAYOUT.stage(); }
  template <typename Lines, int ELEMENTS, int LANES>
  MEMBER void copy(u32 to, const LinesAt& lines, int tile, int bound) const {
    const int first = tile * LAYOUT.keys;
    if (first < bound)
      copy_lines<Lines, LAYOUT.keys, 2, ELEMENTS, LANES, THREADS, UNROLL>(
          to, [&](int line) { return lines.line_of(first + line, bound); }, lines.element);
    commit_copies();
  }
  MEMBER void copy_keys(int tile, int bound) const {
    copy<typename Matmuls::Keys, LAYOUT.features, LAYOUT.key_lanes>(stage(tile), keys, tile, bound);
  }
  MEMBER void copy_values(int tile, int bound) const {
    copy<typename Matmuls::Values, LAYOUT.values, LAYOUT.value_lanes>(stage(tile) + LAYOUT.key_bytes(),
                                                                      values, tile, bound);
  }
};

// What `score` and `mask` make of the dot products with the warp's keys of a stage, the first of them `from`;
// keys beyond a row's limit have none.
template <typename Matmuls, typename Mask, typename Score>
DEV void limit_scores(float (*s)[4], int from, const int* limits, const Mask& mask, Score score) {
  const int first = from + Matmuls::key(0, 0, thread_again() % 4);
#pragma unroll
  for (int j = 0; j < Matmuls::OWN / 8; ++j) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const int key = first + Matmuls::key(j, x % 2, 0);
      s[j][x] = key < limits[x / 2] ? mask.score(score, x / 2, 2 * j + x % 2, key, s[j][x]) : kNoScore;
    }
  }
}

// All keys for the queries of a block, a stage at a time. As soon as all warps have used keys, or values,
// those of a later tile are copied to their place. `query_at`: where the block's query of a number is, null
// if there is none; its elements are `element` bytes apart. `limits`, `unit` and `score` as
// AttentionWarp::walk has them; LIMITED: limits may be less than `all`. No value from the greatest limit of
// the block on is read.
template <typename Matmuls, bool PLAIN, bool LIMITED, typename QueryAt, typename Mask, typename Score>
DEV void staged_attention(typename Matmuls::Rows& rows, QueryAt query_at, i64 element, const int* limits,
                          int all, const LinesAt& keys, const LinesAt& values, float unit, Mask mask,
                          Score score) {
  constexpr StagedAttention LAYOUT = Matmuls::LAYOUT;
  constexpr int OWN = LAYOUT.own(), STAGES = LAYOUT.stages;
  const u32 queries = Matmuls::begin();
  const StagedSource<Matmuls> source = {queries + LAYOUT.query_bytes(), keys, values};
  copy_lines<typename Matmuls::Queries, LAYOUT.rows(), 2, LAYOUT.features, LAYOUT.query_lanes>(
      queries,
      [&](int line) {
        const char* at = query_at(line);
        return Line{at != 0 ? at : keys.at, at != 0};
      },
      element);
  source.copy_keys(0, all);
  const int own_limit = limits[0] > limits[1] ? limits[0] : limits[1];
  const int bound = LIMITED ? greatest_of_block(own_limit) : all;
  source.copy_values(0, bound);
#pragma unroll
  for (int s = 1; s < STAGES; ++s) {
    source.copy_keys(s, bound);
    source.copy_values(s, bound);
  }
  // Below it, every row of the warp has every key. Rows that do not exist count as the others.
  const int whole = (int)__reduce_min_sync(0xffffffffu, min((u32)limits[0], (u32)limits[1]));
  const int own_bound = Matmuls::TOGETHER ? bound : __reduce_max_sync(0xffffffffu, own_limit);
  rows.clear();
  for (int tile = 0; tile * LAYOUT.keys < bound; ++tile) {
    if (tile == 0)
      wait_copies<2 * STAGES - 1>();
    else
      wait_copies<2 * STAGES - 2>();
    Matmuls::show();
    __syncthreads();
    if (tile > 0) source.copy_values(tile + STAGES - 1, bound);
    const u32 stage = source.stage(tile);
    const int from = tile * LAYOUT.keys + thread_again() / 32 / LAYOUT.row_warps * OWN;
    const bool any = from < own_bound;
    u32 weights[OWN / 16][4];
    if (any) {
      float s[OWN / 8][4];
      mask.load(from);
      Matmuls::score(queries, stage, s);
      if (!PLAIN || from + OWN > whole) limit_scores<Matmuls>(s, from, limits, mask, score);
      rows.template weigh<OWN / 8>(s, unit);
      pack_weights<Matmuls::BF16, OWN / 16>(s, weights);
    }
    wait_copies<2 * STAGES - 2>();
    Matmuls::show();
    __syncthreads();
    source.copy_keys(tile + STAGES, bound);
    if (any) Matmuls::add(stage + LAYOUT.key_bytes(), weights, rows.out);
  }
  wait_copies<0>();
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) rows.most[h] *= unit;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_STAGED_CUH_
