#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo {

// A warp holds 16 queries and walks over the keys, 16 at a time, as FlashAttention-2 does (Dao, 2023):
// scores only ever exist in registers. Both products are mma.sync.m16n8k16. Keys and values go from memory
// straight into the fragments of that instruction: a sum over features may run through them in any order, so
// a thread takes 16 neighbouring bytes of a key where the instruction's own order would have it take 4 times
// 4; the same is done with the order of value features, and pairs of keys are put together by byte
// permutations.
const char* CudaAttentionPrelude() {
  return R"cuda(
extern __shared__ __align__(128) char shared_memory[];

template <bool BF16> DEV u32 attention_pack(float low, float high) {
  u32 w;
  if (BF16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
}
template <bool BF16> DEV void attention_multiply(float* d, const u32* a, u32 b0, u32 b1) {
#define MULTIPLY(type) asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if (BF16) MULTIPLY("bf16"); else MULTIPLY("f16");
#undef MULTIPLY
}
DEV float attention_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
DEV float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
#define kNoScore bits_float(0xff800000u)
#define MEMBER __device__ __forceinline__

// The values of four keys, at FEATURES neighbouring features (8, 4 or 2) of each of the warp's 8 groups of threads.
template <int FEATURES> struct FourValues {
  static constexpr int WORDS = FEATURES / 2;
  u32 w[4][WORDS];
  template <bool ALL> MEMBER void load(const char* const* rows, i64 at) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (ALL || rows[k] != 0) load_words<WORDS>(rows[k] + at, w[k]); else fill_words<WORDS>(w[k]);
    }
  }
  template <bool BF16> MEMBER void multiply(float (*out)[4], const u32* weights) const {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      attention_multiply<BF16>(out[2 * i], weights, __byte_perm(w[0][i], w[1][i], 0x5410), __byte_perm(w[2][i], w[3][i], 0x5410));
      attention_multiply<BF16>(out[2 * i + 1], weights, __byte_perm(w[0][i], w[1][i], 0x7632), __byte_perm(w[2][i], w[3][i], 0x7632));
    }
  }
};

// 16 keys' values: VALUES features as pieces of 64, then 32, then 16.
template <int VALUES> struct SixteenValues {
  static constexpr int WIDE = VALUES / 64;
  FourValues<8> wide[WIDE > 0 ? WIDE : 1];
  FourValues<4> half;
  FourValues<2> quarter;
  template <bool ALL = false> MEMBER void load(const char* const* rows, u32 group) {
#pragma unroll
    for (int c = 0; c < WIDE; ++c) wide[c].template load<ALL>(rows, c * 128 + group * 16);
    if (VALUES % 64 >= 32) half.template load<ALL>(rows, WIDE * 128 + group * 8);
    if (VALUES % 32 >= 16) quarter.template load<ALL>(rows, (VALUES - 16) * 2 + group * 4);
  }
  template <bool BF16> MEMBER void multiply(float (*out)[4], const u32* weights) const {
#pragma unroll
    for (int c = 0; c < WIDE; ++c) wide[c].template multiply<BF16>(out + 8 * c, weights);
    if (VALUES % 64 >= 32) half.template multiply<BF16>(out + 8 * WIDE, weights);
    if (VALUES % 32 >= 16) quarter.template multiply<BF16>(out + (VALUES - 16) / 8, weights);
  }
};

