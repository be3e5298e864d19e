// The templates of convolutions and pools that no matmul computes (matmul/matmul_candidates.h). Internal to
// compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_CONVOLUTION_CONVOLUTION_TEMPLATES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_CONVOLUTION_CONVOLUTION_TEMPLATES_H_

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const PartTemplate kWindowConvolution;  // a thread slides along the last spatial axis
extern const PartTemplate kPlainConvolution;   // a thread an output point

// The first that suits a part computes it.
inline constexpr const PartTemplate* kConvolutionTemplates[] = {&kWindowConvolution, &kPlainConvolution};

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_CONVOLUTION_CONVOLUTION_TEMPLATES_H_
