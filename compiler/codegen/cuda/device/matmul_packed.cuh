// Matmuls of 1 to 16 rows of A in 16 bits by weights of fewer bits (core/packed_weights.h): B is streamed
// once (packed_stream.cuh), and multiplied as 16-bit numbers (packed_halves.cuh) or as bytes
// (packed_digits.cuh).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_

#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/few_rows_epilogue.cuh"
#include "compiler/codegen/cuda/device/packed_digits.cuh"
#include "compiler/codegen/cuda/device/packed_halves.cuh"

template <PackedMatmul M, bool DIGITS>
struct PackedMultiply {
  typedef PackedHalves<M> Type;
};
template <PackedMatmul M>
struct PackedMultiply<M, true> {
  typedef PackedDigits<M> Type;
};

// a_at(m, k): 8 elements of A along K; fetch(m, n), then epilogue(m, n, accumulators of each B).
template <PackedMatmul M, typename A, typename Fetch, typename Epilogue>
DEV void matmul_packed(u32 block, u32 count, PackedMatrices b, A a_at, Fetch fetch, Epilogue epilogue) {
  typedef typename PackedMultiply<M, M.digits != 0>::Type Stream;
  Stream stream(block, count, b);
  float* const partial = (float*)(shared_memory + M.accumulators_at());
  // One stage after the other: more of them asked for at once are no sooner there, and the last that the
  // kernels ahead read and write would wait for them.
  if (!M.b_constant) wait_for_earlier();
#pragma unroll 1
  for (int s = 0; s < M.stages - 1; ++s) {
    stream.copy();
    if (M.b_constant) wait_copies<0>();
  }
  if (M.b_constant) wait_for_earlier();
  stream.prepare(a_at);
  __syncthreads();

  u32 at = stream.own;
  for (u32 tile = stream.first; tile < Stream::TILES; tile += stream.stride) {
    fetch_first_point<M.few_rows()>(stream.rank, (int)tile * M.tile_n(), M.n, fetch);
    float acc[M.b_count][Stream::FRAGMENTS][Stream::VALUES] = {};
#pragma unroll 1
    for (int step = 0; step < Stream::STEPS; ++step) {
      wait_copies<M.stages - 2>();
      __syncwarp();  // lanes read what others have copied, and have read what is copied over now
      stream.copy();
      stream.multiply(acc, at, step);
      at = at == stream.own + (M.stages - 1) * M.stage() ? stream.own : at + M.stage();
    }
    stream.store(acc, partial);
    few_rows_epilogue<M.few_rows()>(partial, stream.rank, (int)tile * M.tile_n(), M.n, fetch, epilogue);
  }
  wait_copies<0>();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_CUH_
