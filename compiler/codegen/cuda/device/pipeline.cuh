// The loop of a matmul by tiles: stages of shared memory are filled with tiles of A and B, tile K deep, while
// earlier ones are multiplied. How stages are filled, and what multiplies, are policies.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PIPELINE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PIPELINE_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// Steps of K, tile K deep each: [begin, end).
struct Steps {
  int begin, end;
};
// Those of part `part` of PARTS that split K evenly, in whole steps; the last parts may have fewer, or none.
template <int TILE_K, int PARTS>
DEV Steps steps_of(int k, int part) {
  const int all = (k + TILE_K - 1) / TILE_K, each = (all + PARTS - 1) / PARTS;
  const int begin = part * each;
  return {begin, begin + each < all ? begin + each : all};
}

// Stages (copied_stages.cuh): where a step's tiles come from.
//   UNROLLS: whether the loop may be unrolled
//   wait(): until the current step's stage is full; returns its number
//   refill(step): begins to fill, for a later step, what the step before has left
//   next(): on to the next step
// Multiply (matmul_mma.cuh and others): adds A * B of a stage to its accumulators.
//   RUNS_ON: whether multiply(stage) only begins, and goes on while the next step's is begun
//   multiply(stage)
//   wait_for_earlier_steps(), where it RUNS_ON: until all that was begun is complete but the last
template <typename Stages, typename Multiply>
DEV void run_pipeline(Stages& stages, Multiply& multiply, Steps steps) {
  auto run = [&](int step) {
    const int stage = stages.wait();
    if constexpr (Multiply::RUNS_ON) {
      multiply.multiply(stage);
      stages.refill(step);
      multiply.wait_for_earlier_steps();
    } else {
      stages.refill(step);
      multiply.multiply(stage);
    }
    stages.next();
  };
  if constexpr (Stages::UNROLLS) {
    for (int step = steps.begin; step < steps.end; ++step) run(step);
  } else {
#pragma unroll 1
    for (int step = steps.begin; step < steps.end; ++step) run(step);
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PIPELINE_CUH_
