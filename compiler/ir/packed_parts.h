// Parts of packed matrices, and longer ones: what of the codes, scales and zero points belongs to them.
//
// Codes are never rounded again: every number of a part is that of the whole. Memory is shared with the whole
// where a part lies in one piece of it; of synthetic ones that can be named as a part, nothing is made.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/ir/packed.h"

namespace rondo::ir {

// Indices along one dim: `count` runs of `length`, of which one begins `step` behind the other.
struct IndexRuns {
  int64_t first = 0, length = 0, step = 0, count = 1;

  int64_t size() const { return length * count; }
  int64_t At(int64_t i) const { return first + i / length * step + i % length; }
};

// How many numbers along k share a scale in the columns `k` of the matrix: its block, or a part of one that
// begins wherever a run does. 0: none, since scales are for 16 or more.
int64_t BlockOf(const PackedMatrix& matrix, const IndexRuns& k);
// Whether rows `n` and columns `k` are a packed matrix: enough of them, with blocks of their own.
bool CanCutPacked(const PackedMatrix& matrix, const IndexRuns& n, const IndexRuns& k);
// They must be.
std::shared_ptr<const PackedMatrix> CutPacked(const PackedMatrix& matrix, const IndexRuns& n,
                                              const IndexRuns& k);

// The matrix with rows and columns of finite numbers behind its last ones, [n, k] in all.
std::shared_ptr<const PackedMatrix> PadPacked(const PackedMatrix& matrix, int64_t n, int64_t k);

}  // namespace rondo::ir
