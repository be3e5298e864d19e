// Lines of queries, keys and values copied to shared memory, for the blocks whose queries share them.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_LINES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_LINES_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/attention_layout.h"

// What is computed from it is computed anew each time: kept in registers over all keys, it would leave too
// few.
DEV int thread_again() {
  int thread = (int)threadIdx.x;
  asm volatile("" : "+r"(thread));
  return thread;
}

// Copies COUNT lines, each from `line_at(line)`; those that are absent become zeros.
struct Line {
  const char* at;
  bool present;
};
template <typename Lines, int COUNT, typename LineAt>
DEV void copy_lines(u32 to, LineAt line_at) {
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

// The greatest of what the threads of a block have; all of them call.
DEV int greatest_of_block(int own) {
  __shared__ int warps[AttentionLayout::kWarps];
  own = __reduce_max_sync(0xffffffffu, own);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  int most = warps[0];
#pragma unroll
  for (int w = 1; w < AttentionLayout::kWarps; ++w) most = warps[w] > most ? warps[w] : most;
  return most;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_LINES_CUH_
