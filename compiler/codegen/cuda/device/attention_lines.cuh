// Lines of queries, keys and values copied to shared memory, for the blocks whose queries share them.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_LINES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_LINES_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/attention_layout.h"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// What is computed from it is computed anew each time: kept in registers over all keys, it would leave too
// few.
DEV int thread_again() {
  int thread = (int)threadIdx.x;
  asm volatile("" : "+r"(thread));
  return thread;
}

// A line of elements in memory.
struct Line {
  const char* at;
  bool present;  // absent lines become zeros
};

// How lines lie in memory: the first, and bytes from line to line and from element to element.
struct LinesAt {
  const char* at;
  i64 line, element;
  // Lines from `bound` on are absent.
  MEMBER Line line_of(int number, int bound) const { return {at + number * line, number < bound}; }
};

// Copies a piece of 16 bytes, of which the first `there` elements of SIZE bytes exist and the others become
// zeros. LANES: how many elements are copied at once, as their alignment permits; elements that come singly
// are `step` bytes apart. Two bytes go through registers: cp.async has no such copy.
template <int SIZE, int LANES>
DEV void copy_piece(u32 to, const char* from, i64 step, int there) {
  constexpr int BYTES = SIZE * LANES;
  if constexpr (BYTES >= 4) {
#pragma unroll
    for (int n = 0; n < 16 / BYTES; ++n)
      copy_async<BYTES>(to + n * BYTES, from + n * LANES * step, n * LANES < there);
  } else {
    u32 w[4];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const u32 element = n < there ? *(const unsigned short*)(from + n * step) : 0;
      w[n / 2] = n % 2 == 0 ? element : w[n / 2] | element << 16;
    }
    store_shared_16(to, make_uint4(w[0], w[1], w[2], w[3]));
  }
}

// THREADS threads copy COUNT lines of ELEMENTS, each from `line_at(line)`, in whole pieces of 16 bytes.
// LANES: as copy_piece has it; 0: elements of a line lie apart, those of neighbouring lines are likely to be
// neighbours. UNROLL: copies whose addresses are in registers at once.
template <typename Lines, int COUNT, int SIZE, int ELEMENTS, int LANES, int THREADS = kBlockThreads,
          int UNROLL = 64, typename LineAt>
DEV void copy_lines(u32 to, LineAt line_at, i64 step) {
  constexpr int ITEMS = COUNT * Lines::PIECES, ROUNDS = (ITEMS + THREADS - 1) / THREADS, FULL = 16 / SIZE;
  constexpr bool EVEN = THREADS % Lines::PIECES == 0 && LANES != 0;
  const int thread = THREADS == kBlockThreads ? thread_again() : thread_again() % THREADS;
#pragma unroll(UNROLL < ROUNDS ? UNROLL : ROUNDS)
  for (int n = 0; n < ROUNDS; ++n) {
    const int item = thread + n * THREADS;
    if (ITEMS % THREADS != 0 && item >= ITEMS) break;
    const int line = EVEN         ? thread / Lines::PIECES + n * (THREADS / Lines::PIECES)
                     : LANES == 0 ? item % COUNT
                                  : item / Lines::PIECES;
    const int piece = LANES == 0 ? item / COUNT : (EVEN ? thread : item) % Lines::PIECES;
    const Line from = line_at(line);
    const int left = Lines::PIECES * FULL == ELEMENTS ? FULL : ELEMENTS - piece * FULL;
    copy_piece<SIZE, LANES == 0 ? 1 : LANES>(to + Lines::place(line, piece), from.at + piece * FULL * step,
                                             step, from.present ? left : 0);
  }
}

// The greatest of what the threads of a block of WARPS warps have; all of them call.
template <int WARPS = AttentionLayout::kWarps>
DEV int greatest_of_block(int own) {
  __shared__ int warps[WARPS];
  own = __reduce_max_sync(0xffffffffu, own);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  int most = warps[0];
#pragma unroll
  for (int w = 1; w < WARPS; ++w) most = warps[w] > most ? warps[w] : most;
  return most;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_LINES_CUH_
