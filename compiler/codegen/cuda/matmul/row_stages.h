// The stages of a row of A, ahead of the prologue: a norm that the matmul computes for itself. Internal to
// compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_MATMUL_ROW_STAGES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_MATMUL_ROW_STAGES_H_

#include <cstdint>
#include <string>

#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Of shared memory, static, that reductions of a block take.
inline constexpr int64_t kRowStageBytes = 256;

// Whether the part has no stages, or blocks of kBlockThreads can compute them, with `room` bytes of shared
// memory for the row of A.
bool FitsRowStages(const PartContext& context, const MatmulProblem& problem, DType type, int64_t room);

// `rows`: has every block compute the row of A as a kernel of its own would, to the same bits, into shared
// memory at byte `at`; what is constant of it is read before. `a_at`: 8 elements from there. Without stages,
// `rows` does nothing, and `a_at` (WriteAVectors; not of f32) and `a_value` read memory.
void WriteRowsOfA(const PartContext& context, const MatmulProblem& problem, DType type, int64_t at,
                  PartWriter* writer);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_MATMUL_ROW_STAGES_H_
