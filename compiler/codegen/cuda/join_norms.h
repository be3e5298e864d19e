// JoinNorms: norms of few rows, computed by the matmuls that read them.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_JOIN_NORMS_H_
#define RONDO_COMPILER_CODEGEN_CUDA_JOIN_NORMS_H_

#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/fusion/lowered.h"

namespace rondo {

// A row reduction whose one result is nothing but the left side of matmuls, one or two kernels of them,
// becomes stages and prologue of each (Part::stages), to the same bits: every block computes the row for
// itself, and the launch between is gone. Only where every one of `targets` has a template for that: matmuls
// of one row that stream 16-bit or packed weights. Not behind a collective, which may take the norm itself.
// `text` receives one sentence.
void JoinNorms(LoweredProgram* program, const std::vector<CudaTarget>& targets, std::string* text);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_JOIN_NORMS_H_
