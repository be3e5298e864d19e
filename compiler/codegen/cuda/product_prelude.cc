// The templates of fast products, as CUDA C++: what skinny_text.cc and tile_text.cc instantiate with a part's
// shape, addresses and tapes.
#include <string>

#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo {

namespace {

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
  for (int columns : {64, 128, 192, 256}) text += GroupMultiply(columns);
  text += "template <int N, bool BF16, bool TRANSPOSED> DEV void group_multiply(float* d, u64 a, u64 b) {\n";
  for (int columns : {64, 128, 192, 256}) {
    const std::string size = std::to_string(columns);
    text += "if constexpr (N == " + size + ") group_multiply_" + size + "<BF16, TRANSPOSED>(d, a, b);\n";
  }
  return text + "}\n#endif\n";
}

const char* CudaProductPrelude() {
  return R"cuda(
// ---- an element's number and the coordinates that decide whether it exists; sums of what each loop adds
struct At { i64 a; int c0, c1, c2; };
DEV At operator+(At x, At y) { return {x.a + y.a, x.c0 + y.c0, x.c1 + y.c1, x.c2 + y.c2}; }

// ---- pieces of 16-bit products
DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// Copies while the thread goes on; zeros if absent.
template <int BYTES> DEV void copy_async(u32 to, const char* from, bool present) {
  const int size = present ? BYTES : 0;
  if (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(size) : "memory");
  }
}
DEV void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> DEV void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
DEV void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// V floats (1, 2 or a multiple of 4) from the shared memory of each block of the cluster, added up. All are asked for
// before the first is waited for.
template <int CLUSTER, int V> DEV void sum_cluster(u32 address, float* out) {
  float x[CLUSTER][V];
  #pragma unroll
  for (int r = 0; r < CLUSTER; ++r) {
    u32 from;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(address), "r"(r));
    if (V == 1) asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x[r][0]) : "r"(from));
    if (V == 2) asm volatile("ld.shared::cluster.v2.f32 {%0,%1}, [%2];" : "=f"(x[r][0]), "=f"(x[r][V - 1]) : "r"(from));
    #pragma unroll
    for (int v = 0; v + 3 < V; v += 4)
      asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x[r][v]), "=f"(x[r][v + 1]), "=f"(x[r][v + 2]), "=f"(x[r][v + 3]) : "r"(from + 4 * v));
  }
  #pragma unroll
  for (int v = 0; v < V; ++v) {
    float sum = x[0][v];
    #pragma unroll
    for (int r = 1; r < CLUSTER; ++r) sum += x[r][v];
    out[v] = sum;
  }
}
// d += a (16 x 16) * b (16 x 8), accumulated in f32.
template <bool BF16> DEV void multiply(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  const u32 a[4] = {a0, a1, a2, a3};
  attention_multiply<BF16>(d, a, b0, b1);
}
DEV uint4 shared_16(u32 address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
  return v;
}
DEV uint2 shared_8(u32 address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
DEV void store_shared_16(u32 address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEV u32 word(uint4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// ---- sums of a tile of columns: partial[right side][warp][row][column] of every block of the cluster. The total of a
// block's warps goes behind them; each block finishes its share of the points.
template <int RIGHTS, int ROWS, int TILE, int WARPS, int CLUSTER, typename Finish>
DEV void finish_slices(float* partial, u32 rank, int column, int columns, Finish finish) {
  constexpr int POINTS = ROWS * TILE;
  float* total = partial + RIGHTS * WARPS * POINTS;
  __syncthreads();
  if (CLUSTER > 1) {
    for (int p = threadIdx.x; p < RIGHTS * POINTS; p += 256) {
      float sum = 0;
      #pragma unroll
      for (int w = 0; w < WARPS; ++w) sum += partial[(p / POINTS * WARPS + w) * POINTS + p % POINTS];
      total[p] = sum;
    }
    cluster_barrier();
  }
  for (int p = threadIdx.x * CLUSTER + rank; p < POINTS; p += 256 * CLUSTER) {
    const int row = p / TILE, c = column + p % TILE;
    float sums[RIGHTS];
    #pragma unroll
    for (int j = 0; j < RIGHTS; ++j) {
      if (CLUSTER > 1) {
        sum_cluster<CLUSTER, 1>(shared_address(total + j * POINTS + p), sums + j);
      } else {
        float sum = 0;
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) sum += partial[(j * WARPS + w) * POINTS + p];
        sums[j] = sum;
      }
    }
    if (c < columns) finish(row, c, sums);
  }
  if (CLUSTER > 1) cluster_barrier(); else __syncthreads();
}

// ---- few rows: the right side is streamed once, by every warp through slots of its own
//
// The right side takes the 16-wide side of the tensor cores, rows the 8-wide one. WIDE: its columns are contiguous; a
// warp takes 64 columns and 16 deep at a time, thread (g, t) the columns 8g to 8g + 7 at depths 4t to 4t + 3. Else its
// depth is; a warp takes 16 columns and 64 deep, thread (g, t) the columns g and g + 8 at depths 8t to 8t + 7 and 32
// more. Copies take whole lines of 128 bytes, eight threads each, and lie swizzled. WARPS warps of a block, and the CLUSTER blocks of a cluster, split the depth. Each block takes every
// `blocks / CLUSTER`-th tile of columns, and its copies run on from one tile into the next.
// EARLY: the right side is constant, so that its copies begin before the kernels ahead are complete.
template <int RIGHTS, int ROWS, int WARPS, int STAGES, int CLUSTER, bool WIDE, bool BF16, bool EARLY, typename Column, typename Depth,
          typename Left, typename Finish>
DEV void skinny_product(u32 block, u32 blocks, int columns, int depth, const char* const* right, Column column_at,
                        Depth depth_at, Left left_at, Finish finish) {
  constexpr int GROUPS = (ROWS + 7) / 8, STEP = WIDE ? 16 : 64, WARP_TILE = WIDE ? 64 : 16;
  constexpr int TILE = WARP_TILE * (8 / WARPS), PARTS = WIDE ? 4 : 1, SLICES = WARPS * CLUSTER, POINTS = ROWS * TILE;
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
  const int slice_warp = warp % WARPS, column_warp = warp / WARPS;
  const u32 rank = CLUSTER > 1 ? block % CLUSTER : 0, first = block / CLUSTER, stride = blocks / CLUSTER;
  const int slice = (int)rank * WARPS + slice_warp;
  const int steps = (depth + STEP * SLICES - 1) / (STEP * SLICES), pitch = (depth + 127) / 128 * 128 + (WIDE ? 16 : 32);
  const u32 tiles = (u32)(columns + TILE - 1) / TILE;
  const u32 slots = shared_address(shared_memory), own = slots + warp * 2048;
  const int line = lane >> 3, piece = lane & 7;
  const u32 lefts = slots + STAGES * RIGHTS * 4 * 4096;
  float* partial = (float*)(shared_memory + STAGES * RIGHTS * 4 * 4096 + ROWS * pitch * 2);

  u32 copy_tile = first;
  int copy_step = 0;
  auto copy = [&](int stage) {
    if (copy_tile < tiles) {
      const int k = (copy_step * SLICES + slice) * STEP, c = (int)copy_tile * TILE + column_warp * WARP_TILE;
      const i64 fixed = WIDE ? column_at(c + 8 * piece) : depth_at(k + 8 * piece);
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int l = 4 * i + line, ki = WIDE ? k + l : k + 8 * piece, ci = WIDE ? c + 8 * piece : c + l;
        const bool present = ki < depth && ci < columns;
        const i64 a = fixed + (WIDE ? depth_at(ki) : column_at(ci));
        const u32 slot = own + (u32)(l * 128 + ((piece ^ (WIDE ? i << 1 : (l & 1) << 2)) << 4));
        #pragma unroll
        for (int j = 0; j < RIGHTS; ++j) copy_async<16>(slot + (stage * RIGHTS + j) * 16384, present ? right[j] + 2 * a : right[j], present);
      }
      if (++copy_step == steps) { copy_step = 0; copy_tile += stride; }
    }
    commit_copies();
  };
  if (!EARLY) wait_for_earlier();
  #pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy(s);
  if (EARLY) wait_for_earlier();

  // The left side's rows, once, this block's slices of the depth only.
  const int chunks = depth / 8;
  #pragma unroll 4
  for (int c = threadIdx.x; c < ROWS * chunks; c += 256) {
    const int row = ROWS == 1 ? 0 : c / chunks, k = (ROWS == 1 ? c : c % chunks) * 8;
    if (CLUSTER == 1 || (u32)(k / (STEP * WARPS)) % CLUSTER == rank) store_shared_16(lefts + (u32)(row * pitch + k) * 2, left_at(row, k));
  }
  __syncthreads();

  int stage = 0;
  for (u32 tile = first; tile < tiles; tile += stride) {
    float acc[RIGHTS][PARTS][GROUPS][4];
    #pragma unroll
    for (int x = 0; x < RIGHTS * PARTS * GROUPS * 4; ++x) (&acc[0][0][0][0])[x] = 0;
    for (int step = 0; step < steps; ++step) {
      const int k = (step * SLICES + slice) * STEP;
      wait_copies<STAGES - 2>();
      __syncwarp();
      uint4 w[RIGHTS][4];
      #pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
        #pragma unroll
        for (int x = 0; x < 4; ++x) {
          const int l = WIDE ? 4 * t + x : g + 8 * (x & 1), p = WIDE ? g ^ (t << 1) : (4 * (x >> 1) + t) ^ ((g & 1) << 2);
          w[j][x] = shared_16(own + (stage * RIGHTS + j) * 16384 + l * 128 + (p << 4));
        }
      copy(stage == 0 ? STAGES - 1 : stage - 1);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      if (k >= depth) continue;
      #pragma unroll
      for (int n = 0; n < GROUPS; ++n) {
        const bool real = 8 * n + g < ROWS;
        const u32 left = lefts + (u32)((8 * n + g) * pitch + k) * 2;
        if (WIDE) {
          const uint2 x = real && k + 4 * t < depth ? shared_8(left + 8 * t) : make_uint2(0, 0);
          #pragma unroll
          for (int j = 0; j < RIGHTS; ++j)
            #pragma unroll
            for (int q = 0; q < 4; ++q)
              multiply<BF16>(acc[j][q % PARTS][n], __byte_perm(word(w[j][0], q), word(w[j][1], q), 0x5410),
                             __byte_perm(word(w[j][0], q), word(w[j][1], q), 0x7632), __byte_perm(word(w[j][2], q), word(w[j][3], q), 0x5410),
                             __byte_perm(word(w[j][2], q), word(w[j][3], q), 0x7632), x.x, x.y);
        } else {
          #pragma unroll
          for (int h = 0; h < 2; ++h) {
            const uint4 x = real && k + 32 * h + 8 * t < depth ? shared_16(left + 64 * h + 16 * t) : make_uint4(0, 0, 0, 0);
            #pragma unroll
            for (int j = 0; j < RIGHTS; ++j) {
              const uint4 low = w[j][2 * h], high = w[j][2 * h + 1];
              multiply<BF16>(acc[j][0][n], low.x, high.x, low.y, high.y, x.x, x.y);
              multiply<BF16>(acc[j][0][n], low.z, high.z, low.w, high.w, x.z, x.w);
            }
          }
        }
      }
    }
    #pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
      #pragma unroll
      for (int q = 0; q < PARTS; ++q)
        #pragma unroll
        for (int n = 0; n < GROUPS; ++n)
          #pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = 8 * n + 2 * t + (e & 1), c = column_warp * WARP_TILE + (WIDE ? 8 * g + 2 * q + (e >> 1) : g + 8 * (e >> 1));
            if (row < ROWS) partial[(j * WARPS + slice_warp) * POINTS + row * TILE + c] = acc[j][q][n][e];
          }
    finish_slices<RIGHTS, ROWS, TILE, WARPS, CLUSTER>(partial, rank, (int)tile * TILE, columns, finish);
  }
  wait_copies<0>();
}

