// MatmulCandidates: the ways in which a matmul can be computed, and what each would cost.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_CANDIDATES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_CANDIDATES_H_

#include <limits>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_configuration.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo {

// Of what was never measured: such a candidate is taken only where it is asked for.
inline constexpr double kNotEstimated = std::numeric_limits<double>::infinity();

struct MatmulCandidate {
  MatmulConfiguration configuration;
  // Estimated, among the kernels of a whole model; of a library's matmul with what follows as a map, of both.
  // To compare candidates, not to predict.
  double microseconds = 0;
};

// Position of the candidate that is estimated to take least, of those that match the pattern if any does; the
// first of equals. `candidates` must not be empty.
size_t BestCandidate(const std::vector<MatmulCandidate>& candidates, const MatmulConfiguration& pattern);

// Every tile that a family has, whatever the problem, for tests and measurements: of tiles copied by threads
// with the cluster left open, of TMA with each. Empty: the family is not made of tiles, or the target has it
// not.
std::vector<MatmulConfiguration> TilesOf(MatmulFamily family, const CudaTarget& target);

namespace cuda {

// All that the families of templates (matmul_families.h) offer for the part. Empty: none takes it, a plain
// template does (matmul_templates.h).
std::vector<MatmulCandidate> MatmulCandidates(const PartContext& context, const MatmulProblem& problem);

}  // namespace cuda

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_CANDIDATES_H_