// A warp's 16 queries: this thread has two rows of them, `group` and `group` + 8.
template <bool BF16, int FEATURES, int VALUES> struct AttentionWarp {
  u32 query[FEATURES / 16][4];
  float out[VALUES / 8][4];
  float most[2], total[2];  // the row's greatest score; the sum of exp2(score - most), this thread's share

  MEMBER void load_queries(const char* const* rows, u32 quarter) {
    u32 w[2][4];
#pragma unroll
    for (int c = 0; c < FEATURES / 32; ++c) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (rows[h] != 0) load_words<4>(rows[h] + c * 64 + quarter * 16, w[h]); else fill_words<4>(w[h]);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) { query[2 * c + k / 2][k % 2 * 2] = w[0][k]; query[2 * c + k / 2][k % 2 * 2 + 1] = w[1][k]; }
    }
    if (FEATURES % 32 != 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (rows[h] != 0) load_words<2>(rows[h] + (FEATURES - 16) * 2 + quarter * 8, w[h]); else fill_words<2>(w[h]);
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) { query[FEATURES / 16 - 1][k * 2] = w[0][k]; query[FEATURES / 16 - 1][k * 2 + 1] = w[1][k]; }
    }
  }
  // One of the 8 keys of a fragment, for each of the warp's groups.
  struct Key {
    u32 w[FEATURES / 8];
    MEMBER void load(const char* key, u32 quarter) {
#pragma unroll
      for (int c = 0; c < FEATURES / 32; ++c) load_words<4>(key + c * 64 + quarter * 16, w + 4 * c);
      if (FEATURES % 32 != 0) load_words<2>(key + (FEATURES - 16) * 2 + quarter * 8, w + FEATURES / 8 - 2);
    }
  };
  MEMBER void scores_of(const Key& key, float* s) const {
#pragma unroll
    for (int c = 0; c < FEATURES / 16; ++c) attention_multiply<BF16>(s, query[c], key.w[2 * c], key.w[2 * c + 1]);
  }
  // Takes new scores in, as weights relative to the greatest score so far. `unit` turns a score into one of base 2.
  MEMBER void weigh(float (*s)[4], float unit) {
    float base[2], scale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float high = fmaxf(fmaxf(s[0][2 * h], s[0][2 * h + 1]), fmaxf(s[1][2 * h], s[1][2 * h + 1]));
      const float now = fmaxf(most[h], quad_max(high));
      base[h] = now == kNoScore ? 0.0f : now * unit;
      scale[h] = attention_exp2(__fmaf_rn(most[h], unit, -base[h]));
      most[h] = now;
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int x = 0; x < 4; ++x) s[j][x] = attention_exp2(__fmaf_rn(s[j][x], unit, -base[x / 2]));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      total[h] = __fmaf_rn(total[h], scale[h], (s[0][2 * h] + s[0][2 * h + 1]) + (s[1][2 * h] + s[1][2 * h + 1]));
    }
    if (__any_sync(0xffffffffu, scale[0] != 1.0f || scale[1] != 1.0f)) {
#pragma unroll
      for (int v = 0; v < VALUES / 8; ++v) { out[v][0] *= scale[0]; out[v][1] *= scale[0]; out[v][2] *= scale[1]; out[v][3] *= scale[1]; }
    }
  }
  // Every `step`th run of 16 keys from `first` on, below `limits[h]` of each row (negative: there is no such row).
  // `score(h, key, dot)` times `unit` is a score of base 2; PLAIN: it is the dot product. No key from the greatest
  // limit on is read.
  template <bool PLAIN, typename Score> MEMBER void walk(const char* const* rows, const int* limits, int first, int step, const char* keys,
                                                         i64 key_bytes, const char* values, i64 value_bytes, float unit, Score score) {
    const u32 group = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) { most[h] = kNoScore; total[h] = 0; }
#pragma unroll
    for (int v = 0; v < VALUES / 8; ++v) out[v][0] = out[v][1] = out[v][2] = out[v][3] = 0;
    const int bound = __reduce_max_sync(0xffffffffu, limits[0] > limits[1] ? limits[0] : limits[1]);
    // Below it, every row has every key. Rows that do not exist count as the others.
    const int whole = (int)__reduce_min_sync(0xffffffffu, min((u32)limits[0], (u32)limits[1]));
    if (first >= bound) return;
    Key k[2];
    SixteenValues<VALUES> v;
    keys += group * key_bytes;
    values += 2 * quarter * value_bytes;
    auto load_keys = [&](int from) {
      const char* at = keys + from * key_bytes;
      if (from + 16 <= bound) {
        k[0].load(at, quarter);
        k[1].load(at + 8 * key_bytes, quarter);
        return;
      }
      const int last = bound - 1 - (int)group;  // of the keys that this thread may have, or less
#pragma unroll
      for (int j = 0; j < 2; ++j) k[j].load(keys + (from + 8 * j <= last ? from + 8 * j : last) * key_bytes, quarter);
    };
    auto load_values = [&](int from) {
      const char* at = values + from * value_bytes;
      const char* row[4] = {at, at + value_bytes, at + 8 * value_bytes, at + 9 * value_bytes};
      if (from + 16 > bound) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (from + 2 * (int)quarter + n % 2 + n / 2 * 8 >= bound) row[n] = 0;
        }
        v.load(row, group);
        return;
      }
      v.template load<true>(row, group);
    };
    // Keys and values of the next run are asked for as soon as this run's are used up.
    load_keys(first);
    load_values(first);
    load_queries(rows, quarter);
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
          for (int x = 0; x < 4; ++x) {
            const int key = from + 8 * j + 2 * quarter + x % 2;
            s[j][x] = key < limits[x / 2] ? score(x / 2, key, s[j][x]) : kNoScore;
          }
        }
      }
      weigh(s, unit);
      const u32 weights[4] = {attention_pack<BF16>(s[0][0], s[0][1]), attention_pack<BF16>(s[0][2], s[0][3]),
                              attention_pack<BF16>(s[1][0], s[1][1]), attention_pack<BF16>(s[1][2], s[1][3])};
      v.template multiply<BF16>(out, weights);
      if (more) load_values(from + step);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) most[h] *= unit;
  }
};