// The same in f32 and with FMA. A thread multiplies what it copied itself. WIDE: a warp takes 32 columns and 16 deep, a
// thread four neighbouring columns at four depths. Else 16 columns and 32 deep, a thread four columns at four
// neighbouring depths.
template <int RIGHTS, int ROWS, int WARPS, int STAGES, int CLUSTER, bool WIDE, bool EARLY, typename Column, typename Depth, typename Left,
          typename Finish>
DEV void skinny_floats(u32 block, u32 blocks, int columns, int depth, const char* const* right, Column column_at, Depth depth_at,
                       Left left_at, Finish finish) {
  constexpr int STEP = WIDE ? 16 : 32, WARP_TILE = WIDE ? 32 : 16, TILE = WARP_TILE * (8 / WARPS), SLICES = WARPS * CLUSTER;
  constexpr int POINTS = ROWS * TILE;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, line = lane >> 3, piece = lane & 7;
  const int slice_warp = warp % WARPS, column_warp = warp / WARPS;
  const u32 rank = CLUSTER > 1 ? block % CLUSTER : 0, first = block / CLUSTER, stride = blocks / CLUSTER;
  const int slice = (int)rank * WARPS + slice_warp;
  const int steps = (depth + STEP * SLICES - 1) / (STEP * SLICES), pitch = (depth + 31) / 32 * 32;
  const u32 tiles = (u32)(columns + TILE - 1) / TILE, own = shared_address(shared_memory) + threadIdx.x * 16;
  float* lefts = (float*)(shared_memory + STAGES * RIGHTS * 16384);
  float* partial = lefts + ROWS * pitch;
  u32 copy_tile = first;
  int copy_step = 0;
  auto copy = [&](int stage) {
    if (copy_tile < tiles) {
      const int k = (copy_step * SLICES + slice) * STEP, c = (int)copy_tile * TILE + column_warp * WARP_TILE;
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int l = 4 * i + line, ki = WIDE ? k + l : k + 4 * piece, ci = WIDE ? c + 4 * piece : c + l;
        const bool present = ki < depth && ci < columns;
        const i64 a = column_at(ci) + depth_at(ki);
        #pragma unroll
        for (int j = 0; j < RIGHTS; ++j) copy_async<16>(own + ((stage * RIGHTS + j) * 4 + i) * 4096, present ? right[j] + 4 * a : right[j], present);
      }
      if (++copy_step == steps) { copy_step = 0; copy_tile += stride; }
    }
    commit_copies();
  };
  if (!EARLY) wait_for_earlier();
  #pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy(s);
  if (EARLY) wait_for_earlier();
  #pragma unroll 8
  for (int c = threadIdx.x; c < ROWS * pitch; c += 256) lefts[c] = c % pitch < depth ? left_at(c / pitch, c % pitch) : 0.0f;
  __syncthreads();

  int stage = 0;
  for (u32 tile = first; tile < tiles; tile += stride) {
    float acc[RIGHTS][ROWS][4];
    #pragma unroll
    for (int x = 0; x < RIGHTS * ROWS * 4; ++x) (&acc[0][0][0])[x] = 0;
    for (int step = 0; step < steps; ++step) {
      const int k = (step * SLICES + slice) * STEP;
      wait_copies<STAGES - 2>();
      float w[RIGHTS][4][4];
      #pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint4 v = shared_16(own + ((stage * RIGHTS + j) * 4 + i) * 4096);
          #pragma unroll
          for (int e = 0; e < 4; ++e) w[j][i][e] = bits_float(word(v, e));
        }
      copy(stage == 0 ? STAGES - 1 : stage - 1);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      if (k >= depth) continue;
      #pragma unroll
      for (int row = 0; row < ROWS; ++row)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          // WIDE: i counts depths and the columns are neighbours; else i counts columns and the depths are.
          const int at = row * pitch + k + (WIDE ? 4 * i + line : 4 * piece + i);
          const float x = k + (WIDE ? 4 * i + line : 4 * piece + i) < depth ? lefts[at] : 0.0f;
          #pragma unroll
          for (int j = 0; j < RIGHTS; ++j)
            #pragma unroll
            for (int e = 0; e < 4; ++e) acc[j][row][e] = __fmaf_rn(x, WIDE ? w[j][i][e] : w[j][e][i], acc[j][row][e]);
        }
    }
    #pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
      #pragma unroll
      for (int row = 0; row < ROWS; ++row)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          float sum = acc[j][row][e];
          #pragma unroll
          for (int d = WIDE ? 8 : 1; d < (WIDE ? 32 : 8); d <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
          const int c = column_warp * WARP_TILE + (WIDE ? 4 * piece + e : 4 * e + line);
          if ((WIDE ? line : piece) == 0) partial[(j * WARPS + slice_warp) * POINTS + row * TILE + c] = sum;
        }
    finish_slices<RIGHTS, ROWS, TILE, WARPS, CLUSTER>(partial, rank, (int)tile * TILE, columns, finish);
  }
  wait_copies<0>();
}

