// Generated matmuls and convolutions of FP8 against the reference: every tile, both types, all numbers.
#include <cmath>

#include "compiler/codegen/cuda/kernel_candidates.h"
#include "tests/cuda/gpu_suite.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

constexpr DType kTypes[] = {DType::kE4M3, DType::kE5M2};

struct Fp8Case {
  int64_t batch, rows, columns, depth;
  int rights = 1;
  bool left_along_k = true, right_along_k = true;
};

// Stores sums as f32 and, unless `narrow` is kNoOperand, scaled and quantised.
Tape Epilogue(PartMaker& maker, size_t rights, uint16_t scale, uint16_t wide, uint16_t narrow, DType type) {
  TapeMaker tape;
  uint16_t sum = tape.Add(TapeOp::kAcc, TapeType::kF32, 0);
  for (uint16_t j = 1; j < rights; ++j)
    sum = tape.Binary(TapeOp::kSub, sum, tape.Add(TapeOp::kAcc, TapeType::kF32, j));
  tape.Store(wide, DType::kF32, sum);
  if (narrow == kNoOperand) return maker.Keep(tape);
  const uint16_t x = tape.Binary(TapeOp::kMul, sum, tape.Load(scale, DType::kF32));
  tape.Store(narrow, type, x);
  return maker.Keep(tape);
}

// Fills with multiples of 1/4 up to 2, whose products sum exactly in any order; or, with `any`, with all
// codes.
void Fill(Case* c, Random& random, bool any) {
  c->memory.Randomise(c->maker, random);
  for (size_t p = 0; p < c->memory.params.size(); ++p) {
    const DType type = c->maker.dtypes[p];
    if (!IsFp8(type)) continue;
    for (char& byte : c->memory.params[p]) {
      const auto number = static_cast<float>(Between(random, -4, 4)) / 4;
      const uint8_t code = type == DType::kE4M3 ? FloatToE4M3(number) : FloatToE5M2(number);
      byte = static_cast<char>(any ? Between(random, 0, 255) : code);
    }
  }
}

Part& Begin(Case* c, Skeleton skeleton) {
  Part& part = c->maker.part;
  part.skeleton = skeleton;
  part.acc_type = TapeType::kF32;
  // The scaled result is rounded from the same sum.
  c->tolerance = {1e-6, 1e-6};
  return part;
}

void AddProduct(Suite* suite, const Fp8Case& p, uint32_t seed, bool any = false) {
  Random random(seed);
  Case& c = suite->Add("fp8 " + std::to_string(seed));
  PartMaker& maker = c.maker;
  Part& part = Begin(&c, Skeleton::kMatMul);
  maker.loops = {p.batch, p.rows, p.columns, p.depth};
  part.outer = part.m = part.n = part.reduced = 1;
  const DType left = kTypes[seed % 2], right = kTypes[seed / 2 % 2];
  part.lhs = maker.Operand(left, Mode::kRead,
                           p.left_along_k ? std::vector<int>{0, 1, 3} : std::vector<int>{0, 3, 1});
  std::vector<uint16_t> rhs;
  for (int j = 0; j < p.rights; ++j) {
    rhs.push_back(maker.Operand(right, Mode::kRead,
                                p.right_along_k ? std::vector<int>{0, 2, 3} : std::vector<int>{0, 3, 2}));
  }
  part.rhs = c.arena.Copy(rhs);
  const uint16_t scale = maker.Operand(DType::kF32, Mode::kRead, {2}),
                 wide = maker.Operand(DType::kF32, Mode::kWrite, {0, 1, 2}),
                 narrow = any ? kNoOperand : maker.Operand(left, Mode::kWrite, {0, 1, 2});
  part.epilogue = Epilogue(maker, rhs.size(), scale, wide, narrow, left);
  Fill(&c, random, any);
}

const Fp8Case kCases[] = {
    {1, 150, 200, 336},   {1, 130, 264, 144}, {2, 40, 72, 272},
    {1, 70, 136, 208, 2}, {1, 17, 64, 512},   {1, 49, 136, 2400},
};