// What a block's warps found, in shared memory: ROWS queries of each of 8 warps, of which SPLITS share their queries
// (8 / SPLITS apart), then the block's own queries put together.
template <int ROWS, int VALUES, int SPLITS> struct AttentionBlock {
  static constexpr int PITCH = VALUES + 4, GROUPS = 8 / SPLITS, QUERIES = GROUPS * ROWS;
  MEMBER float* row(int n) { return (float*)shared_memory + n * (PITCH + 2); }
  template <typename Warp> MEMBER void keep(const Warp& from) {
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float total = quad_sum(from.total[h]);
      if (group + 8 * h >= ROWS) continue;
      float* to = row(warp * ROWS + group + 8 * h);
      if (quarter == 0) { to[PITCH] = from.most[h]; to[PITCH + 1] = total; }
#pragma unroll
      for (int v = 0; v < VALUES / 8; ++v) {
        // Fragment v is one of `width` whose features alternate.
        const int piece = v / 8 * 64, width = VALUES - piece >= 64 ? 8 : (VALUES - piece >= 32 && v % 8 < 4) ? 4 : 2;
        const int start = width == 2 ? VALUES - 16 : piece, j = v - start / 8;
        to[start + 2 * quarter * width + j] = from.out[v][2 * h];
        to[start + (2 * quarter + 1) * width + j] = from.out[v][2 * h + 1];
      }
    }
    __syncthreads();
  }
  // COUNT features of a query from the warps that split its keys, relative to the greatest score, into `x`.
  template <int COUNT> MEMBER void gather(int query, int first, float* x, float* most, float* total) {
    float high = kNoScore;
#pragma unroll
    for (int s = 0; s < SPLITS; ++s) high = fmaxf(high, row(query + s * QUERIES)[PITCH]);
    const float base = high == kNoScore ? 0.0f : high;
    float sum = 0;
#pragma unroll
    for (int c = 0; c < COUNT; ++c) x[c] = 0;
#pragma unroll
    for (int s = 0; s < SPLITS; ++s) {
      const float* part = row(query + s * QUERIES);
      const float scale = attention_exp2(part[PITCH] - base);
      sum += part[PITCH + 1] * scale;
#pragma unroll
      for (int c = 0; c < COUNT; ++c) x[c] += part[first + c] * scale;
    }
    *most = high;
    *total = sum;
  }
  // Leaves every query of the block, put together, for the other blocks of the cluster.
  MEMBER void publish() {
    constexpr int PIECES = VALUES / 2;
    for (int item = threadIdx.x; item < QUERIES * PIECES; item += 256) {
      float x[2], most, total;
      gather<2>(item / PIECES, item % PIECES * 2, x, &most, &total);
      float* to = row(8 * ROWS + item / PIECES);
      to[item % PIECES * 2] = x[0];
      to[item % PIECES * 2 + 1] = x[1];
      if (item % PIECES == 0) { to[PITCH] = most; to[PITCH + 1] = total; }
    }
  }
#if __CUDA_ARCH__ >= 900
  static MEMBER void meet() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
  static MEMBER float read(u32 rank, const float* at) {
    u32 address;
    float x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"((u32)__cvta_generic_to_shared(at)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
    return x;
  }
  // The same from all blocks of a cluster of BLOCKS.
  template <int COUNT, int BLOCKS> MEMBER void gather_cluster(int query, int first, float* x, float* total) {
    float most[BLOCKS], totals[BLOCKS], high = kNoScore;
    const float* at = row(8 * ROWS + query);
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) { most[r] = read(r, at + PITCH); totals[r] = read(r, at + PITCH + 1); }
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) high = fmaxf(high, most[r]);
    const float base = high == kNoScore ? 0.0f : high;
    float sum = 0;
#pragma unroll
    for (int c = 0; c < COUNT; ++c) x[c] = 0;
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) {
      const float scale = attention_exp2(most[r] - base);
      sum += totals[r] * scale;
#pragma unroll
      for (int c = 0; c < COUNT; ++c) x[c] += read(r, at + first + c) * scale;
    }
    *total = sum;
  }
#endif
};
)cuda";
}

}  // namespace rondo