template <int V> DEV void load_shared(const float* from, float* out) {
  if (V == 1) out[0] = from[0];
  if (V == 2) { const float2 x = *(const float2*)from; out[0] = x.x; out[V - 1] = x.y; }
  #pragma unroll
  for (int v = 0; v + 3 < V; v += 4) {
    const float4 x = *(const float4*)(from + v);
    out[v] = x.x; out[v + 1] = x.y; out[v + 2] = x.z; out[v + 3] = x.w;
  }
}

// ---- tiles through shared memory
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
// lines are rows; else lines are depths. VECTOR elements are one access; 0: `value` makes each.
template <int SIDE, int DEEP, bool ALONG, int VECTOR, bool BF16> struct TileSide {
  static constexpr int LINE = (ALONG ? DEEP : SIDE) * 2, PIECES = LINE / 16, COPIES = SIDE * DEEP / 8 / 256, BYTES = SIDE * DEEP * 2;
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
        #pragma unroll
        for (int v = 0; v < 8; ++v) {
          const int sv = ALONG ? s : s + v, dv = ALONG ? d + v : d;
          x[v] = sv < sides && dv < depth ? value(sv, dv) : 0.0f;
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
  #pragma unroll
  for (int s = 0; s < AHEAD; ++s) {
    copy_left(begin + s, s);
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
