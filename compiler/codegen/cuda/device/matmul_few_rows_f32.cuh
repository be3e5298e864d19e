// Matmuls of few rows of A in f32, by FMA: a thread multiplies what it copied itself.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_F32_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_F32_CUH_

#include "compiler/codegen/cuda/device/few_rows_stream.cuh"

// The Multiply of few_rows_stream. n_major: a warp's step is 32 columns by 16 of K, a thread has four
// neighbouring columns at four k. Else 16 columns by 32 of K, a thread has four columns at four neighbouring
// k.
template <FewRowsMatmul M_>
struct FewRowsFma {
  static constexpr FewRowsMatmul MATMUL = M_;
  static constexpr bool N_MAJOR = MATMUL.n_major, BY_WARP = false;
  static constexpr int M = MATMUL.m, B_COUNT = MATMUL.b_count, SLOT = FewRowsMatmul::kSlot;
  struct B {
    float w[B_COUNT][4][4];
  };
  struct Accumulators {
    float acc[B_COUNT][M][4];
  };

  const FewRowsPlace<MATMUL>& place;
  const MatmulExtents problem;
  const int pitch;
  const u32 own;   // shared address of the thread's first piece
  float* const a;  // in shared memory

  MEMBER FewRowsFma(const FewRowsPlace<MATMUL>& place, MatmulExtents problem)
      : place(place),
        problem(problem),
        pitch(MATMUL.a_pitch(problem.k)),
        own(shared_address(shared_memory) + threadIdx.x * 16),
        a((float*)(shared_memory + MATMUL.stages * MATMUL.stage())) {}

  MEMBER u32 slot(int i) const { return own + i * (SLOT / 4); }
  // a_at(m, k): an element.
  template <typename A>
  MEMBER void prepare(A a_at) const {
#pragma unroll 8
    for (int c = threadIdx.x; c < M * pitch; c += kBlockThreads)
      a[c] = c % pitch < problem.k ? a_at(c / pitch, c % pitch) : 0.0f;
  }
  MEMBER B read(int stage) const {
    B b;
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 v = shared_16(slot(i) + (stage * B_COUNT + j) * SLOT);
#pragma unroll
        for (int e = 0; e < 4; ++e) b.w[j][i][e] = bits_float(word(v, e));
      }
    return b;
  }
  // n_major: i counts k and the columns are neighbours; else i counts columns and the k are.
  MEMBER void multiply(Accumulators& to, const B& b, int first_k) const {
#pragma unroll
    for (int row = 0; row < M; ++row)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = first_k + (N_MAJOR ? 4 * i + place.line : 4 * place.piece + i);
        const float x = k < problem.k ? a[row * pitch + k] : 0.0f;
#pragma unroll
        for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            to.acc[j][row][e] = __fmaf_rn(x, N_MAJOR ? b.w[j][i][e] : b.w[j][e][i], to.acc[j][row][e]);
      }
  }
  MEMBER void store(const Accumulators& from, float* partial) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int row = 0; row < M; ++row)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float sum = from.acc[j][row][e];
#pragma unroll
          for (int d = N_MAJOR ? 8 : 1; d < (N_MAJOR ? 32 : 8); d <<= 1)
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
          const int column =
              place.n_warp * MATMUL.warp_n() + (N_MAJOR ? 4 * place.piece + e : 4 * e + place.line);
          if ((N_MAJOR ? place.line : place.piece) == 0)
            partial[(j * MATMUL.warps + place.k_warp) * MATMUL.points() + row * MATMUL.tile_n() + column] =
                sum;
        }
  }
};

// The arguments are those of few_rows_stream.
template <FewRowsMatmul MATMUL, typename... Arguments>
DEV void matmul_few_rows_f32(Arguments... arguments) {
  few_rows_stream<FewRowsFma<MATMUL>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_FEW_ROWS_F32_CUH_
