// Generated matmuls, convolutions and colliding writes against the reference (gpu_suite.h).
#include <array>

#include "compiler/codegen/cuda/kernel_candidates.h"
#include "tests/cuda/gpu_suite.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

// The parameters of a case.
struct ProductCase {
  int64_t batch = 1, rows = 1, columns = 64, depth = 128;
  int rights = 1;
  bool right_by_depth = false;  // B is contiguous along K
  bool left_by_rows = false;    // A is contiguous along M
  bool prologue = false;
  int64_t split = 1;  // K is split into this many pieces, which lie apart in A
  bool tf32 = false;
  bool out_by_rows = false;  // residual and results are contiguous along M
};

// sums[0] * sigmoid(sums[1]), or sum + erf(sum), plus a bias for each column and a residual.
Tape Epilogue(PartMaker& maker, int rights, DType type, uint16_t bias, uint16_t residual, uint16_t out) {
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kF32, 0);
  if (rights == 2) {
    const uint16_t gate = tape.Unary(TapeOp::kSigmoid, tape.Add(TapeOp::kAcc, TapeType::kF32, 1));
    x = tape.Binary(TapeOp::kMul, x, gate);
  } else {
    x = tape.Binary(TapeOp::kAdd, x, tape.Unary(TapeOp::kErf, x));
  }
  x = tape.Binary(TapeOp::kAdd, x, tape.Load(bias, type));
  x = tape.Binary(TapeOp::kAdd, x, tape.Load(residual, type));
  tape.Store(out, type, x);
  return maker.Keep(tape);
}

// The tolerance for a sum of products of that scale.
Tolerance ToleranceOf(DType type, double scale) {
  if (type == DType::kF32) return {1e-4, 2e-5 * scale};
  return {type == DType::kF16 ? 4e-3 : 2e-2, (type == DType::kF16 ? 1e-3 : 8e-3) * scale};
}

std::vector<int> OutOrder(const ProductCase& p) {
  return p.out_by_rows ? std::vector<int>{0, 2, 1} : std::vector<int>{0, 1, 2};
}

void AddProduct(Suite* suite, const ProductCase& p, DType type, uint32_t seed) {
  Random random(seed);
  Case& c =
      suite->Add("product " + std::to_string(seed) + ": " + Name(type) + " " + std::to_string(p.batch) + "x" +
                 std::to_string(p.rows) + "x" + std::to_string(p.columns) + "x" + std::to_string(p.depth));
  PartMaker& maker = c.maker;
  Part& part = maker.part;
  part.skeleton = Skeleton::kMatMul;
  maker.loops = {p.batch, p.rows, p.columns, p.split, p.depth / p.split};
  part.outer = part.m = part.n = 1;
  part.reduced = 2;
  part.lhs = maker.Operand(type, Mode::kRead,
                           p.left_by_rows ? std::vector<int>{0, 3, 4, 1} : std::vector<int>{0, 3, 1, 4});
  std::vector<uint16_t> rhs;
  for (int j = 0; j < p.rights; ++j) {
    rhs.push_back(maker.Operand(
        type, Mode::kRead, p.right_by_depth ? std::vector<int>{0, 2, 3, 4} : std::vector<int>{0, 3, 4, 2}));
  }
  part.rhs = c.arena.Copy(rhs);
  if (p.prologue) {
    const uint16_t scale = maker.Operand(type, Mode::kRead, {3, 4});
    TapeMaker prologue;
    const uint16_t x =
        prologue.Binary(TapeOp::kMul, prologue.Load(part.lhs, type), prologue.Load(scale, type));
    prologue.Add(TapeOp::kYield, TapeType::kF32, 0, prologue.Cast(x, TapeType::kF32, type));
    part.prologue = maker.Keep(prologue);
  }
  const uint16_t bias = maker.Operand(type, Mode::kRead, {2}),
                 residual = maker.Operand(type, Mode::kRead, OutOrder(p)),
                 out = maker.Operand(type, Mode::kWrite, OutOrder(p));
  part.epilogue = Epilogue(maker, p.rights, type, bias, residual, out);
  c.memory.Randomise(maker, random);
  part.tf32 = p.tf32;
  const double scale = std::sqrt(static_cast<double>(p.depth));
  c.tolerance = ToleranceOf(p.tf32 ? DType::kF16 : type, scale);  // TF32 has as many bits as f16
}

constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32};

