// The templates of products by tiles, as CUDA C++: what tile_text.cc instantiates with a part's shape,
// addresses and tapes.
#include <string>

#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo {

namespace {

constexpr int kGroupColumns[] = {64, 96, 128, 160, 192, 208, 224, 256};

// The wgmma instruction for one number of columns: its operands are counted out in the text.
std::string GroupMultiply(int columns) {
  const int registers = columns / 2;
  std::string names, bound;
  for (int r = 0; r < registers; ++r) {
    names += (r == 0 ? "%" : ",%") + std::to_string(r);
    bound += std::string(r == 0 ? "" : ", ") + "\"+f\"(d[" + std::to_string(r) + "])";
  }
  const std::string a = "%" + std::to_string(registers), b = "%" + std::to_string(registers + 1);
  auto issue = [&](const char* type, int transposed) {
    return "asm volatile(\"wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + type +
           "." + type + " {" + names + "}, " + a + ", " + b + ", 1, 1, 1, 0, " + std::to_string(transposed) +
           ";\" : " + bound + " : \"l\"(a), \"l\"(b));";
  };
  const std::string size = std::to_string(columns);
  return "template <bool BF16, bool TRANSPOSED> DEV void group_multiply_" + size +
         "(float* d, u64 a, u64 b) {\n" + "if (BF16 && TRANSPOSED) " + issue("bf16", 1) +
         "\nif (BF16 && !TRANSPOSED) " + issue("bf16", 0) + "\nif (!BF16 && TRANSPOSED) " + issue("f16", 1) +
         "\nif (!BF16 && !TRANSPOSED) " + issue("f16", 0) + "\n}\n";
}

}  // namespace

std::string CudaGroupPrelude() {
  std::string text = "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n";
  for (int columns : kGroupColumns) text += GroupMultiply(columns);
  text += "template <int N, bool BF16, bool TRANSPOSED> DEV void group_multiply(float* d, u64 a, u64 b) {\n";
  for (int columns : kGroupColumns) {
    const std::string size = std::to_string(columns);
    text += "if constexpr (N == " + size + ") group_multiply_" + size + "<BF16, TRANSPOSED>(d, a, b);\n";
  }
  return text + "}\n#endif\n";
}

