// Attention in f32 by FMA: the queries of a block share keys and values, which go through shared memory;
// online softmax, so that no more than a stage of scores exists.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_FMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_FMA_CUH_

#include "compiler/codegen/cuda/device/attention_fma_layout.h"
#include "compiler/codegen/cuda/device/attention_lines.cuh"
#include "compiler/codegen/cuda/device/attention_scores.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// Lines of ELEMENTS floats, PITCH floats apart.
template <int ELEMENTS, int PITCH>
struct FloatLines {
  static constexpr int PIECES = (ELEMENTS + 3) / 4;
  DEV u32 place(int line, int piece) { return (u32)(line * PITCH * 4 + piece * 16); }
};

// Of the sixteen threads that share rows.
DEV float group_max(float x) {
#pragma unroll
  for (int d = FmaAttention::kLanes / 2; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}
DEV float group_sum(float x) {
#pragma unroll
  for (int d = FmaAttention::kLanes / 2; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}

// What a thread has of its rows, and how it takes a stage of keys in.
template <FmaAttention LAYOUT>
struct FmaRows {
  static constexpr int ROWS = LAYOUT.rows_a_thread, FEATURES = LAYOUT.features, COLUMNS = LAYOUT.columns(),
                       VECTOR = LAYOUT.vector(), LANES = FmaAttention::kLanes, GROUPS = FmaAttention::kGroups,
                       KEYS = FmaAttention::kKeys, OWN = KEYS / LANES, PITCH = LAYOUT.pitch();

  float out[ROWS][COLUMNS];
  float most[ROWS], total[ROWS];  // the greatest score; the sum of weights, this thread's share

  DEV int lane() { return threadIdx.x % LANES; }
  DEV int row(int h) { return threadIdx.x / LANES + GROUPS * h; }
  // Feature number c of this thread's.
  DEV int feature(int c) { return (c / VECTOR * LANES + lane()) * VECTOR + c % VECTOR; }

  MEMBER void clear() {
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
      most[h] = kNoScore;
      total[h] = 0;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) out[h][c] = 0;
    }
  }
  // Dot products of the rows with the stage's keys lane(), lane() + LANES and so on.
  static MEMBER void dots(const float* queries, const float* keys, float (*s)[OWN]) {
#pragma unroll
    for (int h = 0; h < ROWS; ++h)
#pragma unroll
      for (int j = 0; j < OWN; ++j) s[h][j] = 0;
#pragma unroll 8
    for (int f = 0; f < FEATURES; f += 4) {
      float q[ROWS][4], k[OWN][4];
#pragma unroll
      for (int h = 0; h < ROWS; ++h) load_shared<4>(queries + row(h) * PITCH + f, q[h]);
#pragma unroll
      for (int j = 0; j < OWN; ++j) load_shared<4>(keys + (lane() + LANES * j) * PITCH + f, k[j]);
#pragma unroll
      for (int x = 0; x < 4; ++x)
#pragma unroll
        for (int h = 0; h < ROWS; ++h)
#pragma unroll
          for (int j = 0; j < OWN; ++j) s[h][j] = __fmaf_rn(q[h][x], k[j][x], s[h][j]);
    }
  }
  // Scores become weights relative to the greatest so far; what was summed up before is brought to it.
  MEMBER void weigh(float (*s)[OWN], float unit) {
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
      float high = s[h][0];
#pragma unroll
      for (int j = 1; j < OWN; ++j) high = fmaxf(high, s[h][j]);
      const float now = fmaxf(most[h], group_max(high)), base = score_base(now);
      const float scale = quick_exp2((most[h] - base) * unit);
      most[h] = now;
      total[h] *= scale;
#pragma unroll
      for (int j = 0; j < OWN; ++j) total[h] += s[h][j] = quick_exp2((s[h][j] - base) * unit);
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) out[h][c] *= scale;
    }
  }
  // Adds the stage's values, weighed. The threads that share rows exchange their weights.
  MEMBER void add(float* weights, const float* values, const float (*s)[OWN]) {
#pragma unroll
    for (int h = 0; h < ROWS; ++h)
#pragma unroll
      for (int j = 0; j < OWN; ++j) weights[row(h) * LAYOUT.weight_pitch() + lane() + LANES * j] = s[h][j];
    __syncwarp();
#pragma unroll 4
    for (int key = 0; key < KEYS; key += 4) {
      float w[ROWS][4];
#pragma unroll
      for (int h = 0; h < ROWS; ++h) load_shared<4>(weights + row(h) * LAYOUT.weight_pitch() + key, w[h]);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        float v[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; c += VECTOR)
          load_shared<VECTOR>(values + (key + x) * LAYOUT.value_pitch() + feature(c), v + c);
#pragma unroll
        for (int h = 0; h < ROWS; ++h)
#pragma unroll
          for (int c = 0; c < COLUMNS; ++c) out[h][c] = __fmaf_rn(w[h][x], v[c], out[h][c]);
      }
    }
  }
};

