#include "formats/plan/traffic.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace rondo {
namespace {

// A map part over `loops` whose operands are added one by one. Owns everything that they point to.
struct Sample {
  std::vector<int64_t> loops;
  std::vector<Operand> operands;
  std::vector<std::vector<int64_t>> strides;
  std::vector<std::vector<Guard>> guards;
  std::vector<std::vector<Indirect>> indirects;

  explicit Sample(std::vector<int64_t> extents) : loops(std::move(extents)) {
    strides.reserve(16);
    guards.reserve(16);
    indirects.reserve(16);
  }
  Operand& Add(std::vector<int64_t> operand_strides, int64_t offset = 0) {
    strides.push_back(std::move(operand_strides));
    Operand operand;
    operand.param = static_cast<uint16_t>(operands.size());
    operand.offset = offset;
    operand.strides = strides.back();
    operands.push_back(operand);
    return operands.back();
  }
  Part part() const {
    Part part;
    part.outer = static_cast<uint8_t>(loops.size());
    part.loops = loops;
    part.operands = operands;
    return part;
  }
};

// Counts by touching every point.
uint64_t Counted(const Sample& sample, const Operand& operand) {
  std::set<int64_t> seen;
  std::vector<int64_t> i(sample.loops.size(), 0);
  for (;;) {
    int64_t at = operand.offset;
    bool inside = true;
    for (size_t d = 0; d < i.size(); ++d) at += operand.strides[d] * i[d];
    for (const Guard& guard : operand.guards) {
      int64_t c = guard.offset;
      for (size_t d = 0; d < i.size(); ++d) c += guard.strides[d] * i[d];
      inside = inside && c >= 0 && c < guard.extent;
      at += guard.stride * c;
    }
    if (inside) seen.insert(at);
    size_t d = i.size();
    while (d > 0 && ++i[d - 1] == sample.loops[d - 1]) i[--d] = 0;
    if (d == 0) return seen.size();
  }
}

TEST(Traffic, DistinctElementsAreExactForDenseNestsViewsAndWindows) {
  struct Case {
    std::vector<int64_t> loops, strides;
    const char* what;
  };
  const Case cases[] = {
      {{4, 5}, {5, 1}, "dense"},
      {{4, 5}, {1, 4}, "transposed"},
      {{4, 5}, {0, 1}, "broadcast"},
      {{4, 5}, {10, 1}, "slice"},
      {{4, 5}, {-5, 1}, "reversed rows"},
      {{10, 3}, {1, 1}, "window"},
      {{10, 3}, {2, 1}, "strided window"},
      {{3, 4, 5}, {40, 5, 1}, "rows of a larger tensor"},
      {{8, 10, 3}, {100, 1, 1}, "windows in rows"},
      {{7}, {3}, "every third"},
      {{1, 1}, {9, 9}, "one"},
  };
  for (const Case& c : cases) {
    Sample sample(c.loops);
    const Operand& operand = sample.Add(c.strides, 100);
    EXPECT_EQ(DistinctElements(sample.part(), operand), Counted(sample, operand)) << c.what;
  }
}

TEST(Traffic, PaddedConvolutionReadsItsInputOnce) {
  // 8 outputs, window 3, padding 1, 8 inputs.
  Sample sample({8, 3});
  Operand& operand = sample.Add({0, 0});
  const std::vector<int64_t> strides = {1, 1};
  Guard guard;
  guard.stride = 1;
  guard.offset = -1;
  guard.extent = 8;
  guard.strides = strides;
  sample.guards.push_back({guard});
  operand.guards = sample.guards.back();
  EXPECT_EQ(DistinctElements(sample.part(), operand), 8u);
  EXPECT_EQ(Counted(sample, operand), 8u);
}

TEST(Traffic, ARowChosenByAnIndexCountsAsOneRow) {
  // table[index[i], j] with 2 indices into 256 rows of 16.
  Sample sample({2, 16});
  sample.Add({1, 0}).dtype = DType::kI64;
  Operand& table = sample.Add({0, 1});
  Indirect indirect;
  indirect.operand = 0;
  indirect.stride = 16;
  indirect.extent = 256;
  sample.indirects.push_back({indirect});
  table.indirects = sample.indirects.back();
  EXPECT_EQ(DistinctElements(sample.part(), table), 32u);
}

TEST(Traffic, SharedReadsOfSeveralPartsCountOnce) {
  Sample first({8}), second({8});
  first.Add({1});
  first.Add({1}).mode = Mode::kWrite;
  second.Add({1}, 4);
  second.operands[0].param = 0;
  const Part parts[] = {first.part(), second.part()};
  Kernel kernel;
  kernel.num_params = 2;
  kernel.parts = Span<const Part>(parts, 2);
  Buffer buffers[2];
  buffers[0].bytes = 4096;
  buffers[1].bytes = 4096;
  PlanData plan;
  plan.kernels = Span<const Kernel>(&kernel, 1);
  plan.buffers = Span<const Buffer>(buffers, 2);
  const Binding bindings[] = {{0, 0}, {1, 0}};
  Step step;
  step.kernel = 0;
  step.bindings = Span<const Binding>(bindings, 2);
  const Traffic traffic = StepTraffic(plan, step);
  EXPECT_EQ(traffic.read, 12u * 4);  // [0, 8) and [4, 12)
  EXPECT_EQ(traffic.written, 8u * 4);
  buffers[0].bytes = 40;
  EXPECT_EQ(StepTraffic(plan, step).read, 40u);  // never more than the bound bytes
}

TEST(Traffic, ScalesOfPackedWeightsAreAllRead) {
  // 32 columns of 4-bit weights, 256 along k in blocks of 32.
  const PackedShape shape = {32, 256, 32, 4};
  Sample sample({1, 32, 256});
  sample.Add({256, 0, 1}).dtype = DType::kF16;
  sample.Add({0, shape.Stride(), 1}).dtype = DType::kU8;
  sample.Add({0, shape.ScaleStride(), 0}).dtype = DType::kF16;
  Part part = sample.part();
  const uint16_t codes[] = {1}, scales[] = {2};
  part.outer = 0, part.m = part.n = part.reduced = 1;
  part.skeleton = Skeleton::kMatMul;
  part.rhs = codes;
  part.scales = scales;
  Kernel kernel;
  kernel.num_params = 3;
  kernel.parts = Span<const Part>(&part, 1);
  const uint64_t bound[] = {512, static_cast<uint64_t>(shape.bytes()),
                            static_cast<uint64_t>(shape.scales_covered() * 2)};
  const uint64_t scale_bytes = static_cast<uint64_t>(shape.scales()) * 2;
  const uint64_t read = KernelTraffic(kernel, bound).read;
  EXPECT_GE(read, 512 + scale_bytes + bound[1] * 9 / 10);
  EXPECT_LE(read, 512 + bound[1] + bound[2]);
}

TEST(Traffic, ASparseReadThatIsMadeTwiceCountsOnce) {
  Sample sample({4});
  sample.Add({10});
  sample.Add({10}).param = 0;
  const Part part = sample.part();
  Kernel kernel;
  kernel.num_params = 1;
  kernel.parts = Span<const Part>(&part, 1);
  Buffer buffer;
  buffer.bytes = 4096;
  PlanData plan;
  plan.kernels = Span<const Kernel>(&kernel, 1);
  plan.buffers = Span<const Buffer>(&buffer, 1);
  const Binding binding = {0, 0};
  Step step;
  step.kernel = 0;
  step.bindings = Span<const Binding>(&binding, 1);
  EXPECT_EQ(StepTraffic(plan, step).read, 4u * 4);
}

TEST(Traffic, HugeExtentsSaturateInsteadOfOverflowing) {
  Sample sample({INT64_MAX, INT64_MAX, INT64_MAX});
  const Operand& operand = sample.Add({INT64_MAX, INT64_MAX / 2, 1});
  EXPECT_GT(DistinctElements(sample.part(), operand), 0u);
}

}  // namespace
}  // namespace rondo
