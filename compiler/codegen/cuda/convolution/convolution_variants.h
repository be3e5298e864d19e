// The templates of convolutions and pools. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/matmul/matmul_variants.h"

namespace rondo::cuda {

extern const KernelVariant kWindowConvolution;  // a thread slides along the last spatial axis
extern const KernelVariant kPlainConvolution;   // a thread an output point

// As a matmul (implicit GEMM), or by windows. Where estimates are equal, the first is preferred.
inline constexpr const KernelVariant* kConvolutionVariants[] = {
    &kFewRowsMatmul, &kMmaMatmul,  &kImmaMatmul,  &kWgmmaMatmul,       &kWgmmaFp8Matmul,
    &kTf32Matmul,    &kSimtMatmul, &kShortMatmul, &kWindowConvolution, &kPlainConvolution};

}  // namespace rondo::cuda
