// Which matmuls cuBLASLt gets: rules shared by the compiler, which makes them, the verifier and the driver.
// Pure functions.
#pragma once

#include <cstdint>

#include "core/alignment.h"
#include "core/plan.h"

namespace rondo {

inline constexpr int64_t kMaxMatmulExtent = 0x7fffffff;  // the library's extents are of 32 bits

// Bytes of a kernel's workspace beyond LibraryMatmul::workspace_bytes, so that the library's alignment can be
// reached within it.
inline constexpr uint64_t kWorkspaceSlack = kMostAlignment;

// Whether a matrix of these extents is contiguous along one dimension, with rows (or columns) that do not
// overlap.
constexpr bool IsLibraryMatrix(const MatmulMatrix& m, int64_t outer, int64_t inner) {
  const bool along_inner = m.inner_stride == 1 && (outer == 1 || m.outer_stride >= inner);
  const bool along_outer = m.outer_stride == 1 && (inner == 1 || m.inner_stride >= outer);
  return along_inner || along_outer;
}

constexpr bool IsLibraryType(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32;
}

// Null, or why the library cannot compute the matmul: `it ...`. Does not look at the matrices
// (IsLibraryMatrix).
constexpr const char* NotForLibrary(const LibraryMatmul& p) {
  for (int64_t extent : {p.batches, p.m, p.n, p.k}) {
    if (extent < 1 || extent > kMaxMatmulExtent) return "has an extent that is not from 1 to 2147483647";
  }
  if (p.epilogue > MatmulEpilogue::kGeluTanh) return "has an epilogue that is unknown";
  const bool types = IsLibraryType(p.lhs.dtype) && p.rhs.dtype == p.lhs.dtype &&
                     (p.out.dtype == p.lhs.dtype || p.out.dtype == DType::kF32) &&
                     (p.addend.param == kNoParam || p.addend.dtype == p.out.dtype) &&
                     (p.bias.param == kNoParam || p.bias.dtype == p.out.dtype);
  if (!types) return "is of types that do not go together";
  if (p.out.inner_stride != 1 || (p.addend.param != kNoParam && p.addend.inner_stride != 1))
    return "has rows of results, or of what is added, that are not contiguous";
  return nullptr;
}

}  // namespace rondo