// Every `step`th tile that is narrow enough for FP8.
void RunTiles(VariantId family, const std::string& words, const std::vector<Fp8Case>& cases,
              size_t step = 1) {
  Result<Driver*> driver = CreateCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DestroyCudaDriver(*driver);
  std::vector<KernelConfiguration> tiles = TilesOf(family, TargetOf("sm_90a"));
  ASSERT_FALSE(tiles.empty());
  uint32_t seed = 0;
  std::erase_if(tiles, [](const KernelConfiguration& tile) { return tile.n > 160; });
  for (size_t t = 0; t < tiles.size(); t += step) {
    const KernelConfiguration& tile = tiles[t];
    Suite suite;
    suite.configuration = tile;
    if (tile.cluster == 0) suite.configuration.cluster = int64_t{1} << (t % 3);
    for (const Fp8Case& p : cases) AddProduct(&suite, p, seed++);
    suite.Run();
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_GT(suite.Count(words), 0u) << Text(tile);
  }
}

TEST(GpuFp8, EveryTileByMmaMatchesTheReference) {
  std::vector<Fp8Case> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), {{1, 1, 64, 512},
                             {1, 33, 65, 97},
                             {1, 60, 40, 80, 1, false, true},
                             {3, 32, 48, 64, 1, true, false},
                             {1, 49, 136, 480, 3}});
  RunTiles(VariantId::kImma, "Fp8Bytes<", cases);
}

// Streamed by 4 and 8 warps and by all cluster sizes.
TEST(GpuFp8, FewRowsMatchTheReference) {
  uint32_t seed = 300;
  for (const int64_t warps : {4, 8}) {
    for (const int64_t cluster : {1, 2, 4, 8}) {
      Suite suite;
      suite.configuration.variant = VariantId::kFewRows;
      suite.configuration.warps = warps;
      suite.configuration.cluster = cluster;
      const int64_t depth = warps * 512 + 16 * cluster;
      for (const Fp8Case& p : {Fp8Case{1, 1, 136, depth}, Fp8Case{1, 11, 72, depth, 2}})
        AddProduct(&suite, p, seed++);
      suite.Run();
      if (testing::Test::HasFatalFailure()) return;
      EXPECT_EQ(suite.Count("matmul_few_rows_bytes<"), suite.size()) << Text(suite.configuration);
    }
  }
}

TEST(GpuFp8, EveryTileByWgmmaMatchesTheReference) {
  RunTiles(VariantId::kWgmmaFp8, "matmul_wgmma_fp8<", {std::begin(kCases), std::end(kCases)});
}

TEST(GpuFp8, TilesByTmaMatchTheReference) {
  // All kinds of clusters, tile N and warpgroups.
  RunTiles(VariantId::kTma, "matmul_tma<", {std::begin(kCases), std::end(kCases)}, 7);
}

// NaN and the infinities of E5M2 reach the result, whichever unit multiplies. Sums of all codes are right up
// to the units' rounding. Types and layouts that no family takes are computed too.
TEST(GpuFp8, EveryCodeIsMultiplied) {
  Suite suite;
  uint32_t seed = 1000;
  for (const Fp8Case& p : {Fp8Case{1, 64, 128, 256}, Fp8Case{1, 16, 128, 1024}, Fp8Case{1, 3, 5, 7},
                           Fp8Case{1, 4, 4, 300, 1, false, false}}) {
    for (int types = 0; types < 4; ++types, ++seed) {
      AddProduct(&suite, p, seed, true);
      Case& c = suite.Last();
      double most = 1;
      for (size_t param = 0; param < 2; ++param) {
        const bool e5m2 = c.maker.dtypes[param] == DType::kE5M2;
        most *= e5m2 ? 57344 : 448;
        std::vector<char>& bytes = c.memory.params[param];
        for (size_t i = 0; i < bytes.size(); ++i) {  // only a few NaN, because one spoils a whole row
          const int rest = bytes[i] & 0x7f;
          if (rest >= (e5m2 ? 0x7c : 0x7f) && i % 1021 != 5) bytes[i] = 0x30;
        }
        if (seed % 2 == 0) bytes[bytes.size() / 2] = static_cast<char>(e5m2 ? 0xfc : 0x7f);
      }
      c.tolerance = {1e-3, most / 1024};
      c.canaries = false;
    }
  }
  suite.Run();
}

// The relative error in norm of sums of random numbers.
double ErrorOf(const Fp8Case& p, const Memory& given, const Memory& got) {
  double error = 0, size = 0;
  const auto at = [](const std::vector<char>& memory, int64_t i) {
    return double{E4M3ToFloat(static_cast<uint8_t>(memory[static_cast<size_t>(i)]))};
  };
  for (int64_t m = 0; m < p.rows; ++m) {
    for (int64_t n = 0; n < p.columns; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < p.depth; ++k)
        sum += at(given.params[0], m * p.depth + k) * at(given.params[1], n * p.depth + k);
      const double is = scalar::Load<double>(DType::kF32, got.params.back().data(), m * p.columns + n);
      error += (is - sum) * (is - sum);
      size += sum * sum;
    }
  }
  return std::sqrt(error / size);
}

