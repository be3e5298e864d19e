// Stages that TMA fills at the word of one warp, while other warps multiply (sm_90a; pipeline.cuh).
//
// Each stage has two barriers: `full` counts the bytes that arrive, `empty` those who have read them. A round
// through all stages changes the parity that is waited for.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_STAGES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_STAGES_CUH_

#include "compiler/codegen/cuda/device/tma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The number of a stage, and the parity of its round.
template <int STAGES>
struct StageCount {
  int stage = 0;
  u32 parity;

  MEMBER explicit StageCount(u32 first) : parity(first) {}
  MEMBER void next() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Shared addresses: STAGES stages of BYTES, then their barriers.
template <int STAGES, int BYTES>
struct TmaMemory {
  u32 memory, full, empty;

  MEMBER explicit TmaMemory(u32 memory)
      : memory(memory), full(memory + STAGES * BYTES), empty(full + 8 * STAGES) {}
  MEMBER u32 stage(int s) const { return memory + s * BYTES; }
  // What is behind the barriers.
  MEMBER u32 end() const { return empty + 8 * STAGES; }
  // By one thread, before any other uses them: `readers` groups read each stage.
  MEMBER void init(u32 readers) const {
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, readers);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // By the thread that copies: a stage may be filled, and is full once all its bytes are there.
  MEMBER void wait_empty(const StageCount<STAGES>& at) const {
    barrier_wait(empty + 8 * at.stage, at.parity);
  }
  MEMBER void expect(int s) const { barrier_expect(full + 8 * s, BYTES); }
};

// For a group of warps that multiplies; `release(stage)`: it has read that stage.
template <int STAGES, int BYTES, typename Release>
struct TmaStages {
  static constexpr bool UNROLLS = false;
  const TmaMemory<STAGES, BYTES>& memory;
  Release release;
  StageCount<STAGES> at{0};
  int last = -1;  // the stage that is being multiplied

  MEMBER TmaStages(const TmaMemory<STAGES, BYTES>& memory, Release release)
      : memory(memory), release(release) {}
  MEMBER int wait() {
    barrier_wait(memory.full + 8 * at.stage, at.parity);
    return at.stage;
  }
  MEMBER void refill(int) {}  // the warp that copies does
  MEMBER void next() {
    if (last >= 0) release(last);
    last = at.stage;
    at.next();
  }
  // All that was multiplied is complete.
  MEMBER void finish() {
    if (last >= 0) release(last);
    last = -1;
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_STAGES_CUH_
