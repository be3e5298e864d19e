// Generated kernels of reductions against the reference (gpu_suite.h).
#include "tests/cuda/gpu_suite.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

// y = (x - mean(x)) * w / (1 + sum of squares), in stages as a norm has them. `order`: the order of the loops
// in memory.
void AddNorm(Suite* suite, int64_t rows, std::vector<int64_t> row, DType in, DType out, uint32_t seed,
             std::vector<int> order = {}) {
  Random random(seed);
  Case& c =
      suite->Add("norm " + std::to_string(rows) + " rows of " + std::to_string(row.back()) + " " + Name(in));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = 1;
  maker.part.reduced = static_cast<uint8_t>(row.size());
  maker.part.scalars = 3;
  maker.loops = {rows};
  maker.loops.insert(maker.loops.end(), row.begin(), row.end());
  std::vector<int> all = Range(0, static_cast<int>(maker.loops.size()));
  const int last = all.back();
  if (!order.empty()) all = std::move(order);
  const uint16_t x = maker.Operand(in, Mode::kRead, all), w = maker.Operand(out, Mode::kRead, {last}),
                 y = maker.Operand(out, Mode::kWrite, all);
  TapeMaker sum, square, scale, store;
  sum.Add(TapeOp::kReduceSum, TapeType::kF32, 0, sum.Load(x, in));
  const uint16_t value = square.Load(x, in);
  square.Add(TapeOp::kReduceSum, TapeType::kF32, 1, square.Binary(TapeOp::kMul, value, value));
  const uint16_t one =
      scale.Binary(TapeOp::kAdd, scale.Add(TapeOp::kScalar, TapeType::kF32, 1), scale.Const(1));
  scale.Add(TapeOp::kSetScalar, TapeType::kF32, 2, scale.Unary(TapeOp::kReciprocal, one));
  const uint16_t centred =
      store.Binary(TapeOp::kSub, store.Load(x, in), store.Add(TapeOp::kScalar, TapeType::kF32, 0));
  const uint16_t weighed = store.Binary(TapeOp::kMul, centred, store.Load(w, out));
  store.Store(y, out, store.Binary(TapeOp::kMul, weighed, store.Add(TapeOp::kScalar, TapeType::kF32, 2)));
  const Stage stages[] = {{false, maker.Keep(sum)},
                          {false, maker.Keep(square)},
                          {true, maker.Keep(scale)},
                          {false, maker.Keep(store)}};
  maker.part.stages = c.arena.Copy(std::vector<Stage>(stages, stages + 4));
  c.memory.Randomise(maker, random);
  c.tolerance = {1e-3, 1e-3};
}

// y = exp(x - max) / sum with the exponentials kept, and the position of the maximum.
void AddSoftmax(Suite* suite, int64_t rows, int64_t row, DType type, uint32_t seed) {
  Random random(seed);
  Case& c =
      suite->Add("softmax " + std::to_string(rows) + " rows of " + std::to_string(row) + " " + Name(type));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.reduced = 1;
  maker.part.scalars = 3;
  maker.part.kept = 1;
  maker.loops = {rows, row};
  const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1}), y = maker.Operand(type, Mode::kWrite, {0, 1}),
                 at = maker.Operand(DType::kI64, Mode::kWrite, {0});
  TapeMaker most, weigh, position, store;
  const uint16_t value = most.Load(x, type);
  most.Add(TapeOp::kReduceMax, TapeType::kF32, 0, value);
  most.Add(TapeOp::kReduceArgMax, TapeType::kI64, 2, value);
  const uint16_t e = weigh.Unary(TapeOp::kExp, weigh.Binary(TapeOp::kSub, weigh.Load(x, type),
                                                            weigh.Add(TapeOp::kScalar, TapeType::kF32, 0)));
  weigh.Add(TapeOp::kKeep, TapeType::kF32, 0, e);
  weigh.Add(TapeOp::kReduceSum, TapeType::kF32, 1, e);
  position.Store(at, DType::kI64, position.Add(TapeOp::kScalar, TapeType::kI64, 2));
  store.Store(y, type,
              store.Binary(TapeOp::kDiv, store.Add(TapeOp::kKept, TapeType::kF32, 0),
                           store.Add(TapeOp::kScalar, TapeType::kF32, 1)));
  const Stage stages[] = {{false, maker.Keep(most)},
                          {false, maker.Keep(weigh)},
                          {true, maker.Keep(position)},
                          {false, maker.Keep(store)}};
  maker.part.stages = c.arena.Copy(std::vector<Stage>(stages, stages + 4));
  c.memory.Randomise(maker, random);
  c.tolerance = {1e-3, 1e-4};
}

