// Attention for many queries, as CUDA C++: what staged_attention_text.cc instantiates.
#include <string>

#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo {

namespace {

// The wgmma instruction with its left side in registers, for one number of columns.
std::string WeighText(int columns) {
  const int registers = columns / 2;
  auto number = [](int n) { return "%" + std::to_string(n); };
  std::string names, bound;
  for (int r = 0; r < registers; ++r) {
    names += (r == 0 ? "" : ",") + number(r);
    bound += std::string(r == 0 ? "" : ", ") + "\"+f\"(d[" + std::to_string(r) + "])";
  }
  std::string left;
  for (int r = 0; r < 4; ++r) left += (r == 0 ? "" : ",") + number(registers + r);
  auto issue = [&](const std::string& type) {
    return "asm volatile(\"wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + type +
           "." + type + " {" + names + "}, {" + left + "}, " + number(registers + 4) +
           ", 1, 1, 1, 1;\" : " + bound + " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));";
  };
  return "if constexpr (N == " + std::to_string(columns) + ") { if (BF16) " + issue("bf16") + " else " +
         issue("f16") + " }\n";
}

constexpr const char* kCopies = R"cuda(
// ---- attention with keys and values in shared memory: copied once for all queries of a block
// LINES lines of ELEMENTS in shared memory, as ldmatrix reads them: an odd number of 16-byte pieces apart, so that eight
// lines' equal pieces lie in different banks.
template <int ELEMENTS, int LINES> struct PaddedLines {
  static constexpr int PIECES = ELEMENTS / 8, PITCH = ELEMENTS * 2 + 16, BYTES = LINES * PITCH;
  DEV u32 place(int line, int piece) { return (u32)(line * PITCH + piece * 16); }
};
// As wgmma reads them: panels of 64 elements, their lines swizzled.
template <int ELEMENTS, int LINES> struct PanelLines {
  static constexpr int PIECES = ELEMENTS / 8, PANEL = LINES * 128, BYTES = LINES * ELEMENTS * 2;
  DEV u32 place(int line, int piece) { return (u32)(piece / 8 * PANEL) + swizzled<128>(line, piece % 8); }
};
// What is computed from it is computed anew each time: kept in registers over all keys, it would leave too few.
DEV int thread_again() {
  int thread = (int)threadIdx.x;
  asm volatile("" : "+r"(thread));
  return thread;
}
// Copies COUNT lines, each from `line_at(line)`; those that are absent become zeros.
struct Line { const char* at; bool present; };
template <typename Lines, int COUNT, typename LineAt> DEV void copy_lines(u32 to, LineAt line_at) {
  constexpr int ITEMS = COUNT * Lines::PIECES, ROUNDS = (ITEMS + 255) / 256;
  constexpr bool EVEN = 256 % Lines::PIECES == 0;
  const int thread = thread_again();
#pragma unroll
  for (int n = 0; n < ROUNDS; ++n) {
    const int item = thread + n * 256;
    if (ITEMS % 256 != 0 && item >= ITEMS) break;
    const int line = EVEN ? thread / Lines::PIECES + n * (256 / Lines::PIECES) : item / Lines::PIECES;
    const int piece = (EVEN ? thread : item) % Lines::PIECES;
    const Line from = line_at(line);
    copy_async<16>(to + Lines::place(line, piece), from.at + piece * 16, from.present);
  }
}
template <bool BF16, int COUNT> DEV void pack_weights(const float (*s)[4], u32 (*weights)[4]) {
#pragma unroll
  for (int j = 0; j < COUNT; ++j) {
    weights[j][0] = attention_pack<BF16>(s[2 * j][0], s[2 * j][1]);
    weights[j][1] = attention_pack<BF16>(s[2 * j][2], s[2 * j][3]);
    weights[j][2] = attention_pack<BF16>(s[2 * j + 1][0], s[2 * j + 1][1]);
    weights[j][3] = attention_pack<BF16>(s[2 * j + 1][2], s[2 * j + 1][3]);
  }
}

// The products of a block whose 8 warps are ROW_WARPS by 8 / ROW_WARPS: rows, and shares of KEYS keys. By mma.sync.
template <bool BF16, int FEATURES, int VALUES, int ROW_WARPS, int KEYS> struct WarpAttention {
  static constexpr int SPLITS = 8 / ROW_WARPS, OWN = KEYS / SPLITS;
  static constexpr bool BF = BF16;
  static constexpr bool TOGETHER = false;  // may a warp leave out keys that others of its block have?
  using Queries = PaddedLines<FEATURES, ROW_WARPS * 16>;
  using Keys = PaddedLines<FEATURES, KEYS>;
  using Values = PaddedLines<VALUES, KEYS>;

  static MEMBER void show() {}
  // The scores of the warp's rows with its share of the keys.
  static MEMBER void score(u32 queries, u32 keys, float (*s)[4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp % ROW_WARPS * 16 + lane % 16;
    const int first = warp / ROW_WARPS * OWN + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < OWN / 8; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
    for (int c = 0; c < FEATURES / 16; ++c) {
      u32 q[4];
      load_matrices(q, queries + Queries::place(row, 2 * c + lane / 16));
#pragma unroll
      for (int j = 0; j < OWN / 16; ++j) {
        u32 b[4];
        load_matrices(b, keys + Keys::place(first + 16 * j, 2 * c + lane / 8 % 2));
        attention_multiply<BF16>(s[2 * j], q, b[0], b[1]);
        attention_multiply<BF16>(s[2 * j + 1], q, b[2], b[3]);
      }
    }
  }
  static MEMBER void add(u32 values, const u32 (*weights)[4], float (*out)[4]) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 / ROW_WARPS * OWN + lane % 16;
#pragma unroll
    for (int j = 0; j < OWN / 16; ++j) {
#pragma unroll
      for (int v = 0; v < VALUES / 16; ++v) {
        u32 b[4];
        load_transposed(b, values + Values::place(first + 16 * j, 2 * v + lane / 16));
        attention_multiply<BF16>(out[2 * v], weights[j], b[0], b[1]);
        attention_multiply<BF16>(out[2 * v + 1], weights[j], b[2], b[3]);
      }
    }
  }
};
)cuda";

