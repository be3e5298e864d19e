// Matmuls of 1 to 16 rows of A in 16 bits, by mma.sync.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_CUH_

#include "compiler/codegen/cuda/device/few_rows_lines.cuh"

// The Multiply of few_rows_stream.
template <FewRowsMatmul M_>
struct FewRowsMma : FewRowsLines<M_> {
  using Lines = FewRowsLines<M_>;
  using Lines::a, Lines::B_COUNT, Lines::g, Lines::M, Lines::MATMUL, Lines::N_MAJOR, Lines::pitch,
      Lines::place;
  using Lines::problem, Lines::t, Lines::TILE_N;
  using typename Lines::B;
  static constexpr bool BF16 = MATMUL.bf16;
  static constexpr int M_FRAGMENTS = (M + 7) / 8, N_FRAGMENTS = N_MAJOR ? 4 : 1;
  struct Accumulators {
    float acc[B_COUNT][N_FRAGMENTS][M_FRAGMENTS][4];
  };

  MEMBER FewRowsMma(const FewRowsPlace<MATMUL>& place, MatmulExtents problem) : Lines(place, problem) {}

  // This block's slices of K only. a_at(m, k): 8 elements along K.
  template <typename A>
  MEMBER void prepare(A a_at) const {
    const int chunks = problem.k / 8;
#pragma unroll 4
    for (int c = threadIdx.x; c < M * chunks; c += kBlockThreads) {
      const int row = M == 1 ? 0 : c / chunks, k = (M == 1 ? c : c % chunks) * 8;
      if (MATMUL.cluster == 1 || (u32)(k / MATMUL.tile_k()) % MATMUL.cluster == place.rank)
        store_shared_16(a + (u32)(row * pitch + k) * 2, a_at(row, k));
    }
  }
  MEMBER void multiply(Accumulators& to, const B& b, int k) const {
#pragma unroll
    for (int n = 0; n < M_FRAGMENTS; ++n) {
      const bool real = 8 * n + g < M;
      const u32 row = a + (u32)((8 * n + g) * pitch + k) * 2;
      if (N_MAJOR) {
        const uint2 x = real && k + 4 * t < problem.k ? shared_8(row + 8 * t) : make_uint2(0, 0);
#pragma unroll
        for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
          for (int q = 0; q < 4; ++q) multiply_columns(to.acc[j][q % N_FRAGMENTS][n], b.w[j], q, x);
      } else {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const uint4 x = real && k + 32 * h + 8 * t < problem.k ? shared_16(row + 64 * h + 16 * t)
                                                                 : make_uint4(0, 0, 0, 0);
#pragma unroll
          for (int j = 0; j < B_COUNT; ++j) {
            const uint4 low = b.w[j][2 * h], high = b.w[j][2 * h + 1];
            mma<BF16>(to.acc[j][0][n], low.x, high.x, low.y, high.y, x.x, x.y);
            mma<BF16>(to.acc[j][0][n], low.z, high.z, low.w, high.w, x.z, x.w);
          }
        }
      }
    }
  }
  // The columns 2q and 2q + 1 of the thread's 8, whose elements along K are put together.
  MEMBER void multiply_columns(float* acc, const uint4* w, int q, uint2 x) const {
    mma<BF16>(acc, __byte_perm(word(w[0], q), word(w[1], q), 0x5410),
              __byte_perm(word(w[0], q), word(w[1], q), 0x7632),
              __byte_perm(word(w[2], q), word(w[3], q), 0x5410),
              __byte_perm(word(w[2], q), word(w[3], q), 0x7632), x.x, x.y);
  }
  MEMBER void store(const Accumulators& from, float* partial) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int q = 0; q < N_FRAGMENTS; ++q)
#pragma unroll
        for (int n = 0; n < M_FRAGMENTS; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = 8 * n + 2 * t + (e & 1),
                      column = place.n_warp * MATMUL.warp_n() +
                               (N_MAJOR ? 8 * g + 2 * q + (e >> 1) : g + 8 * (e >> 1));
            if (row < M)
              partial[(j * MATMUL.warps + place.k_warp) * MATMUL.points() + row * TILE_N + column] =
                  from.acc[j][q][n][e];
          }
  }
};

// The arguments are those of few_rows_stream.
template <FewRowsMatmul MATMUL, typename... Arguments>
DEV void matmul_few_rows(Arguments... arguments) {
  few_rows_stream<FewRowsMma<MATMUL>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_CUH_
