// Stages that the threads of a block fill themselves, by asynchronous copies ahead of what multiplies
// (pipeline.cuh).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COPIED_STAGES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COPIED_STAGES_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/pipeline.cuh"

// AHEAD of STAGES are in flight; the others are being multiplied. BY_WGMMA: wgmma reads them. copy_a(step,
// stage) and copy_b(step, stage) begin to fill a stage, and do nothing beyond the last step. All threads of
// the block call.
template <int STAGES, int AHEAD, bool BY_WGMMA, typename CopyA, typename CopyB>
struct CopiedStages {
  static constexpr bool UNROLLS = true;
  CopyA copy_a;
  CopyB copy_b;
  int stage = 0;

  MEMBER CopiedStages(CopyA a, CopyB b) : copy_a(a), copy_b(b) {}

  // The first steps. EARLY: B is constant, and is copied before the kernels ahead are complete. `make_a`
  // fills A's part of all these stages at once, and is called if MADE; otherwise copy_a is.
  template <bool EARLY, bool MADE, typename MakeA>
  MEMBER void start(int begin, MakeA make_a) {
    if (EARLY) {
#pragma unroll
      for (int s = 0; s < AHEAD; ++s) copy_b(begin + s, s);
    }
    wait_for_earlier();
    if constexpr (MADE) make_a();
#pragma unroll
    for (int s = 0; s < AHEAD; ++s) {
      if (!MADE) copy_a(begin + s, s);
      if (!EARLY) copy_b(begin + s, s);
      commit_copies();
    }
  }
  MEMBER int wait() {
    wait_copies<AHEAD - 1>();
    if (BY_WGMMA) fence_proxy_async();
    __syncthreads();
    return stage;
  }
  MEMBER void refill(int step) {
    const int free = stage >= STAGES - AHEAD ? stage - (STAGES - AHEAD) : stage + AHEAD;
    copy_a(step + AHEAD, free);
    copy_b(step + AHEAD, free);
    commit_copies();
  }
  MEMBER void next() { stage = stage + 1 == STAGES ? 0 : stage + 1; }
  // After the last step: the shared memory of all stages is free.
  MEMBER void drain() {
    wait_copies<0>();
    __syncthreads();
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COPIED_STAGES_CUH_