// Rows quantised by their own range, extended to contain 0. Every other row has elements that are 0; some
// rows have numbers so small or large that the scale is not a normal float; one has an infinity.
void AddRanges(Suite* suite, int64_t rows, int64_t row, bool zero_points) {
  Random random(static_cast<uint32_t>(row));
  Case& c = suite->Add("ranges of " + std::to_string(rows) + " rows of " + std::to_string(row));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.reduced = 1;
  maker.part.scalars = 4;
  maker.loops = {rows, row};
  const uint16_t x = maker.Operand(DType::kF32, Mode::kRead, {0, 1}),
                 y = maker.Operand(DType::kU8, Mode::kWrite, {0, 1});
  TapeMaker extremes, range, quantise;
  const uint16_t value = extremes.Load(x, DType::kF32);
  extremes.Add(TapeOp::kReduceMax, TapeType::kF32, 0, value);
  extremes.Add(TapeOp::kReduceMin, TapeType::kF32, 1, value);
  const uint16_t none = range.Const(0), steps = range.Const(255);
  const uint16_t most = range.Binary(TapeOp::kMax, range.Add(TapeOp::kScalar, TapeType::kF32, 0), none);
  const uint16_t least = range.Binary(TapeOp::kMin, range.Add(TapeOp::kScalar, TapeType::kF32, 1), none);
  const uint16_t scale = range.Binary(TapeOp::kDiv, range.Binary(TapeOp::kSub, most, least), steps);
  range.Add(TapeOp::kSetScalar, TapeType::kF32, 2, scale);
  uint16_t zero = range.Binary(TapeOp::kDiv, range.Unary(TapeOp::kNeg, least), scale);
  zero =
      range.Unary(TapeOp::kRound, range.Binary(TapeOp::kMin, range.Binary(TapeOp::kMax, zero, none), steps));
  zero = range.Cast(range.Cast(zero, TapeType::kI64, DType::kU8), TapeType::kF32, DType::kF32);
  range.Add(TapeOp::kSetScalar, TapeType::kF32, 3, zero);
  const uint16_t element = quantise.Load(x, DType::kF32);
  uint16_t q = quantise.Binary(TapeOp::kDiv, element, quantise.Add(TapeOp::kScalar, TapeType::kF32, 2));
  q = quantise.Unary(TapeOp::kRound, q);
  if (zero_points) q = quantise.Binary(TapeOp::kAdd, q, quantise.Add(TapeOp::kScalar, TapeType::kF32, 3));
  q = quantise.Binary(TapeOp::kMax, q, quantise.Const(0));
  q = quantise.Binary(TapeOp::kMin, q, quantise.Const(255));
  quantise.Store(y, DType::kU8, quantise.Cast(q, TapeType::kI64, DType::kU8));
  const std::vector<Stage> stages = {
      {false, maker.Keep(extremes)}, {true, maker.Keep(range)}, {false, maker.Keep(quantise)}};
  maker.part.stages = c.arena.Copy(stages);
  c.memory.Randomise(maker, random);
  float* floats = reinterpret_cast<float*>(c.memory.params[maker.operands[x].param].data());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < row; ++i) {
      float& f = floats[r * row + i];
      if (r % 2 == 1) f = std::max(f, 0.0f);
      f *= r % 7 == 2 ? 1e-42f : r % 7 == 3 ? 1e-30f : r % 7 == 4 ? 1e30f : r % 7 == 5 ? 0 : 1;
    }
    if (r % 7 == 6) floats[r * row + row / 2] = INFINITY;
  }
  c.tolerance = {};
}

