// Matmuls of 1 to 16 rows of A in 16 bits by weights of fewer bits (core/packed_weights.h), by mma.sync.
//
// B is streamed once, as few_rows_stream does it: every warp copies pieces of it, with their scales, into
// slots of its own, stages ahead. A piece is 16 columns, which take the 16-wide extent of the instruction.
// What the numbers of a block add up to is multiplied by its scale, in f32.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/few_rows_epilogue.cuh"
#include "compiler/codegen/cuda/device/packed_codes.cuh"
#include "compiler/codegen/cuda/device/tile_layout.h"

// Where B lies, by matrix.
struct PackedMatrices {
  const char* const* codes;
  const char* const* scales;
  const char* const* zeros;
};

template <PackedMatmul M>
struct PackedStream {
  static constexpr int ROWS = M.m, B_COUNT = M.b_count, STAGES = M.stages, PIECES = M.pieces;
  static constexpr int FRAGMENTS = (ROWS + 7) / 8, PIECE_K = M.piece_k(), WARP_K = M.warp_k();
  static constexpr int SLICES = M.warps * M.cluster;  // of K
  static constexpr bool BF16 = M.bf16;
  typedef PackedCodes<M> Codes;

  const PackedMatrices b;
  const MatmulExtents problem;
  const int lane, g, t, k_warp, n_warp, pitch;
  const u32 rank, first, stride;  // the block's in its cluster; its tiles of columns
  const int slice, steps, pieces, blocks;
  const u32 tiles, own, a;  // shared addresses: of the warp's slot in the first stage; of A

  MEMBER PackedStream(u32 block, u32 count, MatmulExtents problem, PackedMatrices b)
      : b(b),
        problem(problem),
        lane(threadIdx.x & 31),
        g(lane >> 2),
        t(lane & 3),
        k_warp((threadIdx.x >> 5) % M.warps),
        n_warp((threadIdx.x >> 5) / M.warps),
        pitch(M.a_pitch(problem.k)),
        rank(M.cluster > 1 ? block % M.cluster : 0),
        first(block / M.cluster),
        stride(count / M.cluster),
        slice((int)rank * M.warps + k_warp),
        steps(M.steps(problem.k)),
        pieces((problem.k + PIECE_K - 1) / PIECE_K),
        blocks((problem.k + M.block - 1) / M.block),
        tiles((u32)(problem.n + M.tile_n() - 1) / M.tile_n()),
        own(shared_address(shared_memory) + (threadIdx.x >> 5) * M.slot()),
        a(shared_address(shared_memory) + STAGES * M.stage()) {}