const char* CudaTilePrelude() {
  return R"cuda(// ---- tiles through shared memory
// Byte of 16-byte piece `piece` of a line of LINE bytes (32, 64, 128 or more), so that eight lines' equal pieces lie
// in different banks.
template <int LINE> DEV u32 swizzled(int line, int piece) {
  const int turn = LINE >= 128 ? line & 7 : LINE == 64 ? line >> 1 & 3 : line >> 2 & 1;
  return (u32)(line * LINE + ((piece ^ turn) << 4));
}
DEV void load_matrices(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
DEV void load_transposed(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
// One side of a tile: SIDE rows (or columns) by DEEP, copied in pieces of 16 bytes. ALONG: contiguous along the depth,
// lines are rows; else lines are depths. VECTOR elements are one access; 0: `value` makes each; below 0: all of a piece.
template <int SIDE, int DEEP, bool ALONG, int VECTOR, bool BF16> struct TileSide {
  static constexpr int LINE = (ALONG ? DEEP : SIDE) * 2, PIECES = LINE / 16, COPIES = SIDE * DEEP / 8 / 256, BYTES = SIDE * DEEP * 2;
  static constexpr int AT_ONCE = COPIES >= 12 ? 1 : 12 / (COPIES > 0 ? COPIES : 1);  // stages whose pieces registers hold
  // This thread's pieces of STAGES stages from depth k on, all read before the first is written.
  template <int STAGES, typename Value> DEV void fill(u32 to, u32 pitch, int side, int sides, int k, int depth, Value value) {
    const int piece = threadIdx.x % PIECES;
    #pragma unroll
    for (int first = 0; first < STAGES; first += AT_ONCE) {
      uint4 made[AT_ONCE][COPIES];
      #pragma unroll
      for (int b = 0; b < AT_ONCE; ++b)
        #pragma unroll
        for (int n = 0; n < COPIES; ++n) {
          if (first + b >= STAGES) continue;
          const int s = side + (int)threadIdx.x / PIECES + n * (256 / PIECES), d = k + (first + b) * DEEP + piece * 8;
          const bool real = s < sides && d < depth;
          float x[8];
          value(real ? s : 0, real ? d : 0, x);  // no branch around loads
          #pragma unroll
          for (int v = 0; v < 8; ++v) x[v] = real ? x[v] : 0.0f;
          made[b][n] = make_uint4(attention_pack<BF16>(x[0], x[1]), attention_pack<BF16>(x[2], x[3]), attention_pack<BF16>(x[4], x[5]), attention_pack<BF16>(x[6], x[7]));
        }
      #pragma unroll
      for (int b = 0; b < AT_ONCE; ++b)
        #pragma unroll
        for (int n = 0; n < COPIES; ++n) {
          if (first + b >= STAGES) continue;
          const int line = (int)threadIdx.x / PIECES + n * (256 / PIECES);
          store_shared_16(to + (first + b) * pitch + swizzled<LINE>(line, piece), made[b][n]);
        }
    }
  }
  template <typename Place, typename Deep, typename Present, typename Value>
  DEV void copy(u32 to, const char* base, int side, int sides, int k, int depth, Place place_at, Deep deep_at, Present present,
                       Value value) {
    const int piece = threadIdx.x % PIECES;
    #pragma unroll
    for (int n = 0; n < COPIES; ++n) {
      const int line = threadIdx.x / PIECES + n * (256 / PIECES);
      const u32 slot = to + swizzled<LINE>(line, piece);
      const int s = side + (ALONG ? line : piece * 8), d = k + (ALONG ? piece * 8 : line);
      if (VECTOR == 1) {
        u32 x[8];
        const At places = place_at(s), depths = deep_at(d);
        #pragma unroll
        for (int v = 0; v < 8; ++v) {
          const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
          const At at = (ALONG ? places : place_at(sv)) + (ALONG ? deep_at(dv) : depths);
          x[v] = sv < sides && dv < depth && present(at) ? *(const unsigned short*)(base + 2 * at.a) : 0u;
        }
        store_shared_16(slot, make_uint4(x[0] | x[1] << 16, x[2] | x[3] << 16, x[4] | x[5] << 16, x[6] | x[7] << 16));
      } else if (VECTOR > 1) {
        #pragma unroll
        for (int v = 0; v < 8; v += VECTOR < 1 ? 8 : VECTOR) {
          const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
          const At at = place_at(sv) + deep_at(dv);
          const bool real = sv < sides && dv < depth && present(at);
          copy_async<VECTOR < 2 ? 4 : VECTOR * 2>(slot + v * 2, real ? base + 2 * at.a : base, real);
        }
      } else {
        float x[8];
        if constexpr (VECTOR < 0) {
          #pragma unroll
          for (int v = 0; v < 8; ++v) x[v] = 0;
          if (s < sides && d < depth) value(s, d, x);
        } else {
          #pragma unroll
          for (int v = 0; v < 8; ++v) {
            const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
            x[v] = sv < sides && dv < depth ? value(sv, dv) : 0.0f;
          }
        }
        store_shared_16(slot, make_uint4(attention_pack<BF16>(x[0], x[1]), attention_pack<BF16>(x[2], x[3]), attention_pack<BF16>(x[4], x[5]), attention_pack<BF16>(x[6], x[7])));
      }
    }
  }
};

// The sums of a tile, rows N + 4 apart, of all blocks of the cluster; each block finishes its share of the rows.
template <int M, int N, int RIGHTS, int CLUSTER, int VECTOR, typename Finish>
DEV void finish_tile(const float* sums, u32 rank, int row, int column, int rows, int columns, Finish finish) {
  if (CLUSTER > 1) cluster_barrier();
  constexpr int PITCH = N + 4, PIECES = N / VECTOR, SHARE = M / CLUSTER;
  for (int p = threadIdx.x; p < SHARE * PIECES; p += 256) {
    const int r = (int)rank * SHARE + p / PIECES, c = p % PIECES * VECTOR;
    float x[RIGHTS * VECTOR];
    #pragma unroll
    for (int j = 0; j < RIGHTS; ++j) {
      const float* from = sums + (j * M + r) * PITCH + c;
      if (CLUSTER > 1) sum_cluster<CLUSTER, VECTOR>(shared_address(from), x + j * VECTOR);
      else load_shared<VECTOR>(from, x + j * VECTOR);
    }
    if (row + r < rows && column + c < columns) finish(row + r, column + c, x);
  }
  if (CLUSTER > 1) cluster_barrier();
}

// C tiles of M x N, DEEP at a time in STAGES stages. The warps of a block are WARPS_M x WARPS_N x WARPS_K; the CLUSTER
// blocks of a cluster split the depth. EARLY as above.
template <int M, int N, int DEEP, int WARPS_M, int WARPS_N, int WARPS_K, int STAGES, int RIGHTS, int CLUSTER, bool LEFT_ALONG, int LEFT_VECTOR,
          bool RIGHT_ALONG, int RIGHT_VECTOR, int VECTOR, bool BF16, bool EARLY, typename Row, typename LeftDepth, typename Present, typename LeftValue,
          typename Column, typename RightDepth, typename RightValue, typename Finish>
DEV void tile_product(u32 row_tile, u32 column_tile, u32 rank, int rows, int columns, int depth, const char* left, const char* const* right,
                      Row row_at, LeftDepth left_depth_at, Present left_present, LeftValue left_value, Column column_at,
                      RightDepth right_depth_at, RightValue right_value, Finish finish) {
  using Left = TileSide<M, DEEP, LEFT_ALONG, LEFT_VECTOR, BF16>;
  using Right = TileSide<N, DEEP, RIGHT_ALONG, RIGHT_VECTOR, BF16>;
  constexpr int STAGE = Left::BYTES + RIGHTS * Right::BYTES, WM = M / WARPS_M, WN = N / WARPS_N;
  constexpr int TM = WM / 16, TN = WN / 8, SUBSTEPS = DEEP / 16 / WARPS_K;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int wm = warp % WARPS_M, wn = warp / WARPS_M % WARPS_N, wk = warp / (WARPS_M * WARPS_N);
  const int row = (int)row_tile * M, column = (int)column_tile * N;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + CLUSTER - 1) / CLUSTER;
  const int begin = (int)rank * each, end = begin + each < all ? begin + each : all;
  const u32 memory = shared_address(shared_memory);
  float acc[RIGHTS][TM][TN][4];
  #pragma unroll
  for (int x = 0; x < RIGHTS * TM * TN * 4; ++x) (&acc[0][0][0][0])[x] = 0;

  auto copy_left = [&](int step, int stage) {
    if (step >= end) return;
    Left::copy(memory + stage * STAGE, left, row, rows, step * DEEP, depth, row_at, left_depth_at, left_present, left_value);
  };
  auto copy_right = [&](int step, int stage) {
    if (step >= end) return;
    #pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
      Right::copy(memory + stage * STAGE + Left::BYTES + j * Right::BYTES, right[j], column, columns, step * DEEP, depth, column_at,
                  right_depth_at, [](At) { return true; }, [&](int c, int k) { return right_value(j, c, k); });
  };
  if (EARLY) {
    #pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) copy_right(begin + s, s);
  }
  wait_for_earlier();
  if constexpr (LEFT_VECTOR < 0)
    Left::template fill<STAGES - 1>(memory, STAGE, row, rows, begin * DEEP, depth < end * DEEP ? depth : end * DEEP, left_value);
  #pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (LEFT_VECTOR >= 0) copy_left(begin + s, s);
    if (!EARLY) copy_right(begin + s, s);
    commit_copies();
  }
  int stage = 0;
  for (int step = begin; step < end; ++step) {
    wait_copies<STAGES - 2>();
    __syncthreads();
    const int ahead = step + STAGES - 1, free = stage == 0 ? STAGES - 1 : stage - 1;
    copy_left(ahead, free);
    copy_right(ahead, free);
    commit_copies();
    const u32 lefts = memory + stage * STAGE, rights = lefts + Left::BYTES;
    #pragma unroll
    for (int sub = 0; sub < SUBSTEPS; ++sub) {
      const int k = (wk * SUBSTEPS + sub) * 16;
      u32 a[TM][4];
      #pragma unroll
      for (int m = 0; m < TM; ++m) {
        const int r = wm * WM + m * 16;
        if (LEFT_ALONG) load_matrices(a[m], lefts + swizzled<Left::LINE>(r + (lane & 15), k / 8 + (lane >> 4)));
        else load_transposed(a[m], lefts + swizzled<Left::LINE>(k + (lane & 7) + (lane >> 4) * 8, r / 8 + (lane >> 3 & 1)));
      }
      #pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
        #pragma unroll
        for (int n = 0; n < TN; n += 2) {
          const int c = wn * WN + n * 8;
          u32 b[4];
          if (RIGHT_ALONG) load_matrices(b, rights + j * Right::BYTES + swizzled<Right::LINE>(c + (lane & 7) + (lane >> 4) * 8, k / 8 + (lane >> 3 & 1)));
          else load_transposed(b, rights + j * Right::BYTES + swizzled<Right::LINE>(k + (lane & 15), c / 8 + (lane >> 4)));
          #pragma unroll
          for (int m = 0; m < TM; ++m) {
            multiply<BF16>(acc[j][m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
            multiply<BF16>(acc[j][m][n + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
          }
        }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  wait_copies<0>();
  __syncthreads();

  constexpr int PITCH = N + 4;
  float* sums = (float*)shared_memory;
  #pragma unroll
  for (int w = 0; w < WARPS_K; ++w) {
    if (wk == w) {
      #pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
        #pragma unroll
        for (int m = 0; m < TM; ++m)
          #pragma unroll
          for (int n = 0; n < TN; ++n)
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
              float2* to = (float2*)(sums + (j * M + wm * WM + m * 16 + (lane >> 2) + 8 * h) * PITCH + wn * WN + n * 8 + (lane & 3) * 2);
              float2 v = make_float2(acc[j][m][n][2 * h], acc[j][m][n][2 * h + 1]);
              if (w > 0) { const float2 old = *to; v.x += old.x; v.y += old.y; }
              *to = v;
            }
    }
    __syncthreads();
  }
  finish_tile<M, N, RIGHTS, CLUSTER, VECTOR>(sums, rank, row, column, rows, columns, finish);
}

// ---- tiles in f32 and with FMA
// One side of a tile: SIDE rows (or columns) by DEEP floats; lines as in TileSide, one piece longer so that threads that
// walk down them meet different banks.
template <int SIDE, int DEEP, bool ALONG, int VECTOR> struct FloatSide {
  static constexpr int LENGTH = ALONG ? DEEP : SIDE, PITCH = LENGTH + 4, LINES = ALONG ? SIDE : DEEP, PIECES = LENGTH / 4;
  static constexpr int BYTES = LINES * PITCH * 4;
  template <typename Place, typename Deep, typename Present, typename Value>
  DEV void copy(u32 to, const char* base, int side, int sides, int k, int depth, Place place_at, Deep deep_at, Present present, Value value) {
    for (int n = threadIdx.x; n < LINES * PIECES; n += 256) {
      const int line = n / PIECES, piece = n % PIECES;
      const u32 slot = to + (u32)(line * PITCH + piece * 4) * 4;
      const int s = side + (ALONG ? line : piece * 4), d = k + (ALONG ? piece * 4 : line);
      if (VECTOR > 0) {
        #pragma unroll
        for (int v = 0; v < 4; v += VECTOR > 0 ? VECTOR : 4) {
          const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
          const At at = place_at(sv) + deep_at(dv);
          const bool real = sv < sides && dv < depth && present(at);
          copy_async<VECTOR < 1 ? 4 : VECTOR * 4>(slot + v * 4, real ? base + 4 * at.a : base, real);
        }
      } else {
        float x[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
          x[v] = sv < sides && dv < depth ? value(sv, dv) : 0.0f;
        }
        store_shared_16(slot, make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])));
      }
    }
  }
};

// SIZE x SIZE tiles of 16 x 16 threads, 32 deep at a time.
template <int SIZE, int STAGES, int RIGHTS, int CLUSTER, bool LEFT_ALONG, int LEFT_VECTOR, bool RIGHT_ALONG, int RIGHT_VECTOR, int VECTOR,
          bool EARLY, typename Row, typename LeftDepth, typename Present, typename LeftValue, typename Column, typename RightDepth,
          typename RightValue, typename Finish>
DEV void float_product(u32 row_tile, u32 column_tile, u32 rank, int rows, int columns, int depth, const char* left, const char* const* right,
                       Row row_at, LeftDepth left_depth_at, Present left_present, LeftValue left_value, Column column_at,
                       RightDepth right_depth_at, RightValue right_value, Finish finish) {
  constexpr int DEEP = 32, EACH = SIZE / 16;
  using Left = FloatSide<SIZE, DEEP, LEFT_ALONG, LEFT_VECTOR>;
  using Right = FloatSide<SIZE, DEEP, RIGHT_ALONG, RIGHT_VECTOR>;
  constexpr int STAGE = Left::BYTES + RIGHTS * Right::BYTES;
  const int row = (int)row_tile * SIZE, column = (int)column_tile * SIZE, tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + CLUSTER - 1) / CLUSTER;
  const int begin = (int)rank * each, end = begin + each < all ? begin + each : all;
  const u32 memory = shared_address(shared_memory);
  float acc[RIGHTS][EACH][EACH];
  #pragma unroll
  for (int x = 0; x < RIGHTS * EACH * EACH; ++x) (&acc[0][0][0])[x] = 0;
  auto copy_left = [&](int step, int stage) {
    if (step < end) Left::copy(memory + stage * STAGE, left, row, rows, step * DEEP, depth, row_at, left_depth_at, left_present, left_value);
  };
  auto copy_right = [&](int step, int stage) {
    if (step >= end) return;
    #pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
      Right::copy(memory + stage * STAGE + Left::BYTES + j * Right::BYTES, right[j], column, columns, step * DEEP, depth, column_at,
                  right_depth_at, [](At) { return true; }, [&](int c, int k) { return right_value(j, c, k); });
  };
  if (EARLY) {
    #pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) copy_right(begin + s, s);
  }
  wait_for_earlier();
  #pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    copy_left(begin + s, s);
    if (!EARLY) copy_right(begin + s, s);
    commit_copies();
  }
  int stage = 0;
  for (int step = begin; step < end; ++step) {
    wait_copies<STAGES - 2>();
    __syncthreads();
    const int ahead = step + STAGES - 1, free = stage == 0 ? STAGES - 1 : stage - 1;
    copy_left(ahead, free);
    copy_right(ahead, free);
    commit_copies();
    const float* lefts = (const float*)(shared_memory + stage * STAGE);
    #pragma unroll 2
    for (int k = 0; k < DEEP; k += 4) {
      float a[EACH][4], b[EACH][4];
      #pragma unroll
      for (int i = 0; i < EACH; ++i) {
        if (LEFT_ALONG) load_shared<4>(lefts + (ty + 16 * i) * Left::PITCH + k, a[i]);
        else
          #pragma unroll
          for (int e = 0; e < 4; ++e) a[i][e] = lefts[(k + e) * Left::PITCH + ty * EACH + i];
      }
      #pragma unroll
      for (int j = 0; j < RIGHTS; ++j) {
        const float* rights = lefts + (Left::BYTES + j * Right::BYTES) / 4;
        if (RIGHT_ALONG) {
          #pragma unroll
          for (int i = 0; i < EACH; ++i) load_shared<4>(rights + (tx + 16 * i) * Right::PITCH + k, b[i]);
        } else {
          #pragma unroll
          for (int e = 0; e < 4; ++e) {
            float x[EACH];
            load_shared<EACH>(rights + (k + e) * Right::PITCH + tx * EACH, x);
            #pragma unroll
            for (int i = 0; i < EACH; ++i) b[i][e] = x[i];
          }
        }
        #pragma unroll
        for (int e = 0; e < 4; ++e)
          #pragma unroll
          for (int m = 0; m < EACH; ++m)
            #pragma unroll
            for (int n = 0; n < EACH; ++n) acc[j][m][n] = __fmaf_rn(a[m][e], b[n][e], acc[j][m][n]);
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  wait_copies<0>();
  __syncthreads();
  float* sums = (float*)shared_memory;
  #pragma unroll
  for (int j = 0; j < RIGHTS; ++j)
    #pragma unroll
    for (int m = 0; m < EACH; ++m)
      #pragma unroll
      for (int n = 0; n < EACH; ++n)
        sums[(j * SIZE + (LEFT_ALONG ? ty + 16 * m : ty * EACH + m)) * (SIZE + 4) + (RIGHT_ALONG ? tx + 16 * n : tx * EACH + n)] = acc[j][m][n];
  __syncthreads();
  finish_tile<SIZE, SIZE, RIGHTS, CLUSTER, VECTOR>(sums, rank, row, column, rows, columns, finish);
}

// ---- tiles by warp groups (sm_90a): wgmma reads both sides from shared memory and runs while the threads copy
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Shared memory as wgmma addresses it: lines of 128 bytes swizzled as `swizzled` does, groups of eight lines 1024 bytes
// apart; `panel`: bytes between panels of 64 columns where lines are depths.
DEV u64 matrix_of(u32 address, u32 panel) {
  return (u64)((address & 0x3ffffu) >> 4) | (u64)(panel >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
DEV void group_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> DEV void group_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }
DEV void show_to_groups() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// 128 x N tiles, 64 deep at a time: two groups of four warps, 64 rows each. Copies run STAGES - 2 stages ahead, because
// the products of one stage still run while the next is begun.
template <int N, int STAGES, int RIGHTS, int CLUSTER, int LEFT_VECTOR, bool RIGHT_ALONG, int VECTOR, bool BF16, bool EARLY, typename Row,
          typename LeftDepth, typename Present, typename LeftValue, typename Column, typename RightDepth, typename RightValue, typename Finish>
DEV void group_product(u32 row_tile, u32 column_tile, u32 rank, int rows, int columns, int depth, const char* left, const char* const* right,
                       Row row_at, LeftDepth left_depth_at, Present left_present, LeftValue left_value, Column column_at,
                       RightDepth right_depth_at, RightValue right_value, Finish finish) {
  constexpr int M = 128, DEEP = 64, PANELS = RIGHT_ALONG ? 1 : N / 64, AHEAD = STAGES - 2;
  using Left = TileSide<M, DEEP, true, LEFT_VECTOR, BF16>;
  using Right = TileSide<RIGHT_ALONG ? N : 64, DEEP, RIGHT_ALONG, 8, BF16>;
  constexpr int RIGHT_BYTES = N * DEEP * 2, STAGE = Left::BYTES + RIGHTS * RIGHT_BYTES;
  const int row = (int)row_tile * M, column = (int)column_tile * N, group = threadIdx.x >> 7;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + CLUSTER - 1) / CLUSTER;
  const int begin = (int)rank * each, end = begin + each < all ? begin + each : all;
  const u32 base = shared_address(shared_memory), memory = (base + 1023u) & ~1023u;
  float acc[RIGHTS][N / 2];
  #pragma unroll
  for (int x = 0; x < RIGHTS * N / 2; ++x) (&acc[0][0])[x] = 0;
  auto copy_left = [&](int step, int stage) {
    if (step >= end) return;
    Left::copy(memory + stage * STAGE, left, row, rows, step * DEEP, depth, row_at, left_depth_at, left_present, left_value);
  };
  auto copy_right = [&](int step, int stage) {
    if (step >= end) return;
    #pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
      #pragma unroll
      for (int p = 0; p < PANELS; ++p)
        Right::copy(memory + stage * STAGE + Left::BYTES + j * RIGHT_BYTES + p * Right::BYTES, right[j], column + p * 64, columns, step * DEEP,
                    depth, column_at, right_depth_at, [](At) { return true; }, [&](int c, int k) { return right_value(j, c, k); });
  };
  if (EARLY) {
    #pragma unroll
    for (int s = 0; s < AHEAD; ++s) copy_right(begin + s, s);
  }
  wait_for_earlier();
  if constexpr (LEFT_VECTOR < 0)
    Left::template fill<AHEAD>(memory, STAGE, row, rows, begin * DEEP, depth < end * DEEP ? depth : end * DEEP, left_value);
  #pragma unroll
  for (int s = 0; s < AHEAD; ++s) {
    if (LEFT_VECTOR >= 0) copy_left(begin + s, s);
    if (!EARLY) copy_right(begin + s, s);
    commit_copies();
  }
  int stage = 0, free = AHEAD % STAGES;
  for (int step = begin; step < end; ++step) {
    wait_copies<AHEAD - 1>();
    show_to_groups();
    __syncthreads();
    const u32 lefts = memory + stage * STAGE + group * 8192, rights = memory + stage * STAGE + Left::BYTES;
    group_begin();
    #pragma unroll
    for (int k = 0; k < DEEP / 16; ++k)
      #pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
        group_multiply<N, BF16, !RIGHT_ALONG>(acc[j], matrix_of(lefts + k * 32, 0),
                                              matrix_of(rights + j * RIGHT_BYTES + k * (RIGHT_ALONG ? 32 : 2048), RIGHT_ALONG ? 0 : Right::BYTES));
    group_commit();
    copy_left(step + AHEAD, free);
    copy_right(step + AHEAD, free);
    commit_copies();
    group_wait<1>();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    free = free + 1 == STAGES ? 0 : free + 1;
  }
  group_wait<0>();
  wait_copies<0>();
  __syncthreads();
  constexpr int PITCH = N + 4;
  float* sums = (float*)(shared_memory + (memory - base));
  const int lane = threadIdx.x & 31, first = (threadIdx.x >> 5) * 16 + (lane >> 2);
  #pragma unroll
  for (int j = 0; j < RIGHTS; ++j)
    #pragma unroll
    for (int x = 0; x < N / 2; x += 2)
      *(float2*)(sums + (j * M + first + (x & 2) * 4) * PITCH + x / 4 * 8 + (lane & 3) * 2) = make_float2(acc[j][x], acc[j][x + 1]);
  __syncthreads();
  finish_tile<M, N, RIGHTS, CLUSTER, VECTOR>(sums, rank, row, column, rows, columns, finish);
}
#endif
)cuda";
}

}  // namespace rondo