// Results of a block's queries in shared memory, and the sums of their weights.
template <FmaAttention LAYOUT>
struct FmaBlock {
  MEMBER float* row(int n) { return (float*)shared_memory + n * LAYOUT.result_pitch(); }
  // All threads of the block call, after the last stage was used.
  MEMBER void keep(const FmaRows<LAYOUT>& from) {
    using Rows = FmaRows<LAYOUT>;
#pragma unroll
    for (int h = 0; h < Rows::ROWS; ++h) {
      float* to = row(Rows::row(h));
      const float total = group_sum(from.total[h]);
      if (Rows::lane() == 0) to[LAYOUT.values] = total;
#pragma unroll
      for (int c = 0; c < Rows::COLUMNS; ++c) {
        const int feature = Rows::feature(c);
        if (feature < LAYOUT.values) to[feature] = from.out[h][c];
      }
    }
    __syncthreads();
  }
  // COUNT features of a query, not yet divided by their total.
  template <int COUNT>
  MEMBER void gather(int query, int first, float* x, float*, float* total) {
    load_shared<COUNT>(row(query) + first, x);
    *total = row(query)[LAYOUT.values];
  }
};

// All keys for the queries of a block. `query_at`, `element`, `limits`, `unit` and `score` as
// staged_attention has them, for the thread's rows; LIMITED: limits may be less than `all`. No value from the
// greatest limit on is read.
template <FmaAttention LAYOUT, bool LIMITED, typename QueryAt, typename Score>
DEV void fma_attention(FmaRows<LAYOUT>& rows, QueryAt query_at, i64 element, const int* limits, int all,
                       const LinesAt& keys, const LinesAt& values, float unit, Score score) {
  using Rows = FmaRows<LAYOUT>;
  using Lines = FloatLines<LAYOUT.features, LAYOUT.pitch()>;
  using ValueLines = FloatLines<LAYOUT.values, LAYOUT.value_pitch()>;
  constexpr int KEYS = FmaAttention::kKeys;
  const float* memory = (const float*)shared_memory;
  const u32 base = shared_address(shared_memory);
  copy_lines<Lines, LAYOUT.rows(), 4, LAYOUT.features, LAYOUT.query_lanes>(
      base,
      [&](int line) {
        const char* at = query_at(line);
        return Line{at != 0 ? at : keys.at, at != 0};
      },
      element);
  int bound = all;
  if (LIMITED) {
    int own = limits[0];
#pragma unroll
    for (int h = 1; h < Rows::ROWS; ++h) own = max(own, limits[h]);
    bound = greatest_of_block(own);
  }
  const auto first_of = [](int tile) { return LAYOUT.first_stage() + tile % LAYOUT.stages * LAYOUT.stage(); };
  const auto copy = [&](int tile) {
    const int first = tile * KEYS;
    const u32 to = base + 4 * first_of(tile);
    if (first < bound) {
      copy_lines<Lines, KEYS, 4, LAYOUT.features, LAYOUT.key_lanes>(
          to, [&](int line) { return keys.line_of(first + line, bound); }, keys.element);
      copy_lines<ValueLines, KEYS, 4, LAYOUT.values, LAYOUT.value_lanes>(
          to + 4 * KEYS * LAYOUT.pitch(), [&](int line) { return values.line_of(first + line, bound); },
          values.element);
    }
    commit_copies();
  };
  copy(0);
  rows.clear();
  for (int tile = 0; tile * KEYS < bound; ++tile) {
    if (LAYOUT.stages > 1) copy(tile + 1);
    wait_copies<LAYOUT.stages - 1>();
    __syncthreads();
    const float* stage = memory + first_of(tile);
    float s[Rows::ROWS][Rows::OWN];
    Rows::dots(memory, stage, s);
#pragma unroll
    for (int h = 0; h < Rows::ROWS; ++h)
#pragma unroll
      for (int j = 0; j < Rows::OWN; ++j) {
        const int key = tile * KEYS + Rows::lane() + Rows::LANES * j;
        s[h][j] = key < limits[h] ? score(h, key, s[h][j]) : kNoScore;
      }
    rows.weigh(s, unit);
    rows.add((float*)shared_memory + LAYOUT.first_weight(), stage + KEYS * LAYOUT.pitch(), s);
    __syncthreads();
    if (LAYOUT.stages == 1) copy(tile + 1);
  }
  wait_copies<0>();
  __syncthreads();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_FMA_CUH_
