// What attention's scores are compared, summed and scaled by.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_SCORES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_SCORES_CUH_

#include "compiler/codegen/cuda/device/quick_scalar.cuh"

#define kNoScore bits_float(0xff800000u)  // minus infinity

// A score and what a mask adds to it. What is finite stays so when it is multiplied by log2(e), the lowest
// f32 too: a row of such scores is uniform.
DEV float masked_score(float score, float mask) {
  return score + (mask < -2e38f && mask != kNoScore ? -2e38f : mask);
}

// What a row's scores are compared with, of which `most` is the greatest.
DEV float score_base(float most) { return most == kNoScore ? 0.0f : most; }
// Is a score so far from 0 that one rounding of it is seen in its exponential? Masks make such, of whole
// tiles.
DEV bool is_far_score(float score) { return fabsf(score) > 4096.0f; }

// Of the four threads that share rows of a fragment.
DEV float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
DEV float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_SCORES_CUH_
