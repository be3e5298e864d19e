// Compares estimates of kernels' times with times measured on an H200. Needs no GPU.
#include "compiler/codegen/cuda/estimate_kernels.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/cuda/matmul_kernel.h"

namespace rondo::test {
namespace {

double Estimate(const Kernel& kernel, uint64_t alignment = 256) {
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {alignment, false});
  return EstimatedMicroseconds(kernel, false, TargetOf("sm_90a"), facts);
}

double MatmulTime(int64_t m, int64_t n, int64_t k, const ProductEnd& end = {}) {
  return Estimate(MatmulKernel({1, m, n, k}, DType::kF16, DType::kF16, end).kernel());
}

// out = function(x + y) over rows of `row` elements; y has a single row.
double MapTime(int64_t rows, int64_t row, TapeOp function = TapeOp::kNeg, std::vector<int> order = {0, 1}) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {rows, row};
  maker.part.skeleton = Skeleton::kMap;
  maker.part.outer = 2;
  const uint16_t x = maker.Operand(DType::kF16, Mode::kRead, order),
                 y = maker.Operand(DType::kF16, Mode::kRead, {1}),
                 out = maker.Operand(DType::kF16, Mode::kWrite, {0, 1});
  TapeMaker tape;
  const uint16_t sum = tape.Binary(TapeOp::kAdd, tape.Load(x, DType::kF16), tape.Load(y, DType::kF16));
  tape.Store(out, DType::kF16, tape.Unary(function, sum));
  maker.part.body = maker.Keep(tape);
  return Estimate(maker.Make());
}

// Each row minus its sum.
double RowTime(std::vector<int64_t> loops) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = std::move(loops);
  std::vector<int> all(maker.loops.size());
  std::iota(all.begin(), all.end(), 0);
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.scalars = 1;
  maker.part.reduced = static_cast<uint8_t>(all.size() - 1);
  const uint16_t x = maker.Operand(DType::kF16, Mode::kRead, all),
                 out = maker.Operand(DType::kF16, Mode::kWrite, all);
  TapeMaker sum, less;
  sum.Add(TapeOp::kReduceSum, TapeType::kF32, 0, sum.Load(x, DType::kF16));
  less.Store(
      out, DType::kF16,
      less.Binary(TapeOp::kSub, less.Load(x, DType::kF16), less.Add(TapeOp::kScalar, TapeType::kF32, 0)));
  maker.part.stages = arena.Copy(std::vector<Stage>{{false, maker.Keep(sum)}, {false, maker.Keep(less)}});
  return Estimate(maker.Make());
}

// `mask`: the loops of the mask's dimensions; loop 1 is queries, loop 3 keys.
double AttentionTime(int64_t queries, int64_t keys, int64_t head, const std::vector<int>& mask = {}) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {16, queries, head, keys, head};  // heads, queries, values, keys, features
  Part& part = maker.part;
  part.skeleton = Skeleton::kAttention;
  part.outer = part.m = part.n = part.reduced = part.features = 1;
  part.lhs = maker.Operand(DType::kF16, Mode::kRead, {0, 1, 4});
  part.keys = maker.Operand(DType::kF16, Mode::kRead, {0, 3, 4});
  part.values = maker.Operand(DType::kF16, Mode::kRead, {0, 3, 2});
  if (!mask.empty()) part.mask = maker.Operand(DType::kF16, Mode::kRead, mask);
  maker.StoreAccumulators(maker.Operand(DType::kF16, Mode::kWrite, {0, 1, 2}));
  return Estimate(maker.Make());
}

// 128 x 14336 gives each multiprocessor one tile. With two more rows some of them have a second tile.
TEST(EstimateKernels, RowsBeyondATileTakeAnotherWave) {
  EXPECT_GT(MatmulTime(130, 14336, 4096), 1.3 * MatmulTime(128, 14336, 4096));
  EXPECT_LT(MatmulTime(128, 14336, 4096), 1.1 * MatmulTime(120, 14336, 4096));
}

TEST(EstimateKernels, EpiloguesTakeTime) {
  const double plain = MatmulTime(1576, 4096, 1024),
               gelu = MatmulTime(1576, 4096, 1024, {true, false, Activation::kGeluErf});
  EXPECT_GT(gelu, 1.02 * plain);
}

// Measured: 80 us for 63 million points in rows of odd length that are stored as vectors; 34 us for 17
// million.
TEST(EstimateKernels, MapsOfOddRowsTakeLittleMoreThanThoseOfEvenRows) {
  EXPECT_NEAR(MapTime(62937, 1001), 80, 25);
  EXPECT_LT(MapTime(62937, 1000), 90);
  EXPECT_GT(MapTime(4096, 4096, TapeOp::kErf), MapTime(4096, 4096));
}

TEST(EstimateKernels, LongOddRowsAreReadAsVectorsUnlessTheyHaveSeveralLoops) {
  EXPECT_LT(RowTime({2000, 8193}), 1.3 * RowTime({2000, 8192}));
  EXPECT_GT(RowTime({2000, 3, 2731}), 1.5 * RowTime({2000, 8192})) << "each element is waited for";
}

// Measured: a kernel takes 19.3 us with a mask, and 8.9 us for half as much without.
TEST(EstimateKernels, MasksOfAttentionTakeTime) {
  EXPECT_GT(AttentionTime(1024, 1024, 64, {1, 3}), 1.1 * AttentionTime(1024, 1024, 64));
  EXPECT_GT(AttentionTime(2, 1024, 64, {1, 3}), AttentionTime(2, 1024, 64, {3})) << "each query has its own";
}

// Measured: 37.2 us, against 19.9 us for heads of 40.
TEST(EstimateKernels, HeadsOfOddSizeAreCopiedElementByElement) {
  EXPECT_GT(AttentionTime(1024, 1024, 37), 1.5 * AttentionTime(1024, 1024, 40));
}

// Measured: 216 us, against 23 us by estimate of aligned rows.
TEST(EstimateKernels, LibrariesAreSlowWithRowsThatBeginAtOddElements) {
  const auto time = [](int64_t k) {
    const MatmulKernel kernel({1, 6968, 3040, k}, DType::kF16, DType::kF16, {});
    const std::vector<cuda::ParamFacts> facts(kernel.kernel().num_params, {256, false});
    return EstimatedMicroseconds(kernel.kernel(), true, TargetOf("sm_90a"), facts);
  };
  EXPECT_NEAR(time(143), 216, 60);
  EXPECT_LT(time(144), 30);
}

TEST(EstimateKernels, MatmulsOfF32ByALibraryHaveNone) {
  const MatmulKernel kernel({1, 512, 512, 512}, DType::kF32, DType::kF32, {});
  const std::vector<cuda::ParamFacts> facts(kernel.kernel().num_params, {256, false});
  EXPECT_EQ(EstimatedMicroseconds(kernel.kernel(), true, TargetOf("sm_90a"), facts), 0);
}

}  // namespace
}  // namespace rondo::test