  // The warp's part of a step of a tile.
  MEMBER void copy(int stage, u32 tile, int step) const {
    const u32 column = tile * (8 / M.warps) + n_warp;
    const bool real = column * 16 < (u32)problem.n;
    const int piece = (step * SLICES + slice) * PIECES;
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) {
      const u32 to = own + stage * M.stage() + j * M.one();
      const char* from = b.codes[j] + ((u64)column * pieces + piece) * 512 + lane * 16;
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        const bool present = real && piece + p < pieces;
        copy_async<16>(to + p * 512 + lane * 16, present ? from + p * 512 : b.codes[j], present);
      }
      copy_scales(to + PIECES * 512, b.scales[j], column, piece * PIECE_K / M.block, real);
      if (M.zeros)
        copy_scales(to + PIECES * 512 + M.scales(), b.zeros[j], column, piece * PIECE_K / M.block, real);
    }
  }
  MEMBER void copy_scales(u32 to, const char* from, u32 column, int block, bool real) const {
    constexpr int ROW = 16 * M.scale_bytes;  // of a block
#pragma unroll
    for (int c = 0; c < M.scales(); c += 512) {
      const int at = c + lane * 16;
      const bool present = real && block + at / ROW < blocks;
      if (at < M.scales())
        copy_async<16>(to + at, present ? from + ((u64)column * blocks + block) * ROW + at : from, present);
    }
  }
  // This block's part of A, 32 of K at a time as fragments have them: thread t of four the pairs at 2t, 8 +
  // 2t, 16 + 2t and 24 + 2t. a_at(m, k): 8 elements along K.
  template <typename A>
  MEMBER void prepare(A a_at) const {
    const int chunks = steps * M.tile_k() / 8;
#pragma unroll 4
    for (int c = threadIdx.x; c < ROWS * chunks; c += kBlockThreads) {
      const int row = ROWS == 1 ? 0 : c / chunks, at = (ROWS == 1 ? c : c % chunks) * 8;
      const int k = (at / M.tile_k() * M.cluster + (int)rank) * M.tile_k() + at % M.tile_k();
      const uint4 x = k < problem.k ? a_at(row, k) : make_uint4(0, 0, 0, 0);
      const u32 to = a + (u32)(row * pitch + at / 32 * 32) * 2 + at % 32 / 8 * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + i * 16), "r"(word(x, i)) : "memory");
    }
  }
  // The scales, or zero points, of the thread's columns.
  MEMBER void scales_of(u32 at, int block, float* out) const {
    const u32 from = at + (block * 16 + 2 * g) * M.scale_bytes;
    if (M.scale_bytes == 4) {
      const uint2 x = shared_8(from);
      out[0] = bits_float(x.x);
      out[1] = bits_float(x.y);
      return;
    }
    u32 x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    if (M.scale_bf16) {
      out[0] = bits_float(x << 16);
      out[1] = bits_float(x & 0xffff0000u);
    } else {
      asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
          : "=f"(out[0]), "=f"(out[1])
          : "r"(x));
    }
  }
  // Adds the warp's step of a tile.
  MEMBER void multiply(float (*acc)[FRAGMENTS][4], int stage, int step) const {
    // 16s of K: of a piece; that share a scale, at most those of a piece; in a word.
    constexpr int PIECE = PIECE_K / 16, SHARE = (M.block < PIECE_K ? M.block : PIECE_K) / 16,
                  WORD = 8 / M.bits;
    const int first_k = (step * SLICES + slice) * WARP_K, local = (step * M.warps + k_warp) * WARP_K;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      if (first_k + p * PIECE_K >= problem.k) break;
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) {
        const u32 at = own + stage * M.stage() + j * M.one();
        const uint4 w = shared_16(at + p * 512 + lane * 16);
        uint4 x[FRAGMENTS];
        float sums[FRAGMENTS][4], scale[2], zero[2] = {(float)M.zero, (float)M.zero};
        u32 bias[2] = {Codes::bias(zero[0]), Codes::bias(zero[1])};
#pragma unroll
        for (int s = 0; s < PIECE; ++s) {
          const int block = (p * PIECE_K + s * 16) / M.block % M.blocks();
          if (s % 2 == 0) {
#pragma unroll
            for (int n = 0; n < FRAGMENTS; ++n)
              x[n] =
                  8 * n + g < ROWS
                      ? shared_16(a + (u32)((8 * n + g) * pitch + local + p * PIECE_K + s * 16) * 2 + t * 16)
                      : make_uint4(0, 0, 0, 0);
          }
          if (s % SHARE == 0) {
            scales_of(at + PIECES * 512, block, scale);
            if (M.zeros) {
              scales_of(at + PIECES * 512 + M.scales(), block, zero);
              bias[0] = Codes::bias(zero[0]);
              bias[1] = Codes::bias(zero[1]);
            }
#pragma unroll
            for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
              for (int e = 0; e < 4; ++e) sums[n][e] = 0;
          }
          const u32 low = word(w, s / WORD * 2), high = word(w, s / WORD * 2 + 1);
          const int i = s % WORD * 2;
          const u32 codes[4] = {Codes::pair(low, i, bias[0]), Codes::pair(high, i, bias[1]),
                                Codes::pair(low, i + 1, bias[0]), Codes::pair(high, i + 1, bias[1])};
#pragma unroll
          for (int n = 0; n < FRAGMENTS; ++n)
            mma<BF16>(sums[n], codes, s % 2 == 0 ? x[n].x : x[n].z, s % 2 == 0 ? x[n].y : x[n].w);
          if (s % SHARE == SHARE - 1) {
#pragma unroll
            for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
              for (int e = 0; e < 4; ++e) acc[j][n][e] += scale[e >> 1] * sums[n][e];
          }
        }
      }
    }
  }
  MEMBER void store(float (*acc)[FRAGMENTS][4], float* partial) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int n = 0; n < FRAGMENTS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = 8 * n + 2 * t + (e & 1), column = n_warp * 16 + g + 8 * (e >> 1);
          if (row < ROWS)
            partial[(j * M.warps + k_warp) * M.few_rows().points() + row * M.tile_n() + column] =
                acc[j][n][e];
        }
  }
};

// a_at(m, k): 8 elements of A along K; epilogue(m, n, accumulators of each B).
template <PackedMatmul M, typename A, typename Epilogue>
DEV void matmul_packed(u32 block, u32 count, MatmulExtents problem, PackedMatrices b, A a_at,
                       Epilogue epilogue) {
  typedef PackedStream<M> Stream;
  constexpr int STAGES = M.stages;
  const Stream stream(block, count, problem, b);
  float* const partial = (float*)(shared_memory + STAGES * M.stage() + M.a_bytes(problem.k));
  u32 copy_tile = stream.first;
  int copy_step = 0;
  auto copy = [&](int stage) {
    if (copy_tile < stream.tiles) {
      stream.copy(stage, copy_tile, copy_step);
      if (++copy_step == stream.steps) {
        copy_step = 0;
        copy_tile += stream.stride;
      }
    }
    commit_copies();
  };
  if (!M.b_constant) wait_for_earlier();
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy(s);
  if (M.b_constant) wait_for_earlier();
  stream.prepare(a_at);
  __syncthreads();

  int stage = 0;
  for (u32 tile = stream.first; tile < stream.tiles; tile += stream.stride) {
    float acc[M.b_count][Stream::FRAGMENTS][4] = {};
    for (int step = 0; step < stream.steps; ++step) {
      wait_copies<STAGES - 2>();
      __syncwarp();  // lanes read what others have copied, and have read what is copied over now
      copy(stage == 0 ? STAGES - 1 : stage - 1);
      stream.multiply(acc, stage, step);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    stream.store(acc, partial);
    few_rows_epilogue<M.few_rows()>(partial, stream.rank, (int)tile * M.tile_n(), problem.n, epilogue);
  }
  wait_copies<0>();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_