TEST(GpuProducts, OfFewPointsMatchTheReference) {
  const ProductCase cases[] = {
      {1, 1, 48, 1152, 1, true}, {1, 1, 7, 36, 1, true},
      {1, 3, 10, 96, 2, true},   {2, 4, 33, 64, 1, true, false, false, 4},
      {1, 2, 1152, 48, 1, true},
  };
  Suite suite;
  uint32_t seed = 900;
  for (const ProductCase& p : cases) {
    for (DType type : kFloats) AddProduct(&suite, p, type, seed++);
  }
  suite.Run();
}

// K is split where few points have much of it, whatever K's vectors are.
TEST(GpuProducts, OfFewPointsAndALongKAreTiles) {
  const ProductCase cases[] = {
      {1, 5, 24, 2327},
      {1, 1, 3, 1501, 1, true},
      {1, 40, 1, 777},
      {3, 2, 12, 640, 2},
      {1, 7, 5, 999, 1, true, false, true},
  };
  Suite suite;
  uint32_t seed = 940;
  for (const ProductCase& p : cases) {
    for (DType type : kFloats) AddProduct(&suite, p, type, seed++);
  }
  suite.Run();
  EXPECT_EQ(suite.Count(">(m_tile"), suite.size());
}

// Each alone has too few points for a tile.
TEST(GpuProducts, ManySmallOnesAreTiles) {
  const ProductCase cases[] = {
      {40, 16, 17, 49, 1, false, true, true},
      {70, 8, 9, 196, 1, true},
      {33, 9, 8, 64, 2},
  };
  Suite suite;
  suite.each = 1;
  uint32_t seed = 980;
  for (const ProductCase& p : cases) {
    for (DType type : kFloats) AddProduct(&suite, p, type, seed++);
  }
  suite.Run();
  EXPECT_EQ(suite.Count(">(m_tile"), suite.size());
}