TEST(GpuKernels, RangesMatchTheReference) {
  Suite suite;
  for (int64_t row : {5, 96, 640, 4608, 9216, 24576}) {
    AddRanges(&suite, 15, row, row % 3 == 0);
    AddRanges(&suite, 1, row, row % 3 != 0);
  }
  suite.Run();
  EXPECT_EQ(suite.Count("quantised_in_run("), 12u);
}

TEST(GpuKernels, RowsMatchTheReference) {
  Suite suite;
  uint32_t seed = 0;
  for (int64_t row : {1, 8, 24, 49, 384, 768, 1000, 4096, 8192, 20000, 50257, 128256}) {
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      AddNorm(&suite, row > 1000 ? 3 : 19, {row}, type, DType::kF16, seed++);
      if (row <= 8192) AddSoftmax(&suite, row > 1000 ? 3 : 19, row, type, seed++);
    }
  }
  AddNorm(&suite, 5, {6, 48}, DType::kBF16, DType::kBF16, seed++);
  AddNorm(&suite, 5, {7, 9}, DType::kF32, DType::kF32, seed++);
  suite.Run();
}

// Vectors begin at a row's first aligned element; single elements remain before and after them. Some
// operands, such as a norm's gains, are not aligned where the row's vectors are.
TEST(GpuKernels, RowsThatBeginAnywhereAreReadAsVectors) {
  Suite suite;
  uint32_t seed = 1300;
  for (int64_t row : {257, 1001, 4098, 8193}) {
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      AddNorm(&suite, 9, {row}, type, DType::kF16, seed++);
      AddSoftmax(&suite, 9, row, type, seed++);
    }
  }
  AddNorm(&suite, 3, {50257}, DType::kF16, DType::kF16, seed++);    // a cluster a row, in registers
  AddNorm(&suite, 2, {600003}, DType::kF16, DType::kF16, seed++);   // read by each stage
  AddNorm(&suite, 140, {50257}, DType::kF16, DType::kF16, seed++);  // the same by a block
  suite.Run();
  EXPECT_EQ(suite.Count("const u32 head = "), suite.size());
  EXPECT_EQ(suite.Count("load_words<"), suite.size());
}

// y = x / greatest of the row, or the floor of it; all elements are `value`.
void AddQuotient(Suite* suite, bool floor, float value) {
  Case& c = suite->Add("quotient of " + std::to_string(value) + (floor ? ", rounded down" : ""));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.reduced = 1;
  maker.part.scalars = 1;
  maker.loops = {3, 64};
  const uint16_t x = maker.Operand(DType::kBF16, Mode::kRead, {0, 1}),
                 y = maker.Operand(DType::kBF16, Mode::kWrite, {0, 1});
  TapeMaker most, store;
  most.Add(TapeOp::kReduceMax, TapeType::kF32, 0, most.Load(x, DType::kBF16));
  const uint16_t quotient =
      store.Binary(TapeOp::kDiv, store.Load(x, DType::kBF16), store.Add(TapeOp::kScalar, TapeType::kF32, 0));
  store.Store(y, DType::kBF16, floor ? store.Unary(TapeOp::kFloor, quotient) : quotient);
  const Stage stages[] = {{false, maker.Keep(most)}, {false, maker.Keep(store)}};
  maker.part.stages = c.arena.Copy(std::vector<Stage>(stages, stages + 2));
  Random random(1);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; i < 3 * 64; ++i)
    scalar::Store<float>(DType::kBF16, c.memory.params[0].data(), i, value);
  c.canaries = false;
}

// Reciprocals of a row's number replace divisions by it, where that shows in no 16-bit result: 41 * (1 / 41)
// is below 1, and 1 / 1e-39 is infinite.
TEST(GpuKernels, QuotientsByNumbersOfTheirRow) {
  Suite suite;
  suite.each = 1;
  for (float value : {41.0f, 1e-39f, 3e38f, 1.0f}) {
    AddQuotient(&suite, false, value);
    AddQuotient(&suite, true, value);
  }
  suite.Run();
  EXPECT_EQ(suite.Count("quick_div("), 4u);
}

