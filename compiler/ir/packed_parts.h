// Cuts and extends packed matrices: codes, scales and zero points.
//
// Codes are never rounded again: a part has exactly the numbers of the whole. A part shares memory with the
// whole if it is contiguous; a synthetic part that can be described as one needs no memory.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/ir/packed.h"

namespace rondo::ir {

// Indices along one dim: `count` runs of `length`, whose beginnings are `step` apart.
struct IndexRuns {
  int64_t first = 0, length = 0, step = 0, count = 1;

  int64_t size() const { return length * count; }
  int64_t At(int64_t i) const { return first + i / length * step + i % length; }
};

// The number of columns in `k` that share a scale: the matrix's block, or a divisor of it that fits the
// beginnings of all runs. 0: none, since a scale must cover at least 16.
int64_t BlockOf(const PackedMatrix& matrix, const IndexRuns& k);
// Whether rows `n` and columns `k` form a packed matrix: large enough, with whole blocks.
bool CanCutPacked(const PackedMatrix& matrix, const IndexRuns& n, const IndexRuns& k);
// Whether they lie in one piece of the codes, or in one piece of each tile: then cutting a synthetic matrix
// makes no bytes.
bool CutsInPlace(const PackedMatrix& matrix, const IndexRuns& n, const IndexRuns& k);
// Requires CanCutPacked.
std::shared_ptr<const PackedMatrix> CutPacked(const PackedMatrix& matrix, const IndexRuns& n,
                                              const IndexRuns& k);

// The matrix extended to [n, k] by rows and columns of finite numbers.
std::shared_ptr<const PackedMatrix> PadPacked(const PackedMatrix& matrix, int64_t n, int64_t k);

}  // namespace rondo::ir
