// Reduces the lanes of a tile to one value.
#pragma once

#include "core/scalar.h"
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {

inline constexpr int kParts = 32;  // running values that a tile is reduced to first

// Reduces 2 * kHalf values into the first. Halves of a constant length compile to vectors.
template <TapeOp kOp, int kHalf, typename T>
static inline T ReduceParts(T* parts) {
#pragma GCC ivdep
  for (int j = 0; j < kHalf; ++j) parts[j] = scalar::ReduceStep<T>(kOp, parts[j], parts[j + kHalf]);
  if constexpr (kHalf > 1) return ReduceParts<kOp, kHalf / 2>(parts);
  return parts[0];
}

template <TapeOp kOp, typename T>
[[gnu::flatten]] static T ReduceTile(const T* x, int n) {
  const T start = scalar::ReduceStart<T>(kOp);
  T parts[kParts];
  for (int j = 0; j < kParts; ++j) parts[j] = start;
  int i = 0;
  for (; i + kParts <= n; i += kParts) {
#pragma GCC ivdep
    for (int j = 0; j < kParts; ++j) parts[j] = scalar::ReduceStep<T>(kOp, parts[j], x[i + j]);
  }
  for (int j = 0; i + j < n; ++j) parts[j] = scalar::ReduceStep<T>(kOp, parts[j], x[i + j]);
  return ReduceParts<kOp, kParts / 2>(parts);
}

}  // namespace rondo::host::RONDO_ISA
