// Generated windows, and reductions whose rows are not contiguous but adjacent, against the reference
// (gpu_suite.h).
#include "tests/cuda/gpu_suite.h"
#include "tests/cuda/window_maker.h"

namespace rondo::test {
namespace {

constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32};

Tolerance ToleranceOf(DType type, double scale) {
  if (type == DType::kF32) return {1e-4, 2e-5 * scale};
  return {type == DType::kF16 ? 4e-3 : 2e-2, (type == DType::kF16 ? 1e-3 : 8e-3) * scale};
}

void AddWindows(Suite* suite, const WindowCase& v, DType type, DType weight, uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("windows " + std::to_string(seed) + " " + Name(type));
  MakeWindows(v, type, weight, &c.maker);
  c.memory.Randomise(c.maker, random);
  int64_t taps = 1;
  for (int64_t k : v.kernel) taps *= k;
  c.tolerance = ToleranceOf(type, std::sqrt(static_cast<double>(taps)));
}

TEST(GpuWindows, ConvolutionsOfOneChannelAGroupMatchTheReference) {
  constexpr Combine kProduct = Combine::kProduct;
  const WindowCase cases[] = {
      {kProduct, 1, 32, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {kProduct, 2, 24, {15, 13}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {1, 2}, true, true},
      {kProduct, 1, 48, {19, 11}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, true},
      {kProduct, 1, 5, {17, 23}, {3, 3}, {1, 2}, {2, 3}, {0, 4}, {3, 1}, false},
      {kProduct, 3, 6, {9, 31}, {2, 9}, {3, 1}, {1, 1}, {1, 0}, {0, 8}, true},
      {kProduct, 2, 10, {100}, {31}, {1}, {1}, {30}, {0}, false},
      {kProduct, 1, 16, {37}, {4}, {3}, {5}, {2}, {7}, true, true},
      {kProduct, 1, 8, {5, 6, 7}, {3, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 2}, {0, 1, 1}, true},
      {kProduct, 1, 3, {4, 5, 9}, {2, 3, 3}, {1, 1, 2}, {2, 1, 1}, {1, 1, 0}, {1, 1, 1}, false},
  };
  Suite suite;
  uint32_t seed = 600;
  for (const WindowCase& v : cases) {
    for (DType type : kFloats) AddWindows(&suite, v, type, type, seed++);
  }
  suite.Run();
}

// Threads beyond the last point end early.
TEST(GpuWindows, NumbersThatTheyCombineMatchTheReference) {
  const WindowCase cases[] = {
      {Combine::kProduct, 1, 32, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {Combine::kProduct, 1, 5, {17, 23}, {3, 3}, {1, 2}, {2, 3}, {0, 4}, {3, 1}, false},
      {Combine::kMean, 1, 24, {11, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
  };
  Suite suite;
  uint32_t seed = 650;
  for (const WindowCase& v : cases) {
    AddWindows(&suite, v, DType::kF32, DType::kF32, seed++);
    CombineWhatIsMade(&suite.Last());
  }
  suite.Run();
}

TEST(GpuWindows, PoolsMatchTheReference) {
  const WindowCase cases[] = {
      {Combine::kMax, 1, 16, {20, 20}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true},
      {Combine::kMax, 2, 7, {9, 14}, {2, 3}, {1, 2}, {2, 1}, {0, 1}, {1, 0}, false},
      {Combine::kMean, 1, 24, {11, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {Combine::kMean, 1, 5, {50}, {4}, {3}, {1}, {2}, {3}, false},
      {Combine::kSum, 1, 8, {6, 7, 8}, {2, 3, 2}, {2, 1, 1}, {1, 1, 2}, {1, 1, 0}, {0, 1, 1}, true},
  };
  Suite suite;
  uint32_t seed = 700;
  for (const WindowCase& v : cases) {
    for (DType type : kFloats) AddWindows(&suite, v, type, type, seed++);
  }
  suite.Run();
}

TEST(GpuWindows, BytesMatchTheReference) {
  Suite suite;
  uint32_t seed = 300;
  const WindowCase cases[] = {
      {Combine::kMax, 1, 64, {56, 56}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true, true},
      {Combine::kMax, 2, 12, {9, 17}, {2, 3}, {1, 1}, {1, 2}, {0, 2}, {1, 0}, true, true},
      {Combine::kMax, 1, 5, {13, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {Combine::kProduct, 1, 64, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true, true},
      {Combine::kProduct, 2, 9, {11, 8}, {5, 2}, {2, 1}, {1, 2}, {2, 0}, {1, 1}},
  };
  for (const WindowCase& v : cases) {
    for (DType type : {DType::kU8, DType::kI8}) AddWindows(&suite, v, type, type, seed++);
  }
  // Weights minus zero points that do not fit into 8 bits.
  for (const WindowCase& v : {cases[3], cases[4]}) AddWindows(&suite, v, DType::kU8, DType::kI16, seed++);
  suite.Run();
  EXPECT_EQ(suite.Count("WindowLine<"), 2 * std::size(cases) + 2);
}

TEST(GpuWindows, ReductionsOfRowsSideBySideMatchTheReference) {
  Suite suite;
  uint32_t seed = 800;
  // Loads of 16 bytes and fewer.
  const int64_t shapes[][3] = {{1, 32, 12544}, {2, 24, 49}, {3, 40, 200}, {1, 6, 25},
                               {1, 2048, 7},   {2, 8, 1},   {1, 36, 200}, {2, 42, 300}};
  for (const auto& shape : shapes) {
    for (DType type : kFloats) {
      Random random(seed);
      Case& c = suite.Add("columns " + std::to_string(seed++) + " " + Name(type));
      MakeColumns(shape[0], shape[1], shape[2], type, &c.maker);
      c.memory.Randomise(c.maker, random);
      c.tolerance = ToleranceOf(type, 1);
    }
  }
  suite.Run();
}

// Elements of rows lie apart, and so do those of neighbouring rows: short rows share a warp all the same.
TEST(GpuWindows, ShortRowsOfElementsFarApartMatchTheReference) {
  constexpr int64_t kApart = 3;
  Suite suite;
  suite.each = suite.processors = 1;
  uint32_t seed = 900;
  for (const auto& [rows, elements] :
       std::vector<std::pair<int64_t, int64_t>>{{3000, 4}, {40, 9}, {1500, 64}, {7, 200}}) {
    for (DType type : kFloats) {
      Random random(seed);
      Case& c = suite.Add("short rows " + std::to_string(seed++) + " " + Name(type));
      MakeColumns(rows, 1, elements, type, &c.maker);
      Span<int64_t> strides = c.arena.New<int64_t>(3);
      strides[0] = kApart * elements;
      strides[2] = kApart;
      c.maker.operands[0].strides = strides;
      c.maker.sizes[0] = rows * elements * kApart;
      c.memory.Randomise(c.maker, random);
      c.tolerance = ToleranceOf(type, 1);
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("threadIdx.x / 1;"), std::size(kFloats));
  EXPECT_EQ(suite.Count("threadIdx.x / 8;"), std::size(kFloats));
  EXPECT_EQ(suite.Count("threadIdx.x / 16;"), std::size(kFloats));
  EXPECT_EQ(suite.Count("threadIdx.x / 32;"), std::size(kFloats));
}

// Places of maxima over the middle axis, as of classes of pixels: a thread takes a row where there are many.
TEST(GpuWindows, ShortRowsSideBySideHaveAThreadEach) {
  Suite suite;
  suite.each = suite.processors = 1;
  uint32_t seed = 950;
  for (int64_t elements : {21, 150}) {
    for (DType type : kFloats) {
      Random random(seed);
      Case& c = suite.Add("places " + std::to_string(seed++) + " " + Name(type));
      PartMaker& maker = c.maker;
      maker.loops = {2, 600, elements};
      maker.part.skeleton = Skeleton::kReduction;
      maker.part.outer = 2;
      maker.part.reduced = 1;
      maker.part.scalars = 1;
      const uint16_t x = maker.Operand(type, Mode::kRead, {0, 2, 1}),
                     y = maker.Operand(DType::kI64, Mode::kWrite, {0, 1});
      TapeMaker most, store;
      most.Add(TapeOp::kReduceArgMax, TapeType::kI64, 0, most.Load(x, type));
      store.Store(y, DType::kI64, store.Add(TapeOp::kScalar, TapeType::kI64, 0));
      const std::vector<Stage> stages = {{false, maker.Keep(most)}, {true, maker.Keep(store)}};
      maker.part.stages = c.arena.Copy(stages);
      c.memory.Randomise(maker, random);
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("threadIdx.x / 1;"), suite.size());
}

}  // namespace
}  // namespace rondo::test
