// Attention of a warp's 8 or 16 queries as FlashAttention-2 does it (Dao, 2023): the warp walks over the
// keys, 16 at a time, and scores only ever exist in registers. Both matmuls are mma.sync.m16n8k16; keys and
// values go from memory straight into its fragments.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_WARP_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_WARP_CUH_

#include "compiler/codegen/cuda/device/attention_rows.cuh"
#include "compiler/codegen/cuda/device/attention_values.cuh"

// A limit of keys as it may be before the kernels that write it are complete: from 0 to `most`, whatever is
// there.
DEV int hinted_bound(const char* at, int most) {
  i64 bound;
  asm volatile("ld.relaxed.gpu.global.s64 %0, [%1];" : "=l"(bound) : "l"(at));
  return bound < 0 ? 0 : bound < most ? (int)bound : most;
}

// Has L2 fetch bytes, by sixteen.
DEV void prefetch_l2(const char* at, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(bytes));
#endif
}

// A warp's 8 * HALVES queries: this thread has the rows `group` and, of 16, `group` + 8 of them.
template <bool BF16, int FEATURES, int VALUES, int HALVES>
struct AttentionWarp : AttentionRows<VALUES, HALVES> {
  static constexpr int CHUNKS = (FEATURES + 8) / 16;  // of 16 features; the last may have but 8
  static constexpr bool PAIRS = false;
  u32 query[CHUNKS][2 * HALVES];