constexpr const char* kGroups = R"cuda(
// Sums of wgmma are not to be touched while it runs: nothing that reads or writes them moves across this.
template <int COUNT> DEV void hold_sums(float (*s)[4]) {
#pragma unroll
  for (int j = 0; j < COUNT; ++j) asm volatile("" : "+f"(s[j][0]), "+f"(s[j][1]), "+f"(s[j][2]), "+f"(s[j][3])::"memory");
}
// The same by wgmma: groups of four warps, 64 rows each.
template <bool BF16, int FEATURES, int VALUES, int ROW_WARPS, int KEYS> struct GroupAttention {
  static constexpr int SPLITS = 8 / ROW_WARPS, OWN = KEYS / SPLITS;
  static constexpr bool BF = BF16;
  static constexpr bool TOGETHER = true;
  static_assert(OWN == 64 || OWN == 128, "keys that one instruction of wgmma takes");
  using Queries = PanelLines<FEATURES, ROW_WARPS * 16>;
  using Keys = PanelLines<FEATURES, KEYS>;
  using Values = PanelLines<VALUES, KEYS>;

  static MEMBER void show() { show_to_groups(); }
  static MEMBER void score(u32 queries, u32 keys, float (*s)[4]) {
    const u32 group = threadIdx.x / 128;
    queries += group % (ROW_WARPS / 4) * 8192;
    keys += group / (ROW_WARPS / 4) * (OWN * 128);
#pragma unroll
    for (int j = 0; j < OWN / 8; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
    hold_sums<OWN / 8>(s);
    group_begin();
#pragma unroll
    for (int c = 0; c < FEATURES / 16; ++c)
      group_multiply<OWN, BF16, false>(&s[0][0], matrix_of(queries + c / 4 * Queries::PANEL + c % 4 * 32, 0),
                                       matrix_of(keys + c / 4 * Keys::PANEL + c % 4 * 32, 0));
    group_commit();
    group_wait<0>();
    hold_sums<OWN / 8>(s);
  }
  static MEMBER void add(u32 values, const u32 (*weights)[4], float (*out)[4]) {
    values += threadIdx.x / 128 / (ROW_WARPS / 4) * (OWN * 128);
    hold_sums<VALUES / 8>(out);
    group_begin();
#pragma unroll
    for (int j = 0; j < OWN / 16; ++j) group_weigh<VALUES, BF16>(&out[0][0], weights[j], matrix_of(values + j * 2048, Values::PANEL));
    group_commit();
    group_wait<0>();
    hold_sums<VALUES / 8>(out);
  }
};
)cuda";

constexpr const char* kWalk = R"cuda(
DEV int greatest_of_block(int own) {
  __shared__ int warps[8];
  own = __reduce_max_sync(0xffffffffu, own);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  int most = warps[0];
#pragma unroll
  for (int w = 1; w < 8; ++w) most = warps[w] > most ? warps[w] : most;
  return most;
}

