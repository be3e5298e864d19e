// The magnitude of synthetic weights (core/synthetic.h).
#pragma once

#include <algorithm>
#include <cmath>

#include "core/shape.h"

namespace rondo {

// Keeps activations near 1: each element of a matmul's result is a sum of `fan` products.
inline float SyntheticScale(const Shape& shape) {
  if (shape.rank < 2) return 0.5f;
  const int64_t fan = shape.rank == 2 ? shape[0] : shape.elements() / std::max<int64_t>(1, shape[0]);
  return std::sqrt(3.0f / static_cast<float>(std::max<int64_t>(1, fan)));
}

}  // namespace rondo
