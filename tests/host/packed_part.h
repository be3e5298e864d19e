// Parts whose weights are packed (core/packed_weights.h), for tests of drivers and of code generation.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

// Sets loops m, n, n, k of a matmul whose operands are added later; `packed` is the format of its weights.
inline PackedShape BeginPacked(PartMaker& maker, const std::vector<int64_t>& loops,
                               const PackedWeights& packed) {
  maker.loops = loops;
  maker.part.skeleton = Skeleton::kMatMul;
  maker.part.m = maker.part.reduced = 1;
  maker.part.n = 2;
  maker.part.packed = packed;
  return {loops[1] * loops[2], loops[3], packed.block, BitsOf(packed.type)};
}

// An operand over packed weights: stride `step` along n and `inner` along k.
inline uint16_t PackedOperand(PartMaker& maker, DType dtype, int64_t elements, int64_t step, int64_t inner) {
  const uint16_t index = maker.Operand(dtype, Mode::kRead, {});
  Span<int64_t> strides = maker.arena->New<int64_t>(maker.loops.size());
  strides[1] = step * maker.loops[2];
  strides[2] = step;
  strides[3] = inner;
  maker.operands[index].strides = strides;
  maker.sizes[maker.operands[index].param] = elements;
  return index;
}

// Adds `count` packed B, with scales of type `scale` and, if `zeros`, zero points.
inline std::vector<uint16_t> AddPacked(PartMaker& maker, const PackedShape& shape, int64_t count, DType scale,
                                       bool zeros) {
  std::vector<uint16_t> codes, scales, points;
  const auto add = [&] {
    return PackedOperand(maker, scale, shape.scales_covered(), shape.ScaleStride(), 0);
  };
  for (int64_t j = 0; j < count; ++j) {
    codes.push_back(PackedOperand(maker, DType::kU8, shape.covered(), shape.Stride(), 1));
    scales.push_back(add());
    if (zeros) points.push_back(add());
  }
  maker.part.rhs = maker.arena->Copy(codes);
  maker.part.scales = maker.arena->Copy(scales);
  if (zeros) maker.part.zeros = maker.arena->Copy(points);
  return codes;
}

}  // namespace rondo::test