// Rows that fit neither registers nor shared memory take a cluster each, and read several vectors at once.
// Other rows fit a cluster of blocks of which two share a multiprocessor.
TEST(GpuKernels, RowsBeyondRegistersAreReadAhead) {
  Suite suite;
  uint32_t seed = 600;
  for (DType type : {DType::kF32, DType::kF16}) {
    AddNorm(&suite, 2, {150000, 4}, type, type, seed++);
    AddNorm(&suite, 2, {75001, 8}, type, DType::kF16, seed++);
  }
  suite.Run();
  EXPECT_EQ(suite.Count("u32 number = start + r * 2048u"), suite.size());
  Suite shared;
  AddNorm(&shared, 40, {2100, 8}, DType::kF16, DType::kF16, seed++);
  shared.Run();
  EXPECT_EQ(shared.Count("__cluster_dims__(4, 1, 1)"), shared.size());
  EXPECT_EQ(shared.Count("__launch_bounds__(256, 2)"), shared.size());
  // Rows that share memory sectors.
  Suite narrow;
  AddNorm(&narrow, 40, {60000, 4}, DType::kF16, DType::kF16, seed++, {1, 0, 2});
  narrow.Run();
  EXPECT_EQ(narrow.Count("__cluster_dims__(2, 1, 1)"), narrow.size());
}

// Though there are rows enough for all blocks.
TEST(GpuKernels, RowsThatOnlyAClusterCanKeepAreReadOnce) {
  Suite suite;
  suite.each = 1;
  suite.processors = 1;
  uint32_t seed = 620;
  AddNorm(&suite, 3, {27399}, DType::kF32, DType::kF16, seed++);
  AddNorm(&suite, 3, {60000}, DType::kF16, DType::kF16, seed++);
  AddNorm(&suite, 3, {50001}, DType::kF16, DType::kF32, seed++);
  AddNorm(&suite, 3, {50257}, DType::kF32, DType::kF32, seed++);
  AddNorm(&suite, 3, {20000}, DType::kF32, DType::kF16, seed++);   // a block keeps it
  AddNorm(&suite, 2, {300000}, DType::kF32, DType::kF16, seed++);  // no cluster does
  suite.Run();
  EXPECT_EQ(suite.Count("__cluster_dims__(2, 1, 1)"), 3u);
  EXPECT_EQ(suite.Count("__cluster_dims__(4, 1, 1)"), 1u);
  EXPECT_EQ(suite.Count("__cluster_dims__("), 4u);
}

// Interleaved rows: threads and blocks share the elements of neighbouring rows, and also write them.
TEST(GpuKernels, NormsOfRowsSideBySideMatchTheReference) {
  Suite suite;
  uint32_t seed = 640;
  for (int64_t rows : {16, 70, 512}) {
    for (int64_t row : {130, 1999}) {
      for (DType type : {DType::kF32, DType::kF16})
        AddNorm(&suite, rows, {row}, type, DType::kF16, seed++, {1, 0});
    }
  }
  AddNorm(&suite, 24, {130, 7}, DType::kF16, DType::kF16, seed++, {1, 2, 0});
  suite.Run();
  EXPECT_EQ(suite.Count("take_columns<"), suite.size());
}

