#include "compiler/codegen/cuda/matmul/matmul_candidates.h"

#include <algorithm>

#include "compiler/codegen/cuda/matmul/matmul_families.h"

namespace rondo {

size_t BestCandidate(const std::vector<MatmulCandidate>& candidates, const MatmulConfiguration& pattern) {
  size_t best = candidates.size(), best_match = candidates.size();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double own = candidates[i].microseconds;
    if (best == candidates.size() || own < candidates[best].microseconds) best = i;
    if (!Matches(pattern, candidates[i].configuration)) continue;
    if (best_match == candidates.size() || own < candidates[best_match].microseconds) best_match = i;
  }
  return best_match < candidates.size() ? best_match : best;
}

std::vector<MatmulConfiguration> TilesOf(MatmulFamily family, const CudaTarget& target) {
  for (const cuda::MatmulTemplate* one : cuda::kMatmulFamilies) {
    if (one->family == family && one->tiles != nullptr) return one->tiles(target);
  }
  return {};
}

namespace cuda {

std::vector<MatmulCandidate> MatmulCandidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  double stream = 0;
  for (const MatmulTemplate* family : kMatmulFamilies) {
    for (MatmulCandidate& candidate : family->candidates(context, problem)) {
      // Of few rows, no tiles were seen to be as fast as the stream of B: they take its time as well as
      // theirs.
      if (family->family != MatmulFamily::kFewRows) candidate.microseconds += stream;
      candidates.push_back(candidate);
    }
    if (family->family == MatmulFamily::kFewRows && !candidates.empty()) {
      stream = std::max_element(candidates.begin(), candidates.end(),
                                [](const MatmulCandidate& a, const MatmulCandidate& b) {
                                  return a.microseconds < b.microseconds;
                                })
                   ->microseconds;
    }
  }
  return candidates;
}

}  // namespace cuda

}  // namespace rondo