// mma.sync sums as exactly as f32. wgmma's units drop bits far below the largest of the numbers that they
// add, so its error is that of rounding every 128 of K.
TEST(GpuFp8, SumsAreAsExactAsTheUnits) {
  for (const VariantId family :
       {VariantId::kImma, VariantId::kFewRows, VariantId::kWgmmaFp8, VariantId::kTma}) {
    const bool by_mma = family == VariantId::kImma || family == VariantId::kFewRows;
    Suite suite;
    suite.configuration.variant = family;
    uint32_t seed = 2000;
    for (const int64_t depth : {256, 1024, 4096}) {
      const Fp8Case p = {1, family == VariantId::kFewRows ? 16 : 64, 128, depth};
      AddProduct(&suite, p, seed, true);
      Case& c = suite.Last();
      Random random(seed);
      seed += 4;
      std::normal_distribution<float> numbers(0, 50);
      for (size_t param = 0; param < 2; ++param) {
        for (char& byte : c.memory.params[param]) byte = static_cast<char>(FloatToE4M3(numbers(random)));
      }
      c.difference = [p, family, by_mma, &c](const Memory& got) -> std::string {
        const double error = ErrorOf(p, c.memory, got), most = by_mma ? 1e-6 : 3e-4;
        std::printf("family %d, K of %lld: relative error %.2e\n", static_cast<int>(family),
                    static_cast<long long>(p.depth), error);
        return error <= most ? "" : "relative error " + std::to_string(error);
      };
      c.canaries = false;
    }
    suite.Run();
  }
}

// Loops: n, g, o, out height and width, c, kernel height and width.
void AddConvolution(Suite* suite, int64_t channels, int64_t outputs, int64_t size, int64_t kernel,
                    int64_t step, uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("convolution of fp8 " + std::to_string(seed));
  PartMaker& maker = c.maker;
  Part& part = Begin(&c, Skeleton::kConvolution);
  const int64_t pad = kernel / 2, out = (size + 2 * pad - kernel) / step + 1;
  maker.loops = {2, 1, outputs, out, out, channels, kernel, kernel};
  part.outer = 1;
  part.m = part.n = 2;
  part.reduced = 3;
  const DType left = kTypes[seed % 2];
  part.lhs = maker.Operand(left, Mode::kRead, {});
  maker.sizes[part.lhs] = 2 * size * size * channels;
  maker.operands[part.lhs].strides =
      c.arena.Copy(std::vector<int64_t>{size * size * channels, 0, 0, 0, 0, 1, 0, 0});
  maker.operands[part.lhs].guards = c.arena.Copy(std::vector<Guard>{
      {size * channels, -pad, size, c.arena.Copy(std::vector<int64_t>{0, 0, 0, step, 0, 0, 1, 0})},
      {channels, -pad, size, c.arena.Copy(std::vector<int64_t>{0, 0, 0, 0, step, 0, 0, 1})}});
  part.rhs =
      c.arena.Copy(std::vector<uint16_t>{maker.Operand(kTypes[seed / 2 % 2], Mode::kRead, {1, 2, 6, 7, 5})});
  const uint16_t scale = maker.Operand(DType::kF32, Mode::kRead, {2}),
                 wide = maker.Operand(DType::kF32, Mode::kWrite, {0, 3, 4, 1, 2}),
                 narrow = maker.Operand(left, Mode::kWrite, {0, 3, 4, 1, 2});
  part.epilogue = Epilogue(maker, 1, scale, wide, narrow, left);
  Fill(&c, random, false);
}

TEST(GpuFp8, ConvolutionsMatchTheReference) {
  for (const VariantId family : {VariantId::kImma, VariantId::kWgmmaFp8}) {
    Suite suite;
    suite.configuration.variant = family;
    uint32_t seed = 0;
    for (const int64_t channels : {3, 4, 16, 64}) {
      for (const int64_t step : {1, 2}) AddConvolution(&suite, channels, 40, 9, 3, step, seed++);
    }
    AddConvolution(&suite, 32, 48, 8, 1, 1, seed++);
    suite.Run();
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_GT(suite.Count(family == VariantId::kImma ? "Fp8Bytes<" : "matmul_wgmma_fp8<"), 4u);
  }
}

}  // namespace
}  // namespace rondo::test