// y = (x0 + x1 + ...) / row's sum of them.
void AddShares(Suite* suite, int64_t row, int addends, uint32_t seed) {
  Case& c = suite->Add("shares of rows of " + std::to_string(row) + ", " + std::to_string(addends));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.reduced = maker.part.scalars = 1;
  maker.loops = {19, row};
  std::vector<uint16_t> read;
  for (int i = 0; i < addends; ++i) read.push_back(maker.Operand(DType::kF16, Mode::kRead, {0, 1}));
  const uint16_t y = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
  const auto added = [&](TapeMaker* tape) {
    uint16_t sum = tape->Load(read[0], DType::kF16);
    for (size_t i = 1; i < read.size(); ++i)
      sum = tape->Binary(TapeOp::kAdd, sum, tape->Load(read[i], DType::kF16));
    return sum;
  };
  TapeMaker total, store;
  total.Add(TapeOp::kReduceSum, TapeType::kF32, 0, added(&total));
  const uint16_t sum = added(&store);
  store.Store(y, DType::kF32, store.Binary(TapeOp::kDiv, sum, store.Add(TapeOp::kScalar, TapeType::kF32, 0)));
  const Stage stages[] = {{false, maker.Keep(total)}, {false, maker.Keep(store)}};
  maker.part.stages = c.arena.Copy(std::vector<Stage>(stages, stages + 2));
  Random random(seed);
  c.memory.Randomise(maker, random);
  c.tolerance = {1e-2, 1e-2};
}

// What a warp has no registers for, a block keeps, and what that has none for, each stage reads.
TEST(GpuKernels, RowsOfManyOperandsHaveABlockEach) {
  Suite suite;
  suite.each = 1;
  for (const auto& [row, addends] :
       {std::pair<int64_t, int>{1024, 6}, {1024, 7}, {768, 8}, {768, 9}, {328, 13}, {328, 40}})
    AddShares(&suite, row, addends, static_cast<uint32_t>(row + addends));
  suite.Run();
  EXPECT_EQ(suite.Count("cache0["), 5u);
  EXPECT_EQ(suite.Count("lane + round * 256;"), 3u);
}

