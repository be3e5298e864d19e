// How plans for hosts store f32 weights of matmuls and convolutions: in the order in which register blocks
// read B, so that nothing is packed in a run. Nothing in a plan says so but the strides of the operand.
//
// A panel is kStoredColumns columns (n) of B, k by k: element (k, n) is at n / 16 * apart + k * 16 + n % 16,
// with k counted in the order in which the part walks its input.
#pragma once

namespace rondo {

inline constexpr int kStoredColumns = 16;

}  // namespace rondo
