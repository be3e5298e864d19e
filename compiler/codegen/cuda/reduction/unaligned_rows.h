// Rows whose first element may lie anywhere, as in a matrix with an odd number of columns: vectors begin at
// the row's first aligned element. The elements before and after them, the row's edges, are fewer than two
// vectors; one thread takes one of them. Internal to compiler/codegen/cuda.
#pragma once

#include <optional>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

struct UnalignedRows {
  int lanes = 1;              // elements of a vector
  std::vector<bool> vectors;  // for each operand: whether it is accessed as vectors
  bool all = false;           // of those that move along the row
  size_t representative = 0;  // one of them: they all begin equally far from an aligned element
};

// The largest class of operands that begin alike; no value if vectors of several elements are aligned nowhere
// in some rows.
std::optional<UnalignedRows> UnalignedRowsOf(const PartContext& context);

// Threads that the edges of a row need.
constexpr int64_t kEdgeThreads = 16;

// Declares, where the row's counters are known, `head` (elements before the vectors) and `vectors`.
void DeclareVectors(const PartContext& context, const UnalignedRows& rows, PartWriter* writer);
// Opens a scope, for two braces, of a row's thread `lane` that has an element `edge` of the edges.
void OpenEdge(const PartContext& context, int lanes, PartWriter* writer);

}  // namespace rondo::cuda
