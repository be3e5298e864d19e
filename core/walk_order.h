// The order in which a host walks loops whose order is free: the points of a convolution's window, so weights
// in panels (core/weight_panels.h) are stored in it too.
#pragma once

#include <cstdint>
#include <utility>

#include "core/kernel.h"

namespace rondo {

// Elements of `operand` from one point of the loop to the next, including the terms of its guards. Modulo
// 2^64: a loop of one round may state any stride.
inline int64_t FullStride(const Operand& operand, int loop) {
  uint64_t sum = static_cast<uint64_t>(operand.strides[static_cast<size_t>(loop)]);
  for (const Guard& guard : operand.guards) {
    sum +=
        static_cast<uint64_t>(guard.stride) * static_cast<uint64_t>(guard.strides[static_cast<size_t>(loop)]);
  }
  return static_cast<int64_t>(sum);
}

// Orders loops so that `operand` is walked from large strides to small ones.
inline void OrderForOperand(const Operand& operand, int* order, int count) {
  const auto size = [&](int loop) {
    const int64_t stride = FullStride(operand, loop);
    return stride < 0 ? -stride : stride;
  };
  for (int i = 1; i < count; ++i) {
    for (int j = i; j > 0 && size(order[j - 1]) < size(order[j]); --j) std::swap(order[j - 1], order[j]);
  }
}

}  // namespace rondo
