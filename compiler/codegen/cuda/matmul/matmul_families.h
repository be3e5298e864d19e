// The families of matmul templates. Internal to compiler/codegen/cuda.
//
// A family is one file: which of its configurations compute a problem, what each is estimated to take
// (matmul_cost.h), and the text of one. A new family: a file, a line here, a name in matmul_configuration.cc.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_FAMILIES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_FAMILIES_H_

#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_candidates.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

struct MatmulTemplate {
  MatmulFamily family;
  // Device headers that its text builds on (device_headers.h).
  Span<const std::string_view> headers;
  // The configurations that compute the problem; of equal estimates, the first is preferred. A cluster that
  // the context settles is kept to.
  std::vector<MatmulCandidate> (*candidates)(const PartContext& context, const MatmulProblem& problem);
  // Appends the body of the part's function; `configuration` is one of the candidates.
  Result<PartLaunch> (*write)(const PartContext& context, const MatmulProblem& problem,
                              const MatmulConfiguration& configuration, PartWriter* writer);
  // As TilesOf has it; null: the family is not made of tiles.
  std::vector<MatmulConfiguration> (*tiles)(const CudaTarget& target) = nullptr;
};

extern const MatmulTemplate kFewRowsMatmul;  // 1 to 16 rows: B streamed once
extern const MatmulTemplate kTmaMatmul;      // wgmma, tiles brought by TMA
extern const MatmulTemplate kMmaMatmul;      // mma.sync of 16-bit types
extern const MatmulTemplate kWgmmaMatmul;    // wgmma, tiles copied by threads
extern const MatmulTemplate kTf32Matmul;     // mma.sync of f32 rounded to tf32
extern const MatmulTemplate kSimtMatmul;     // FMA in f32

// Where estimates are equal, the first is preferred.
inline constexpr const MatmulTemplate* kMatmulFamilies[] = {&kFewRowsMatmul, &kTmaMatmul,  &kMmaMatmul,
                                                            &kWgmmaMatmul,   &kTf32Matmul, &kSimtMatmul};

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_FAMILIES_H_