// Results that lie along M, as images with channels first: neighbouring threads write neighbouring rows.
TEST(GpuProducts, WithResultsAlongMMatchTheReference) {
  Suite suite;
  uint32_t seed = 960;
  for (const auto& [batch, rows, columns, depth, rights] : std::vector<std::array<int64_t, 5>>{
           {1, 300, 64, 128, 1}, {2, 133, 96, 256, 2}, {1, 64, 520, 384, 1}, {1, 1000, 40, 72, 1}}) {
    for (DType type : kFloats) {
      ProductCase p = {batch, rows, columns, depth, static_cast<int>(rights), true};
      p.out_by_rows = true;
      AddProduct(&suite, p, type, seed++);
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count(", 1, 0}>(m_tile") + suite.Count(", 1, 1}>(block") + suite.Count(", 1, 2}>(block"),
            suite.size());
}

// Blocks of results for each thread, whatever A, B and the results are contiguous along.
TEST(GpuProducts, OfAShortKMatchTheReference) {
  const ProductCase cases[] = {
      {2, 20, 96, 3},
      {1, 37, 49, 5, 2, true},
      {3, 33, 64, 1, 1, false, true},
      {1, 300, 11, 12, 1, true, false, true},
      {1, 64, 40, 8, 2, false, false, true, 2},
      {1, 1, 200, 4},
      {4, 3, 3, 2, 1, true},
  };
  Suite suite;
  uint32_t seed = 980;
  for (ProductCase p : cases) {
    for (DType type : kFloats) AddProduct(&suite, p, type, seed++);
    p.out_by_rows = true;
    for (DType type : kFloats) AddProduct(&suite, p, type, seed++);
  }
  suite.configuration.variant = VariantId::kShort;
  suite.Run();
  EXPECT_EQ(suite.Count("float sums["), suite.size());
}

// In f32 a longer K, too: steps of Fourier transforms. A is read in vectors of 4, of 2, or one by one along
// K.
TEST(GpuProducts, OfSmallMatricesInF32MatchTheReference) {
  const ProductCase cases[] = {
      {16, 72, 20, 32, 1, false, false, false, 16},
      {1, 204, 40, 28, 1, true},
      {3, 100, 52, 31},
      {2, 68, 36, 24, 2, false, true},
      {1, 92, 64, 30, 1, false, false, false, 15},
  };
  Suite suite;
  uint32_t seed = 1040;
  for (ProductCase p : cases) {
    AddProduct(&suite, p, DType::kF32, seed++);
    p.out_by_rows = true;
    AddProduct(&suite, p, DType::kF32, seed++);
  }
  suite.configuration.variant = VariantId::kShort;
  suite.Run();
  EXPECT_EQ(suite.Count("float sums["), suite.size());
}

TEST(GpuProducts, OfFewRowsMatchTheReference) {
  Suite suite;
  uint32_t seed = 0;
  const ProductCase cases[] = {
      {1, 1, 64, 128},
      {1, 1, 4096, 1024},
      {1, 1, 200, 520, 2},
      {1, 3, 320, 1024, 1, true},
      {1, 8, 192, 256},
      {1, 16, 136, 384, 1, true},
      {1, 5, 256, 512, 2, false, false, true},
      {1, 2, 96, 640, 1, true, false, true},
      {1, 7, 128, 512, 1, false, false, false, 4},
      {1, 16, 512, 768, 2},
      {1, 1, 63, 128, 1, true},
      {1, 4, 72, 136, 1, false, true},
  };
  for (const ProductCase& p : cases) {
    for (DType type : kFloats) AddProduct(&suite, p, type, seed++);
  }
  suite.Run();
}

TEST(GpuProducts, OfManyRowsMatchTheReference) {
  Suite suite;
  uint32_t seed = 100;
  const ProductCase cases[] = {
      {1, 128, 384, 384},
      {1, 197, 256, 192, 1, true},
      {1, 33, 65, 96},
      {1, 77, 128, 1024, 2},
      {3, 50, 72, 80, 1, true},
      {2, 64, 64, 64, 1, false, true},
      {4, 40, 48, 40, 1, true, true},
      {1, 130, 136, 200, 1, false, false, true},
      {1, 100, 100, 100},
      {1, 48, 64, 2048, 1, true, false, false, 8},
      {1, 512, 512, 256},
      {1, 600, 1032, 128, 2, true},
      {1, 31, 33, 35, 1, true},
  };
  for (const ProductCase& p : cases) {
    for (DType type : kFloats) AddProduct(&suite, p, type, seed++);
  }
  suite.Run();
}

// The same with several tiles a block, as parts of one kernel.
TEST(GpuProducts, EveryTileByTmaMatchesTheReference) {
  const ProductCase cases[] = {
      {1, 150, 200, 328},
      {1, 197, 264, 72, 2, true},
      {1, 70, 136, 200, 2},
      {3, 40, 72, 264, 1, true},
      {1, 200, 96, 512, 1, false, false, false, 4},
      {1, 150, 296, 136, 1, true},
  };
  Result<Driver*> driver = CreateCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DestroyCudaDriver(*driver);
  // Large tiles are tried with only one way of sharing.
  for (const VariantId variant : {VariantId::kTma, VariantId::kPingPong}) {
    const size_t ways = variant == VariantId::kTma ? 6 : 3;
    size_t number = 0;
    for (const KernelConfiguration& choice : TilesOf(variant, TargetOf("sm_90a"))) {
      const size_t tile = number / ways, sharing = number++ % ways;
      if (choice.m + choice.n > 128 && sharing != tile % ways) continue;
      Suite suite;
      suite.configuration = choice;
      uint32_t seed = 500;
      for (const ProductCase& p : cases) {
        // Odd widths are for B along K.
        if (p.right_by_depth || choice.n % 32 == 0) AddProduct(&suite, p, kFloats[seed % 2], seed);
        ++seed;
      }
      suite.Run();
    }
  }
}

// More tiles than blocks, in bands, with the last tiles ragged.
TEST(GpuProducts, OfManyTilesMatchTheReference) {
  for (const char* configuration : {"tma 64x64 1x1x1 cluster 1", "ping_pong 128x128 1x1x1 cluster 1",
                                    "ping_pong 64x192 2x1x1 cluster 2"}) {
    Suite suite;
    suite.each = 1;  // no two cases are alike
    suite.processors = 4;
    uint32_t seed = 600;
    suite.configuration = *ParseKernelConfiguration(configuration);
    for (const ProductCase& p : {ProductCase{1, 400, 328, 328}, ProductCase{2, 264, 200, 64, 2},
                                 ProductCase{1, 400, 328, 64, 1, true}})
      AddProduct(&suite, p, DType::kF16, seed++);
    suite.Run();
  }
}

// Ragged on all sides, so that every tile has parts that do not exist.
TEST(GpuProducts, EveryTileMatchesTheReference) {
  Result<Driver*> driver = CreateCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DestroyCudaDriver(*driver);
  const ProductCase cases[] = {
      {1, 150, 200, 328},
      {1, 130, 264, 136, 1, true},
      {1, 70, 136, 200, 2, true},
      {2, 40, 72, 264, 2},
      {1, 140, 80, 192, 1, true, false, true},
      {1, 45, 72, 328, 1, true, false, true},
      {1, 49, 136, 2400, 1, true, false, true, 2},
  };
  int64_t tile = 0;
  std::vector<KernelConfiguration> tiles = TilesOf(VariantId::kMma, TargetOf("sm_90a"));
  for (const KernelConfiguration& wgmma : TilesOf(VariantId::kWgmma, TargetOf("sm_90a")))
    tiles.push_back(wgmma);
  for (const KernelConfiguration& choice : tiles) {
    Suite suite;
    suite.configuration = choice;
    suite.configuration.cluster = tile++ % 2 + 1;
    uint32_t seed = 400;
    for (const ProductCase& p : cases) {
      AddProduct(&suite, p, kFloats[seed % 2], seed);
      ++seed;
    }
    suite.Run();
  }
}

TEST(GpuProducts, WithFactorsInTf32MatchTheReference) {
  const ProductCase cases[] = {
      {1, 150, 200, 328},
      {2, 40, 72, 264, 2},
      {1, 130, 264, 136, 1, true},
      {1, 70, 136, 200, 2, true},
      {1, 64, 64, 1024, 1, false, true},
      {1, 140, 80, 192, 1, true, false, true},
      {1, 33, 65, 97},
  };
  for (const char* choice : {"", "tf32 128x128", "tf32 128x64 cluster 2", "tf32 64x128",
                             "tf32 64x64 cluster 4", "tf32 32x64", "tf32 32x32"}) {
    Suite suite;
    suite.configuration = *ParseKernelConfiguration(choice);
    uint32_t seed = 500;
    for (ProductCase p : cases) {
      p.tf32 = true;
      AddProduct(&suite, p, DType::kF32, seed++);
    }
    suite.Run();
  }
}

struct ConvolutionCase {
  int64_t batch, groups, out, height, width, in, kernel, step, pad;
  bool channels_last;
};

// Loops: n, g, o, out height and width, c, kernel height and width.
void AddConvolution(Suite* suite, const ConvolutionCase& v, DType type, uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("convolution " + std::to_string(seed) + " " + Name(type));
  PartMaker& maker = c.maker;
  Part& part = maker.part;
  part.skeleton = Skeleton::kConvolution;
  const int64_t oh = (v.height + 2 * v.pad - v.kernel) / v.step + 1,
                ow = (v.width + 2 * v.pad - v.kernel) / v.step + 1;
  maker.loops = {v.batch, v.groups, v.out, oh, ow, v.in, v.kernel, v.kernel};
  part.outer = 1;
  part.m = part.n = 2;
  part.reduced = 3;
  part.lhs = maker.Operand(type, Mode::kRead, {});
  const int64_t channels = v.groups * v.in, row = v.channels_last ? channels * v.width : v.width;
  const int64_t column = v.channels_last ? channels : 1, channel = v.channels_last ? 1 : v.width * v.height;
  std::vector<int64_t> strides = {channels * v.width * v.height, channel * v.in, 0, 0, 0, channel, 0, 0};
  std::vector<Guard> guards = {
      {row, -v.pad, v.height, c.arena.Copy(std::vector<int64_t>{0, 0, 0, v.step, 0, 0, 1, 0})},
      {column, -v.pad, v.width, c.arena.Copy(std::vector<int64_t>{0, 0, 0, 0, v.step, 0, 0, 1})}};
  maker.sizes[part.lhs] = v.batch * strides[0];
  maker.operands[part.lhs].strides = c.arena.Copy(strides);
  maker.operands[part.lhs].guards = c.arena.Copy(guards);
  const std::vector<int> weight =
      v.channels_last ? std::vector<int>{1, 2, 6, 7, 5} : std::vector<int>{1, 2, 5, 6, 7};
  part.rhs = c.arena.Copy(std::vector<uint16_t>{maker.Operand(type, Mode::kRead, weight)});
  const std::vector<int> place =
      v.channels_last ? std::vector<int>{0, 3, 4, 1, 2} : std::vector<int>{0, 1, 2, 3, 4};
  const uint16_t bias = maker.Operand(type, Mode::kRead, {1, 2}),
                 residual = maker.Operand(type, Mode::kRead, place),
                 out = maker.Operand(type, Mode::kWrite, place);
  part.epilogue = Epilogue(maker, 1, type, bias, residual, out);
  c.memory.Randomise(maker, random);
  const double scale = std::sqrt(static_cast<double>(v.in * v.kernel * v.kernel));
  c.tolerance = ToleranceOf(type, scale);
}

// In 16 bits, in f32 and with groups, by the templates that take them.
TEST(GpuProducts, NumbersThatConvolutionsCombineMatchTheReference) {
  Suite suite;
  uint32_t seed = 260;
  const ConvolutionCase cases[] = {{1, 1, 64, 14, 14, 64, 3, 1, 1, true},
                                   {1, 1, 24, 9, 9, 40, 1, 1, 0, true},
                                   {1, 6, 4, 13, 11, 4, 3, 2, 1, true}};
  for (const ConvolutionCase& v : cases) {
    for (DType type : kFloats) {
      AddConvolution(&suite, v, type, seed++);
      CombineWhatIsMade(&suite.Last());
    }
  }
  suite.Run();
}

TEST(GpuProducts, ConvolutionsMatchTheReference) {
  Suite suite;
  uint32_t seed = 200;
  const ConvolutionCase cases[] = {
      {1, 1, 64, 14, 14, 64, 3, 1, 1, true},   {2, 1, 32, 15, 13, 16, 3, 2, 1, true},
      {1, 1, 64, 20, 20, 3, 7, 2, 3, false},   {1, 1, 24, 9, 9, 40, 1, 1, 0, true},
      {1, 2, 16, 12, 12, 8, 3, 1, 1, true},    {1, 1, 48, 28, 28, 32, 1, 2, 0, false},
      {1, 1, 16, 32, 32, 3, 16, 16, 0, false}, {1, 5, 1, 10, 10, 1, 3, 1, 1, true},
      {1, 6, 4, 13, 11, 4, 3, 2, 1, true},     {2, 9, 8, 10, 7, 8, 3, 1, 1, true},
  };
  for (const ConvolutionCase& v : cases) {
    for (DType type : kFloats) AddConvolution(&suite, v, type, seed++);
  }
  suite.Run();
}

// As matmuls of a short K: images of one channel, windows of few pixels.
TEST(GpuProducts, ConvolutionsOfAShortKMatchTheReference) {
  Suite suite;
  uint32_t seed = 260;
  const ConvolutionCase cases[] = {{2, 1, 24, 16, 16, 1, 3, 1, 1, false},
                                   {1, 1, 9, 13, 11, 1, 3, 2, 1, false},
                                   {2, 1, 32, 12, 10, 3, 2, 2, 0, true},
                                   {1, 1, 64, 9, 9, 5, 1, 1, 1, false}};
  suite.configuration.variant = VariantId::kShort;
  for (const ConvolutionCase& v : cases) {
    for (DType type : kFloats) AddConvolution(&suite, v, type, seed++);
  }
  suite.Run();
  EXPECT_EQ(suite.Count("float sums[1]["), suite.size());
}

TEST(GpuProducts, ConvolutionsOfFewPointsAndALongKAreTiles) {
  Suite suite;
  uint32_t seed = 280;
  const ConvolutionCase cases[] = {{1, 1, 24, 7, 7, 190, 4, 3, 0, false},
                                   {1, 1, 3, 11, 14, 64, 9, 3, 0, false},
                                   {2, 2, 2, 5, 5, 40, 3, 3, 1, true}};
  for (const ConvolutionCase& v : cases) {
    for (DType type : kFloats) AddConvolution(&suite, v, type, seed++);
  }
  suite.Run();
  EXPECT_EQ(suite.Count(">(m_tile"), suite.size());
}

// y[heads, index[row], features] = x[row, heads, features], rows in order: the last row of equal index wins.
void AddCollisions(Suite* suite, int64_t rows, int64_t heads, int64_t features, int64_t places,
                   uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("colliding rows " + std::to_string(seed));
  PartMaker& maker = c.maker;
  maker.loops = {rows, heads, features};
  maker.part.outer = 3;
  maker.part.sequential = true;
  const uint16_t x = maker.Operand(DType::kF16, Mode::kRead, {0, 1, 2}),
                 index = maker.Operand(DType::kI64, Mode::kRead, {0}),
                 y = maker.Operand(DType::kF16, Mode::kWrite, {0, 1, 2});
  maker.operands[y].strides = c.arena.Copy(std::vector<int64_t>{0, places * features, 1});
  maker.sizes[y] = heads * places * features;
  Span<Indirect> indirects = c.arena.New<Indirect>(1);
  indirects[0] = {index, false, true, features, places};
  maker.operands[y].indirects = indirects;
  TapeMaker body;
  body.Store(y, DType::kF16, body.Load(x, DType::kF16));
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; i < rows; ++i) {
    scalar::Store<int64_t>(DType::kI64, c.memory.params[index].data(), i, Between(random, 0, places - 1));
  }
}

TEST(GpuProducts, WritesThatMeetKeepTheirOrder) {
  Suite suite;
  AddCollisions(&suite, 40, 3, 64, 8, 300);
  AddCollisions(&suite, 300, 1, 128, 5, 301);
  suite.Run();
}

}  // namespace
}  // namespace rondo::test
