#include "tests/host/kernel_zoo.h"

namespace rondo::test {
namespace {

PartMaker Transpose(Arena& arena) {
  PartMaker maker(&arena);
  maker.loops = {30, 700};
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0, 1});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {1, 0});
  TapeMaker tape;
  tape.Store(out, DType::kF32, tape.Unary(TapeOp::kTanh, tape.Load(in, DType::kF32)));
  maker.part.body = maker.Keep(tape);
  return maker;
}

PartMaker Softmax(Arena& arena) {
  PartMaker maker(&arena);
  maker.loops = {50, 300};
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.reduced = 1;
  maker.part.scalars = 1;
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0, 1});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
  TapeMaker sum, divide;
  sum.Add(TapeOp::kReduceSum, TapeType::kF32, 0, sum.Unary(TapeOp::kExp, sum.Load(in, DType::kF32)));
  divide.Store(out, DType::kF32,
               divide.Binary(TapeOp::kDiv, divide.Unary(TapeOp::kExp, divide.Load(in, DType::kF32)),
                             divide.Add(TapeOp::kScalar, TapeType::kF32, 0)));
  maker.part.stages = arena.Copy(std::vector<Stage>{{false, maker.Keep(sum)}, {false, maker.Keep(divide)}});
  return maker;
}

PartMaker Product(Arena& arena, int64_t m, int64_t n, int64_t k) {
  PartMaker maker(&arena);
  maker.loops = {m, n, k};
  maker.part.skeleton = Skeleton::kMatMul;
  maker.part.m = maker.part.n = maker.part.reduced = 1;
  maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 2});
  maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, {2, 1})});
  maker.StoreAccumulators(maker.Operand(DType::kF32, Mode::kWrite, {0, 1}));
  return maker;
}

}  // namespace

PartMaker MakeAttention(Arena& arena, int64_t heads, int64_t queries, int64_t keys, int64_t width) {
  PartMaker maker(&arena);
  maker.loops = {heads, queries, width, keys, width};
  Part& part = maker.part;
  part.skeleton = Skeleton::kAttention;
  part.outer = part.m = part.n = part.reduced = part.features = 1;
  part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 1, 4});
  part.keys = maker.Operand(DType::kF32, Mode::kRead, {0, 3, 4});
  part.values = maker.Operand(DType::kF32, Mode::kRead, {0, 3, 2});
  maker.StoreAccumulators(maker.Operand(DType::kF32, Mode::kWrite, {1, 0, 2}));
  return maker;
}

Zoo::Zoo() {
  makers.push_back(Transpose(plan.arena));
  makers.push_back(Softmax(plan.arena));
  makers.push_back(Product(plan.arena, 1, 300, 200));
  makers.push_back(Product(plan.arena, 40, 300, 200));
  makers.push_back(MakeAttention(plan.arena, 6, 20, 100, 32));
  Random random(3);
  for (PartMaker& maker : makers) {
    plan.Add(maker);
    memory.emplace_back();
    memory.back().Randomise(maker, random);
  }
}

}  // namespace rondo::test