// All keys for the queries of a block, KEYS at a time. As soon as all warps have used keys, or values, those STAGES tiles
// on are copied to their place. `limits`, `unit` and
// `score` as AttentionWarp::walk has them; LIMITED: limits may be less than `all`. No value from the greatest limit of
// the block on is read.
template <typename Products, bool PLAIN, bool LIMITED, int KEYS, int STAGES, int VALUES, typename QueryAt, typename Score>
DEV void staged_attention(AttentionRows<VALUES>& rows, u32 memory, QueryAt query_at, const int* limits, int all, const char* keys, i64 key_bytes,
                          const char* values, i64 value_bytes, float unit, Score score) {
  constexpr int OWN = Products::OWN, STAGE = Products::Keys::BYTES + Products::Values::BYTES;
  const u32 queries = memory, stages = memory + Products::Queries::BYTES;
  auto copy_keys = [&](int tile, int bound) {
    const char* from = keys + tile * KEYS * key_bytes;
    if (tile * KEYS < bound)
      copy_lines<typename Products::Keys, KEYS>(stages + tile % STAGES * STAGE, [&](int line) {
        return Line{from + line * key_bytes, tile * KEYS + line < bound};
      });
    commit_copies();
  };
  auto copy_values = [&](int tile, int bound) {
    const char* from = values + tile * KEYS * value_bytes;
    if (tile * KEYS < bound)
      copy_lines<typename Products::Values, KEYS>(stages + tile % STAGES * STAGE + Products::Keys::BYTES, [&](int line) {
        return Line{from + line * value_bytes, tile * KEYS + line < bound};
      });
    commit_copies();
  };
  copy_lines<typename Products::Queries, 128 / Products::SPLITS>(queries, [&](int line) {
    const char* at = query_at(line);
    return Line{at != 0 ? at : keys, at != 0};
  });
  copy_keys(0, all);
  const int bound = LIMITED ? greatest_of_block(limits[0] > limits[1] ? limits[0] : limits[1]) : all;
  copy_values(0, bound);
#pragma unroll
  for (int s = 1; s < STAGES; ++s) { copy_keys(s, bound); copy_values(s, bound); }
  // Below it, every row of the warp has every key. Rows that do not exist count as the others.
  const int whole = (int)__reduce_min_sync(0xffffffffu, min((u32)limits[0], (u32)limits[1]));
  const int own_bound = Products::TOGETHER ? bound : __reduce_max_sync(0xffffffffu, limits[0] > limits[1] ? limits[0] : limits[1]);
  rows.clear();
  for (int tile = 0; tile * KEYS < bound; ++tile) {
    if (tile == 0) wait_copies<2 * STAGES - 1>(); else wait_copies<2 * STAGES - 2>();
    Products::show();
    __syncthreads();
    if (tile > 0) copy_values(tile + STAGES - 1, bound);
    const u32 stage = stages + tile % STAGES * STAGE;
    const int from = tile * KEYS + thread_again() / 32 / (8 / Products::SPLITS) * OWN;
    const bool any = from < own_bound;
    u32 weights[OWN / 16][4];
    if (any) {
      float s[OWN / 8][4];
      Products::score(queries, stage, s);
      if (!PLAIN || from + OWN > whole) {
        const int first = from + 2 * (thread_again() % 4);
#pragma unroll
        for (int j = 0; j < OWN / 8; ++j) {
#pragma unroll
          for (int x = 0; x < 4; ++x) {
            const int key = first + 8 * j + x % 2;
            s[j][x] = key < limits[x / 2] ? score(x / 2, key, s[j][x]) : kNoScore;
          }
        }
      }
      rows.template weigh<OWN / 8>(s, unit);
      pack_weights<Products::BF, OWN / 16>(s, weights);
    }
    wait_copies<2 * STAGES - 2>();
    Products::show();
    __syncthreads();
    copy_keys(tile + STAGES, bound);
    if (any) Products::add(stage + Products::Keys::BYTES, weights, rows.out);
  }
  wait_copies<0>();
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) rows.most[h] *= unit;
}
)cuda";

}  // namespace

std::string CudaStagedAttentionPrelude() {
  std::string text = kCopies;
  text += "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n";
  text += "template <int N, bool BF16> DEV void group_weigh(float* d, const u32* a, u64 b) {\n";
  for (int columns : {64, 128, 192, 256}) text += WeighText(columns);
  return text + "}\n" + kGroups + "#endif\n" + kWalk;
}

}  // namespace rondo
