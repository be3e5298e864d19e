// Contractions whose left side is a row divided by its root mean square: stages and a prologue.
#ifndef RONDO_TESTS_HOST_NORM_STAGES_H_
#define RONDO_TESTS_HOST_NORM_STAGES_H_

#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

// The left side of `maker`'s part, of that type, is x / sqrt(mean(x * x) + 1e-5) * scale over the loops `k`,
// rounded to `rounded` before it is multiplied.
inline void AddNorm(PartMaker& maker, DType type, const std::vector<int>& k, DType rounded) {
  Part& part = maker.part;
  float points = 1;
  for (int loop : k) points *= static_cast<float>(maker.loops[static_cast<size_t>(loop)]);
  TapeMaker square, root, norm;
  const uint16_t x = square.Load(part.lhs, type);
  square.Add(TapeOp::kReduceSum, TapeType::kF32, 0, square.Binary(TapeOp::kMul, x, x));
  const uint16_t mean = root.Binary(TapeOp::kMul, root.Add(TapeOp::kScalar, TapeType::kF32, 0),
                                    root.Const(1 / points)),
                 sum = root.Binary(TapeOp::kAdd, mean, root.Const(1e-5f));
  root.Add(TapeOp::kSetScalar, TapeType::kF32, 1,
           root.Unary(TapeOp::kReciprocal, root.Unary(TapeOp::kSqrt, sum)));
  const uint16_t by = norm.Add(TapeOp::kScalar, TapeType::kF32, 1),
                 scaled = norm.Binary(TapeOp::kMul, norm.Load(part.lhs, type), by),
                 scale = norm.Load(maker.Operand(type, Mode::kRead, k), type);
  const uint16_t y = norm.Binary(TapeOp::kMul, scaled, scale);
  const uint16_t cast = norm.Add(TapeOp::kCast, TapeType::kF32, 0, y);
  norm.list[cast].imm.i = static_cast<int64_t>(rounded);
  norm.Add(TapeOp::kYield, TapeType::kF32, 0, cast);
  part.scalars = 2;
  part.stages = maker.arena->Copy(std::vector<Stage>{{false, maker.Keep(square)}, {true, maker.Keep(root)}});
  part.prologue = maker.Keep(norm);
}

}  // namespace rondo::test

#endif  // RONDO_TESTS_HOST_NORM_STAGES_H_
