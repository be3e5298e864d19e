// Generated matmuls and convolutions of 8-bit integers against the reference: every tile, all signs.
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "tests/cuda/gpu_suite.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

constexpr DType kBytes[] = {DType::kU8, DType::kI8};

struct BytesCase {
  int64_t batch, rows, columns, depth;
  int rights = 1;
  bool left_along_k = true, right_along_k = true;
  bool adds_up = false;  // one more B is a single number: it gives the sums of A's rows times that number
};

// `rights` with one more operand, which is a single number.
std::vector<uint16_t> WithNumber(PartMaker& maker, std::vector<uint16_t> rights, uint32_t seed) {
  const DType dtype = maker.dtypes[rights[0]];
  rights.insert(rights.begin() + (seed / 4) % 2, maker.Operand(dtype, Mode::kRead, {}));
  return rights;
}

// Stores the sum as i32, and quantised to i8 after half a correction for each column.
Tape Epilogue(PartMaker& maker, size_t rights, uint16_t correction, uint16_t whole, uint16_t narrow) {
  TapeMaker tape;
  uint16_t sum = tape.Add(TapeOp::kAcc, TapeType::kI64, 0);
  for (uint16_t j = 1; j < rights; ++j)
    sum = tape.Binary(TapeOp::kSub, sum, tape.Add(TapeOp::kAcc, TapeType::kI64, j));
  sum = tape.Binary(TapeOp::kSub, sum, tape.Load(correction, DType::kI32));
  tape.Store(whole, DType::kI32, sum);
  uint16_t x = tape.Cast(sum, TapeType::kF32, DType::kF32);
  x = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kMul, x, tape.Const(1.0f / 1024)));
  x = tape.Binary(TapeOp::kMin, tape.Binary(TapeOp::kMax, x, tape.Const(-128)), tape.Const(127));
  tape.Store(narrow, DType::kI8, x);
  return maker.Keep(tape);
}

// Fills with all byte values.
void Fill(Case* c, Random& random) {
  c->memory.Randomise(c->maker, random);
  for (size_t p = 0; p < c->memory.params.size(); ++p) {
    if (ByteSize(c->maker.dtypes[p]) != 1) continue;
    for (char& byte : c->memory.params[p]) byte = static_cast<char>(Between(random, 0, 255));
  }
}

void AddProduct(Suite* suite, const BytesCase& p, uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("bytes " + std::to_string(seed));
  PartMaker& maker = c.maker;
  Part& part = maker.part;
  part.skeleton = Skeleton::kMatMul;
  part.acc_type = TapeType::kI64;
  maker.loops = {p.batch, p.rows, p.columns, p.depth};
  part.outer = part.m = part.n = part.reduced = 1;
  part.lhs = maker.Operand(kBytes[seed % 2], Mode::kRead,
                           p.left_along_k ? std::vector<int>{0, 1, 3} : std::vector<int>{0, 3, 1});
  std::vector<uint16_t> rhs;
  for (int j = 0; j < p.rights; ++j) {
    rhs.push_back(maker.Operand(kBytes[seed / 2 % 2], Mode::kRead,
                                p.right_along_k ? std::vector<int>{0, 2, 3} : std::vector<int>{0, 3, 2}));
  }
  if (p.adds_up) rhs = WithNumber(maker, rhs, seed);
  part.rhs = c.arena.Copy(rhs);
  const uint16_t correction = maker.Operand(DType::kI32, Mode::kRead, {2}),
                 whole = maker.Operand(DType::kI32, Mode::kWrite, {0, 1, 2}),
                 narrow = maker.Operand(DType::kI8, Mode::kWrite, {0, 1, 2});
  part.epilogue = Epilogue(maker, rhs.size(), correction, whole, narrow);
  Fill(&c, random);
}

TEST(GpuBytes, EveryTileMatchesTheReference) {
  Result<Driver*> driver = CreateCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DestroyCudaDriver(*driver);
  const BytesCase cases[] = {
      {1, 150, 200, 336},
      {1, 130, 264, 144},
      {2, 40, 72, 272},
      {1, 70, 136, 200, 2},
      {1, 1, 64, 512},
      {1, 49, 136, 2400, 3},
      {1, 33, 65, 97, 1, true},
      {1, 60, 40, 80, 1, false, true},
      {3, 32, 48, 64, 1, true, false},
      {1, 150, 72, 336, 1, true, true, true},
      {2, 70, 136, 200, 2, true, true, true},
  };
  std::vector<KernelConfiguration> tiles = TilesOf(VariantId::kImma, TargetOf("sm_90a"));
  ASSERT_FALSE(tiles.empty());
  uint32_t seed = 0;
  for (const KernelConfiguration& tile : tiles) {
    Suite suite;
    suite.configuration = tile;
    suite.configuration.cluster = int64_t{1} << (&tile - tiles.data()) % 3;  // number of blocks that split K
    for (const BytesCase& p : cases) AddProduct(&suite, p, seed++);
    suite.Run();
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_EQ(suite.Count("matmul_imma<"), std::size(cases)) << Text(tile);
  }
}