// Several short rows, which are no whole vectors, share a warp.
TEST(GpuKernels, ShortRowsShareAWarp) {
  Suite suite;
  uint32_t seed = 400;
  for (int64_t row : {3, 9, 13}) {
    for (DType type : {DType::kF32, DType::kF16}) {
      AddNorm(&suite, 1000, {row}, type, DType::kF16, seed++);
      AddSoftmax(&suite, 19, row, type, seed++);
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("threadIdx.x / 4u"), 4u);
  EXPECT_EQ(suite.Count("threadIdx.x / 16u"), 8u);
}

// Many short rows of single elements have fewer threads than elements. Many rows that no cluster keeps are
// read for each stage, as vectors.
TEST(GpuKernels, ManyRowsMatchTheReference) {
  uint32_t seed = 700;
  Suite small;
  small.each = small.processors = 1;
  for (int64_t row : {9, 13, 49}) {
    AddNorm(&small, 3000, {row}, DType::kF16, DType::kF16, seed++);
    AddSoftmax(&small, 3000, row, DType::kF32, seed++);
  }
  small.Run();
  EXPECT_EQ(small.Count("threadIdx.x / 2u"), 4u);
  EXPECT_EQ(small.Count("threadIdx.x / 8u"), 2u);
  Suite large;
  large.each = large.processors = 1;
  AddNorm(&large, 5, {300000}, DType::kF16, DType::kF16, seed++);
  AddNorm(&large, 5, {300002}, DType::kF32, DType::kF16, seed++);
  AddNorm(&large, 5, {300001}, DType::kF16, DType::kF32, seed++);
  large.Run();
  EXPECT_EQ(large.Count("start + r * 256u"), large.size());
}

// y[t, i] = the sum of x[t, j] over j < i, or with `own` over j <= i.
void AddRunningSums(Suite* suite, int64_t rows, int64_t row, bool own, DType type, uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("running sums of " + std::to_string(rows) + " rows of " + std::to_string(row) + " " +
                       Name(type));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = 2;
  maker.part.reduced = maker.part.scalars = 1;
  maker.loops = {rows, row, row};
  const uint16_t x = maker.Operand(type, Mode::kRead, {0, 2}), y = maker.Operand(type, Mode::kWrite, {0, 1});
  TapeMaker sum, store;
  const uint16_t position = sum.Add(TapeOp::kIndex, TapeType::kI64, 2),
                 end = sum.Add(TapeOp::kIndex, TapeType::kI64, 1);
  const uint16_t counts = sum.Add(own ? TapeOp::kLessEqual : TapeOp::kLess, TapeType::kI64, 0, position, end);
  const uint16_t value = sum.Load(x, type);
  const uint16_t zero = NaturalType(type) == TapeType::kI64 ? sum.ConstInt(0) : sum.Const(0);
  sum.Add(TapeOp::kReduceSum, NaturalType(type), 0,
          sum.Add(TapeOp::kSelect, NaturalType(type), 0, counts, value, zero));
  store.Store(y, type, store.Add(TapeOp::kScalar, NaturalType(type), 0));
  const std::vector<Stage> stages = {{false, maker.Keep(sum)}, {true, maker.Keep(store)}};
  maker.part.stages = c.arena.Copy(stages);
  c.memory.Randomise(maker, random);
  c.tolerance = {1e-3, 1e-4};
}

TEST(GpuKernels, RunningSumsReadEachElementOnce) {
  Suite suite;
  uint32_t seed = 500;
  for (int64_t row : {1, 31, 64, 77, 512}) {
    for (DType type : {DType::kF32, DType::kF16, DType::kI64}) {
      AddRunningSums(&suite, 11, row, seed % 2 == 0, type, seed);
      ++seed;
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("sum_of_lanes("), suite.size());
}

// Threads that share rows, blocks that do, neighbouring rows that are read together, and long rows.
TEST(GpuKernels, NumbersThatReductionsCombineMatchTheReference) {
  Suite suite;
  suite.each = 1;
  uint32_t seed = 700;
  for (int64_t row : {8, 49, 768, 8192, 50257}) {
    AddNorm(&suite, row > 1000 ? 3 : 19, {row}, DType::kF32, DType::kF32, seed++);
    CombineWhatIsMade(&suite.Last());
  }
  AddNorm(&suite, 32, {8}, DType::kF32, DType::kF32, seed++);
  CombineWhatIsMade(&suite.Last());
  for (int64_t rows : {16, 70}) {
    AddNorm(&suite, rows, {130}, DType::kF32, DType::kF16, seed++, {1, 0});
    CombineWhatIsMade(&suite.Last());
  }
  AddRunningSums(&suite, 11, 77, true, DType::kF32, seed++);
  CombineWhatIsMade(&suite.Last());
  suite.Run();
  EXPECT_EQ(suite.Count("take_columns<"), 2u);
  EXPECT_EQ(suite.Count("team_wait("), 1u);
  EXPECT_EQ(suite.Count("sum_of_lanes("), 1u);
}

// y[r, i] = the number of x[r, j] that are less than x[r, i]. Each of these rows, which read the same
// elements, gets one thread.
TEST(GpuKernels, RowsThatReadTheSameElementsHaveAThreadEach) {
  Suite suite;
  uint32_t seed = 800;
  for (int64_t row : {40, 77}) {
    for (DType type : {DType::kF32, DType::kF16}) {
      Random random(seed++);
      Case& c = suite.Add("counts of " + std::to_string(row) + " " + Name(type));
      PartMaker& maker = c.maker;
      maker.part.skeleton = Skeleton::kReduction;
      maker.part.outer = 2;
      maker.part.reduced = maker.part.scalars = 1;
      maker.loops = {250, row, row};
      const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1}),
                     y = maker.Operand(DType::kI64, Mode::kWrite, {0, 1});
      const uint16_t other = maker.Operand(type, Mode::kRead, {0, 2});
      maker.operands[other].param = maker.operands[x].param;
      maker.sizes.pop_back();
      maker.dtypes.pop_back();
      TapeMaker count, store;
      count.Add(TapeOp::kReduceSum, TapeType::kI64, 0,
                count.Add(TapeOp::kLess, TapeType::kI64, 0, count.Load(other, type), count.Load(x, type)));
      store.Store(y, DType::kI64, store.Add(TapeOp::kScalar, TapeType::kI64, 0));
      const std::vector<Stage> stages = {{false, maker.Keep(count)}, {true, maker.Keep(store)}};
      maker.part.stages = c.arena.Copy(stages);
      c.memory.Randomise(maker, random);
      c.tolerance = {0, 0};
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("threadIdx.x / 1u"), 4u);
}

}  // namespace
}  // namespace rondo::test