  // Of fragment v of `out`, which is one of `width` whose features alternate (SixteenValues).
  DEV int feature(int v, int quarter, int odd) {
    const int piece = v / 8 * 64, left = VALUES - piece;
    const int half = left < 64 && left >= 32 ? 32 : 0, quarters = left % 32 >= 16 ? 16 : 0;
    const int in = v * 8 - piece;
    const int width = left >= 64 ? 8 : in < half ? 4 : in < half + quarters ? 2 : 1;
    const int start = piece + (width == 2 ? half : width == 1 ? half + quarters : 0);
    return start + (2 * quarter + odd) * width + v - start / 8;
  }
  MEMBER void load_queries(const char* const* rows, u32 quarter) {
    u32 w[HALVES][4];
#pragma unroll
    for (int c = 0; c < FEATURES / 32; ++c) {
#pragma unroll
      for (int h = 0; h < HALVES; ++h) {
        if (rows[h] != 0)
          load_words<4>(rows[h] + c * 64 + quarter * 16, w[h]);
        else
          fill_words<4>(w[h]);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int h = 0; h < HALVES; ++h) query[2 * c + k / 2][k % 2 * HALVES + h] = w[h][k];
    }
    if (FEATURES % 32 >= 16) {
#pragma unroll
      for (int h = 0; h < HALVES; ++h) {
        if (rows[h] != 0)
          load_words<2>(rows[h] + FEATURES / 32 * 64 + quarter * 8, w[h]);
        else
          fill_words<2>(w[h]);
      }
#pragma unroll
      for (int k = 0; k < 2; ++k)
#pragma unroll
        for (int h = 0; h < HALVES; ++h) query[FEATURES / 32 * 2][k * HALVES + h] = w[h][k];
    }
    if (FEATURES % 16 != 0) {
#pragma unroll
      for (int h = 0; h < HALVES; ++h) {
        query[CHUNKS - 1][h] = rows[h] != 0 ? *(const u32*)(rows[h] + (FEATURES - 8) * 2 + quarter * 4) : 0;
        query[CHUNKS - 1][HALVES + h] = 0;
      }
    }
  }
  // One of the 8 keys of a fragment, for each of the warp's groups.
  struct Key {
    u32 w[2 * CHUNKS];
    MEMBER void load(const char* key, u32 quarter) {
#pragma unroll
      for (int c = 0; c < FEATURES / 32; ++c) load_words<4>(key + c * 64 + quarter * 16, w + 4 * c);
      if (FEATURES % 32 >= 16) load_words<2>(key + FEATURES / 32 * 64 + quarter * 8, w + FEATURES / 32 * 4);
      if (FEATURES % 16 != 0) {
        w[2 * CHUNKS - 2] = *(const u32*)(key + (FEATURES - 8) * 2 + quarter * 4);
        w[2 * CHUNKS - 1] = 0;
      }
    }
  };
  DEV void load_run(Key* k, const char* at, i64 key_bytes, u32 quarter) {
    k[0].load(at, quarter);
    k[1].load(at + 8 * key_bytes, quarter);
  }
  // The values that this thread has of 16 keys.
  struct Rows {
    const char* at[4];
    MEMBER Rows(const char* first, i64 bytes)
        : at{first, first + bytes, first + 8 * bytes, first + 9 * bytes} {}
  };
  // Whether the value of a thread's row n of 16, from `from` on, is behind the greatest limit.
  DEV bool absent(int from, int n, u32 quarter, int bound) {
    return from + 2 * (int)quarter + n % 2 + n / 2 * 8 >= bound;
  }
  MEMBER void scores_of(const Key& key, float* s) const {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const u32* q = query[c];
      const u32 rows[4] = {q[0], HALVES == 2 ? q[1] : 0, q[HALVES], HALVES == 2 ? q[3 % (2 * HALVES)] : 0};
      mma<BF16>(s, rows, key.w[2 * c], key.w[2 * c + 1]);
    }
  }
  // Has L2 fetch what walk() will read if limits are `bound`: a key or a value a thread.
  DEV void fetch(int first, int step, int bound, const char* keys, i64 key_bytes, const char* values,
                 i64 value_bytes) {
    const bool key = threadIdx.x % 32 < 16;
    for (int own = first + (int)threadIdx.x % 16; own < bound; own += step)
      prefetch_l2(key ? keys + own * key_bytes : values + own * value_bytes, 2 * (key ? FEATURES : VALUES));
  }
  // Every `step`th run of 16 keys from `first` on, below `limits[h]` of each row (negative: there is no such
  // row). `score(h, key, dot)` times `unit` is a score of base 2; PLAIN: it is the dot product. Of
  // the `there` keys that there is memory for, about `hint` are below the limits: of the first run, what may
  // be is asked for before it is known.
  template <bool PLAIN, typename Score>
  MEMBER void walk(const char* const* rows, const int* limits, int first, int step, const char* keys,
                   i64 key_bytes, const char* values, i64 value_bytes, int hint, int there, float unit,
                   Score score) {
    const u32 group = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
    Key k[2];
    SixteenValues<VALUES> v;
    keys += group * key_bytes;
    values += 2 * quarter * value_bytes;
    const bool early = first < hint && first + 16 <= there;
    if (early) {
      load_run(k, keys + first * key_bytes, key_bytes, quarter);
      v.template load<true>(Rows(values + first * value_bytes, value_bytes).at, group);
      load_queries(rows, quarter);
    }
    this->clear();
    const int bound =
        __reduce_max_sync(0xffffffffu, limits[0] > limits[HALVES - 1] ? limits[0] : limits[HALVES - 1]);
    // Below it, every row has every key. Rows that do not exist count as the others.
    const int whole = (int)__reduce_min_sync(0xffffffffu, min((u32)limits[0], (u32)limits[HALVES - 1]));
    if (first >= bound) return;
    auto load_keys = [&](int from) {
      if (from + 16 <= bound) return load_run(k, keys + from * key_bytes, key_bytes, quarter);
      const int last = bound - 1 - (int)group;  // of the keys that this thread may have, or less
#pragma unroll
      for (int j = 0; j < 2; ++j)
        k[j].load(keys + (from + 8 * j <= last ? from + 8 * j : last) * key_bytes, quarter);
    };
    auto load_values = [&](int from) {
      Rows run(values + from * value_bytes, value_bytes);
      if (from + 16 <= bound) return v.template load<true>(run.at, group);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (absent(from, n, quarter, bound)) run.at[n] = 0;
      }
      v.load(run.at, group);
    };
    // Keys and values of the next run are asked for as soon as this run's are used up.
    if (!early) {
      load_keys(first);
      load_values(first);
      load_queries(rows, quarter);
    } else if (first + 16 > bound) {
      // Masked values must be 0: memory there may hold NaN.
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (absent(first, n, quarter, bound)) v.clear(n);
      }
    }
    for (int from = first; from < bound; from += step) {
      float s[2][4];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
        scores_of(k[j], s[j]);
      }
      const bool more = from + step < bound;
      if (more) load_keys(from + step);
      if (!PLAIN || from + 16 > whole) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
          for (int x = 0; x < 2 * HALVES; ++x) {
            const int key = from + 8 * j + 2 * quarter + x % 2;
            s[j][x] = key < limits[x / 2] ? score(x / 2, key, s[j][x]) : kNoScore;
          }
        }
      }
      this->template weigh<2>(s, unit);
      u32 weights[4] = {pack_pair<BF16>(s[0][0], s[0][1]), 0, pack_pair<BF16>(s[1][0], s[1][1]), 0};
      if (HALVES == 2) {
        weights[1] = pack_pair<BF16>(s[0][2], s[0][3]);
        weights[3] = pack_pair<BF16>(s[1][2], s[1][3]);
      }
      v.template multiply<BF16, 2 * HALVES>(this->out, weights);
      if (more) load_values(from + step);
    }
#pragma unroll
    for (int h = 0; h < HALVES; ++h) this->most[h] *= unit;
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_WARP_CUH_