// Streamed by 4 and 8 warps and by all cluster sizes, with ragged ends of M, N and K.
TEST(GpuBytes, FewRowsMatchTheReference) {
  uint32_t seed = 200;
  for (const int64_t warps : {4, 8}) {
    for (const int64_t cluster : {1, 2, 4, 8}) {
      Suite suite;
      suite.configuration.variant = VariantId::kFewRows;
      suite.configuration.warps = warps;
      suite.configuration.cluster = cluster;
      const int64_t depth = warps * 512 + 16 * cluster;
      const BytesCase cases[] = {{1, 1, 130, depth, 1, true, true, true},
                                 {1, 16, 65, depth, 2},
                                 {1, 11, 72, depth, 2, true, true, true}};
      for (const BytesCase& p : cases) AddProduct(&suite, p, seed++);
      // A short K that no cluster splits.
      if (cluster == 1) AddProduct(&suite, {1, 7, 80, 272, 1, true, true, true}, seed++);
      suite.Run();
      if (testing::Test::HasFatalFailure()) return;
      EXPECT_EQ(suite.Count("matmul_few_rows_bytes<"), suite.size()) << Text(suite.configuration);
    }
  }
}

// The padding is a byte other than 0. Loops: n, g, o, out height and width, kernel height and width, c.
void AddConvolution(Suite* suite, int64_t channels, int64_t size, int64_t kernel, int64_t step, uint32_t seed,
                    bool adds_up = false) {
  Random random(seed);
  Case& c = suite->Add("convolution of bytes " + std::to_string(seed));
  PartMaker& maker = c.maker;
  Part& part = maker.part;
  part.skeleton = Skeleton::kConvolution;
  part.acc_type = TapeType::kI64;
  const int64_t pad = kernel / 2, out = (size + 2 * pad - kernel) / step + 1;
  maker.loops = {2, 1, 40, out, out, channels, kernel, kernel};
  part.outer = 1;
  part.m = part.n = 2;
  part.reduced = 3;
  part.lhs = maker.Operand(kBytes[seed % 2], Mode::kRead, {});
  maker.sizes[part.lhs] = 2 * size * size * channels;
  maker.operands[part.lhs].absent = seed % 2 == 0 ? 200 : -3;
  maker.operands[part.lhs].strides =
      c.arena.Copy(std::vector<int64_t>{size * size * channels, 0, 0, 0, 0, 1, 0, 0});
  maker.operands[part.lhs].guards = c.arena.Copy(std::vector<Guard>{
      {size * channels, -pad, size, c.arena.Copy(std::vector<int64_t>{0, 0, 0, step, 0, 0, 1, 0})},
      {channels, -pad, size, c.arena.Copy(std::vector<int64_t>{0, 0, 0, 0, step, 0, 0, 1})}});
  std::vector<uint16_t> rhs = {maker.Operand(kBytes[seed / 2 % 2], Mode::kRead, {1, 2, 6, 7, 5})};
  if (adds_up) rhs = WithNumber(maker, rhs, seed);
  part.rhs = c.arena.Copy(rhs);
  const uint16_t correction = maker.Operand(DType::kI32, Mode::kRead, {2}),
                 whole = maker.Operand(DType::kI32, Mode::kWrite, {0, 3, 4, 1, 2}),
                 narrow = maker.Operand(DType::kI8, Mode::kWrite, {0, 3, 4, 1, 2});
  part.epilogue = Epilogue(maker, rhs.size(), correction, whole, narrow);
  Fill(&c, random);
}

TEST(GpuBytes, ConvolutionsMatchTheReference) {
  Suite suite;
  uint32_t seed = 0;
  for (const int64_t channels : {3, 4, 16, 64}) {
    AddConvolution(&suite, channels, 20, 3, 1, seed++);
    AddConvolution(&suite, channels, 15, 3, 2, seed++);
    AddConvolution(&suite, channels, 14, 1, 2, seed++);
  }
  AddConvolution(&suite, 3, 33, 7, 2, seed++);
  for (int order = 0; order < 2; ++order, seed += 3) {
    AddConvolution(&suite, 16, 15, 3, 2, seed, true);
    AddConvolution(&suite, 64, 9, 1, 1, seed + 1, true);
  }
  suite.Run();
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(suite.Count("matmul_imma<"), suite.size());
}

// The variant with one thread a point takes every case that the other variants do not.
TEST(GpuBytes, ConvolutionsOfAThreadAPointMatchTheReference) {
  Suite suite;
  suite.configuration.variant = VariantId::kPlain;
  for (uint32_t seed = 90; seed < 94; ++seed) AddConvolution(&suite, 4, 7, 3, 1 + seed % 2, seed);
  suite.Run();
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(suite.Count("op_mul(x, "), suite.size());
}

TEST(GpuBytes, NumbersThatConvolutionsCombineMatchTheReference) {
  Suite suite;
  AddConvolution(&suite, 16, 20, 3, 1, 80);
  CombineWhatIsMade(&suite.Last());
  AddConvolution(&suite, 64, 9, 1, 1, 81, true);
  CombineWhatIsMade(&suite.Last());
  suite.Run();
}

}  // namespace
}  // namespace rondo::test
