// Matmuls of 1 to 16 rows of bytes by bytes, 8-bit integers or FP8, by mma.sync.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_BYTES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_BYTES_CUH_

#include "compiler/codegen/cuda/device/byte_matmul.cuh"
#include "compiler/codegen/cuda/device/few_rows_lines.cuh"

// The Multiply of few_rows_stream, of lines along K. BYTES: of B, then of A. MATMUL.sums: what rows of A sum
// to, too, in every column.
template <FewRowsMatmul M_, typename BYTES>
struct FewRowsBytes : FewRowsLines<M_> {
  using Lines = FewRowsLines<M_>;
  using Lines::a, Lines::B_COUNT, Lines::g, Lines::M, Lines::MATMUL, Lines::pitch, Lines::place,
      Lines::problem;
  using Lines::t, Lines::TILE_N;
  using typename Lines::B;
  static constexpr int FRAGMENTS = (M + 7) / 8, ALL = B_COUNT + MATMUL.sums;
  static constexpr u32 ONES = 0x01010101u;
  static_assert(!MATMUL.n_major && MATMUL.whole == BYTES::WHOLE && (!MATMUL.sums || BYTES::WHOLE), "");
  struct Accumulators {
    typename BYTES::Sum acc[ALL][FRAGMENTS][4];
  };

  MEMBER FewRowsBytes(const FewRowsPlace<MATMUL>& place, MatmulExtents problem) : Lines(place, problem) {}

  // Where k of a row lies among what the block has of it.
  DEV int own_k(int k) {
    return MATMUL.cluster == 1
               ? k
               : k / (MATMUL.tile_k() * MATMUL.cluster) * MATMUL.tile_k() + k % MATMUL.tile_k();
  }
  // This block's slices of K only. a_at(m, k): 16 elements along K.
  template <typename A>
  MEMBER void prepare(A a_at) const {
    const int chunks = problem.k / 16;
#pragma unroll 4
    for (int c = threadIdx.x; c < M * chunks; c += kBlockThreads) {
      const int row = M == 1 ? 0 : c / chunks, k = (M == 1 ? c : c % chunks) * 16;
      if (MATMUL.cluster == 1 || (u32)(k / MATMUL.tile_k()) % MATMUL.cluster == place.rank)
        store_shared_16(a + (u32)(row * pitch + own_k(k)), a_at(row, k));
    }
  }
  MEMBER void multiply(Accumulators& to, const B& b, int k) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint4 x[FRAGMENTS];
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n) {
        const bool real = (8 * n + 8 <= M || 8 * n + g < M) && k + 64 * h + 16 * t < problem.k;
        x[n] = real ? shared_16(a + (u32)((8 * n + g) * pitch + own_k(k)) + 64 * h + 16 * t)
                    : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) {
        const uint4 low = b.w[j][2 * h], high = b.w[j][2 * h + 1];
        const u32 first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
        multiply_rows(to.acc[j], first, second, x);
      }
      if (MATMUL.sums) {
        const u32 ones[4] = {ONES, ONES, ONES, ONES};
        multiply_rows(to.acc[ALL - 1], ones, ones, x);
      }
    }
  }
  DEV void multiply_rows(typename BYTES::Sum (*acc)[4], const u32* first, const u32* second, const uint4* x) {
#pragma unroll
    for (int n = 0; n < FRAGMENTS; ++n) BYTES::multiply(acc[n], first, x[n].x, x[n].y);
#pragma unroll
    for (int n = 0; n < FRAGMENTS; ++n) BYTES::multiply(acc[n], second, x[n].z, x[n].w);
  }
  // Whole sums as their bits.
  DEV float stored(float sum) { return sum; }
  DEV float stored(int sum) { return __int_as_float(sum); }
  MEMBER void store(const Accumulators& from, float* partial) const {
#pragma unroll
    for (int j = 0; j < ALL; ++j)
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = 8 * n + 2 * t + (e & 1), column = place.n_warp * MATMUL.warp_n() + g + 8 * (e >> 1);
          if (row < M)
            partial[(j * MATMUL.warps + place.k_warp) * MATMUL.points() + row * TILE_N + column] =
                stored(from.acc[j][n][e]);
        }
  }
};

// The arguments are those of few_rows_stream.
template <FewRowsMatmul MATMUL, typename BYTES, typename... Arguments>
DEV void matmul_few_rows_bytes(Arguments... arguments) {
  few_rows_stream<FewRowsBytes<MATMUL, BYTES>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_BYTES_CUH_
