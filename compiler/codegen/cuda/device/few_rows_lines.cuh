// What matmuls of 1 to 16 rows by mma.sync have of their lines of B, whatever the type of its elements.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_LINES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_LINES_CUH_

#include "compiler/codegen/cuda/device/few_rows_stream.cuh"
#include "compiler/codegen/cuda/device/mma.cuh"

// The frame of a Multiply of few_rows_stream: where threads stand, and how they copy and read B. Its columns
// take the 16-wide extent of the instruction, A's rows the 8-wide one. n_major (of 16 bits): a warp's step is
// 64 columns by 16 of K, thread (g, t) has the columns 8g to 8g + 7 at k 4t to 4t + 3. Else 16 columns by 128
// bytes of K, thread (g, t) has the columns g and g + 8 at the bytes 16t to 16t + 15 and 64 more. Copies take
// whole lines of 128 bytes, eight threads each, and lie swizzled.
template <FewRowsMatmul M_>
struct FewRowsLines {
  static constexpr FewRowsMatmul MATMUL = M_;
  static constexpr bool N_MAJOR = MATMUL.n_major, BY_WARP = true;
  static constexpr int M = MATMUL.m, B_COUNT = MATMUL.b_count, TILE_N = MATMUL.tile_n();
  struct B {
    uint4 w[B_COUNT][4];
  };

  const FewRowsPlace<MATMUL>& place;
  const MatmulExtents problem;
  const int g, t, pitch;
  const u32 own, a;  // shared addresses: of the warp's lines; of A

  MEMBER FewRowsLines(const FewRowsPlace<MATMUL>& place, MatmulExtents problem)
      : place(place),
        problem(problem),
        g(place.lane >> 2),
        t(place.lane & 3),
        pitch(MATMUL.a_pitch(problem.k)),
        own(shared_address(shared_memory) + (threadIdx.x >> 5) * 2048),
        a(shared_address(shared_memory) + MATMUL.stages * MATMUL.stage()) {}

  MEMBER u32 slot(int i) const {
    const int l = 4 * i + place.line;
    return own + (u32)(l * 128 + ((place.piece ^ (N_MAJOR ? i << 1 : (l & 1) << 2)) << 4));
  }
  MEMBER B read(int stage) const {
    B b;
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const int l = N_MAJOR ? 4 * t + x : g + 8 * (x & 1),
                  p = N_MAJOR ? g ^ (t << 1) : (4 * (x >> 1) + t) ^ ((g & 1) << 2);
        b.w[j][x] = shared_16(own + (stage * B_COUNT + j) * FewRowsMatmul::kSlot + l * 128 + (p << 4));
      }
    return b;
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_LINES_CUH_
