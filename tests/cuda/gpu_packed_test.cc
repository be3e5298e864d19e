// Matmuls by packed weights against the reference (gpu_suite.h), in every configuration.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/kernel_candidates.h"
#include "tests/cuda/gpu_suite.h"
#include "tests/host/packed_part.h"
#include "tests/how_many.h"

namespace rondo::test {
namespace {

struct PackedCase {
  int64_t rows, outer, inner, depth;  // N is outer * inner
  PackedType type;
  int64_t block;
  DType dtype = DType::kF16, scale = DType::kF16;
  bool zeros = false;
  int64_t rights = 1;
  DType left = dtype;
  bool addend = false;  // in `dtype`, one element a result
};

void Fill(PartMaker& maker, const PackedCase& p) {
  const PackedWeights packed = {p.type, p.dtype, p.block, p.type <= PackedType::kU8 ? 3 : 0};
  const PackedShape shape = BeginPacked(maker, {p.rows, p.outer, p.inner, p.depth}, packed);
  maker.part.lhs = maker.Operand(p.left, Mode::kRead, {0, 3});
  AddPacked(maker, shape, p.rights, p.scale, p.zeros);
  const uint16_t addend = p.addend ? maker.Operand(p.dtype, Mode::kRead, {0, 1, 2}) : uint16_t{0};
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1, 2});
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kF32, 0);
  if (p.rights == 2) x = tape.Binary(TapeOp::kAdd, x, tape.Add(TapeOp::kAcc, TapeType::kF32, 1));
  if (p.addend) x = tape.Binary(TapeOp::kAdd, x, tape.Load(addend, p.dtype));
  tape.Store(out, DType::kF32, x);
  maker.part.epilogue = maker.Keep(tape);
}

void Add(Suite* suite, const PackedCase& p, uint32_t seed) {
  Case& c = suite->Add("packed " + std::to_string(seed) + ": " + Name(p.type) + " of " + Name(p.dtype));
  Fill(c.maker, p);
  Random random(seed);
  c.memory.Randomise(c.maker, random);
  for (uint16_t codes : c.maker.part.rhs) {
    for (char& byte : c.memory.params[c.maker.operands[codes].param]) {
      // FP8 codes with the lower half of the exponents; integer codes that zero points make positive and
      // negative.
      byte = static_cast<char>(random() &
                               (p.type == PackedType::kE4M3 || p.type == PackedType::kE5M2 ? 0xbf : 0xff));
    }
  }
  for (uint16_t points : c.maker.part.zeros) {  // integers, as in plans
    std::vector<char>& memory = c.memory.params[c.maker.operands[points].param];
    const auto count = static_cast<int64_t>(memory.size()) / ByteSize(p.scale);
    for (int64_t i = 0; i < count; ++i)
      scalar::Store<double>(p.scale, memory.data(), i, static_cast<double>(random() % 4));
  }
  const double most = p.type == PackedType::kU8 ? 512 : p.type == PackedType::kU4 ? 32 : 8;
  c.tolerance = {2e-3, 1e-4 * most * std::sqrt(static_cast<double>(p.depth))};
  c.canaries = false;  // random codes give small numbers
}

// Like Add, with numbers whose products and sums are exact in f32, and whose weights are exact in f16 and
// bf16. So the result is the same to the last bits wherever it is rounded.
void AddExact(Suite* suite, const PackedCase& p, uint32_t seed) {
  Add(suite, p, seed);
  Case& c = suite->Last();
  Random random(seed);
  const auto fill = [&](uint16_t index, DType dtype, auto draw) {
    std::vector<char>& memory = c.memory.params[c.maker.operands[index].param];
    const auto count = static_cast<int64_t>(memory.size()) / ByteSize(dtype);
    for (int64_t i = 0; i < count; ++i) scalar::Store<double>(dtype, memory.data(), i, draw());
  };
  fill(c.maker.part.lhs, p.left, [&] { return static_cast<double>(random() % 5) - 2; });
  for (uint16_t scales : c.maker.part.scales)
    fill(scales, p.scale, [&] { return std::ldexp(1.0, static_cast<int>(random() % 3) - 1); });
  c.tolerance = {1e-6, 1e-3};
}

constexpr PackedType kTypes[] = {PackedType::kU2,   PackedType::kU4,   PackedType::kU8,
                                 PackedType::kE4M3, PackedType::kE5M2, PackedType::kE2M1};

// Adds cases_of(type, dtype, whole) for every type of weights and both types of A, each with its own seed.
// With RONDO_PACKED_SHAPES=N each pair of types takes only N of the shapes, beginning one shape later than
// the pair before, so that every shape is taken by some pair.
void AddOfEveryType(Suite* suite, void (*add)(Suite*, const PackedCase&, uint32_t), uint32_t seed,
                    std::vector<PackedCase> (*cases_of)(PackedType type, DType dtype, bool whole)) {
  size_t first = 0;
  for (PackedType type : kTypes) {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      const std::vector<PackedCase> cases = cases_of(type, dtype, type <= PackedType::kU8);
      const int all = static_cast<int>(cases.size());
      for (int k = 0; k < std::min(HowMany("RONDO_PACKED_SHAPES", all), all); ++k) {
        const size_t taken = (first + static_cast<size_t>(k)) % cases.size();
        add(suite, cases[taken], seed + static_cast<uint32_t>(taken));
      }
      seed += static_cast<uint32_t>(all);
      ++first;
    }
  }
}

TEST(GpuPacked, EveryTypeMatchesTheReference) {
  Suite suite;
  AddOfEveryType(&suite, Add, 1, [](PackedType type, DType dtype, bool whole) -> std::vector<PackedCase> {
    return {{1, 2, 64, 512, type, 32, dtype, dtype},
            {5, 3, 17, 296, type, 128, dtype, DType::kF32, whole, 1, dtype, true},
            {16, 1, 80, 1024, type, int64_t{1} << 20, dtype, dtype, false, 2, dtype, true},
            {2, 1, 48, 272, type, 16, dtype, DType::kBF16, whole},
            {2, 1, 40, 1000, type, 64, dtype, dtype, false, 2},
            {3, 2, 32, 328, type, 32, dtype, dtype, whole},
            {4, 1, 96, 2048, type, int64_t{1} << 20, dtype, DType::kF32, false, 1, dtype, true}};
  });
  suite.Run();
}

TEST(GpuPacked, EveryConfigurationMatchesTheReference) {
  for (const char* choice :
       {"packed 5x4 warps 8 cluster 1", "packed 6x2 warps 8 cluster 1", "packed 5x4 warps 4 cluster 1",
        "packed 5x2 16 warps 8 cluster 1", "packed 5x2 16 warps 16 cluster 1", "packed 4x4 warps 8 cluster 1",
        "packed 6x2 warps 8 cluster 2", "packed 6x2 warps 8 cluster 4", "packed 4x2 warps 4 cluster 4",
        "packed 3x2 16 warps 8 cluster 1", "packed 3x1 16 warps 16 cluster 1",
        "packed 4x1 16 warps 2 cluster 1", "packed 3x2 16 warps 4 cluster 4", "packed 4x2 warps 2 cluster 8",
        "packed 4x2 warps 4 cluster 1", "plain"}) {
    Suite suite;
    suite.configuration = *ParseKernelConfiguration(choice);
    SCOPED_TRACE(choice);
    Add(&suite, {3, 1, 512, 4096, PackedType::kU4, 32, DType::kBF16, DType::kBF16}, 100);
    Add(&suite, {1, 1, 200, 4000, PackedType::kU4, 64, DType::kF16, DType::kF16, true, 2}, 101);
    Add(&suite, {16, 1, 64, 2048, PackedType::kE4M3, int64_t{1} << 20, DType::kBF16, DType::kBF16}, 102);
    Add(&suite,
        {13, 1, 272, 4096, PackedType::kU4, 32, DType::kBF16, DType::kBF16, true, 2, DType::kBF16, true},
        103);
    Add(&suite, {1, 1, 256, 2048, PackedType::kU4, 16, DType::kBF16, DType::kF32, true}, 104);
    suite.Run();
  }
}

// The configuration that the compiler chooses for such a matmul in bf16 without measurements.
KernelConfiguration ChosenFor(int64_t rows, int64_t n, int64_t k, int64_t rights,
                              PackedType type = PackedType::kU4, int64_t block = 32) {
  Arena arena;
  PartMaker maker(&arena);
  Fill(maker, {rows, 1, n, k, type, block, DType::kBF16, DType::kBF16, false, rights});
  const Kernel kernel = maker.Make();
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, true});
  const Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
  EXPECT_TRUE(text.ok());
  return text.ok() ? text->configuration : KernelConfiguration{};
}

TEST(GpuPacked, BlocksAreWideWhereThatLeavesNoMultiprocessorIdle) {
  const auto wide = [](int64_t n, int64_t k, int64_t rights, int64_t rows = 1) {
    return ChosenFor(rows, n, k, rights).warps_m == 16;
  };
  EXPECT_TRUE(wide(4096, 4096, 1));
  EXPECT_FALSE(wide(2048, 2048, 1));
  EXPECT_TRUE(wide(4096, 14336, 1));
  EXPECT_FALSE(wide(2048, 8192, 1));
  EXPECT_TRUE(wide(14336, 4096, 2));
  EXPECT_FALSE(wide(1024, 4096, 2));
  EXPECT_TRUE(wide(4096, 4096, 1, 4));
  EXPECT_FALSE(wide(1024, 4096, 1, 4));
}

TEST(GpuPacked, Fp8IsSplitAsOtherBytesAre) {
  constexpr int64_t kByColumn = int64_t{1} << 20;
  for (int64_t rows : {1, 4}) {
    for (const auto& [n, k, rights] :
         {std::array<int64_t, 3>{4096, 4096, 1}, {4096, 14336, 1}, {6144, 4096, 1}, {14336, 4096, 2}}) {
      EXPECT_EQ(Text(ChosenFor(rows, n, k, rights, PackedType::kE4M3, kByColumn)),
                Text(ChosenFor(rows, n, k, rights, PackedType::kU8, kByColumn)))
          << rows << " x " << n << " x " << k;
    }
  }
}

TEST(GpuPackedTiles, EveryTypeMatchesTheReference) {
  Suite suite;
  AddOfEveryType(&suite, AddExact, 200,
                 [](PackedType type, DType dtype, bool whole) -> std::vector<PackedCase> {
                   return {{40, 2, 32, 256, type, 32, dtype, dtype, whole},
                           {36, 1, 80, 192, type, int64_t{1} << 20, dtype, dtype, whole, 2},
                           {70, 1, 48, 192, type, 16, dtype, DType::kF32},
                           {33, 3, 17, 296, type, 128, dtype, dtype, whole},
                           {34, 1, 200, 320, type, 64, dtype, dtype, whole, 2},
                           {64, 3, 48, 1024, type, 32, dtype, dtype}};
                 });
  suite.Run();
}

// Each tile with one split of K: more tiles than blocks, ragged ends, A from memory and A that threads
// compute.
TEST(GpuPackedTiles, EveryConfigurationMatchesTheReference) {
  Result<Driver*> driver = CreateCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DestroyCudaDriver(*driver);
  size_t number = 0;
  for (const KernelConfiguration& choice : TilesOf(VariantId::kPackedTiles, TargetOf("sm_90a"))) {
    const size_t tile = number / 4, split = number++ % 4;
    if (split != tile % 4) continue;
    Suite suite;
    suite.configuration = choice;
    suite.processors = 2;
    SCOPED_TRACE(Text(choice));
    // K has at least two steps for each block that splits it.
    const int64_t depth = 256 * choice.cluster, rows = choice.cluster > 2 ? 40 : 140;
    const bool first = tile % 2 == 0;
    AddExact(&suite, {rows, 1, 152, depth, PackedType::kU4, first ? 32 : 128, DType::kBF16, DType::kBF16},
             300);
    AddExact(&suite, {rows, 1, 72, depth, PackedType::kU4, 64, DType::kF16, DType::kF16, true, 2}, 301);
    AddExact(&suite, {65, 2, 40, depth - 24, PackedType::kE4M3, int64_t{1} << 20, DType::kBF16, DType::kBF16},
             302);
    AddExact(&suite,
             {99, 1, 40, depth, first ? PackedType::kU8 : PackedType::kU2, 32, DType::kF16, DType::kF16,
              false, 1, DType::kF32},
             303);
    suite.Run();
  }
}

// Runs a case in one configuration of a family for few rows, on three multiprocessors. `choice`: "TxCxN
// cluster S".
void RunRows(const std::string& family, const std::string& choice, const PackedCase& p, uint32_t seed) {
  const int64_t tiles = choice[0] - '0', groups = choice[2] - '0';
  Suite suite;
  suite.processors = 3;
  suite.configuration =
      *ParseKernelConfiguration(family + " " + std::to_string((p.rows + 7) / 8 * 8) + "x" +
                                std::to_string(tiles * groups * 64 / p.rights) + "x128 " + choice);
  AddExact(&suite, p, seed);
  suite.Run();
}

// Every way to distribute tiles over warpgroups and blocks: the fewest and the most rows, ragged ends, K that
// ends within a step and before the last block's share, steps of a tile that are no multiple of the turns, A
// from memory and A that threads compute, more tiles than blocks.
TEST(GpuPackedRows, EveryConfigurationMatchesTheReference) {
  for (const char* choice : {"1x1x4 cluster 1", "2x1x4 cluster 4", "3x2x2 cluster 2", "5x1x3 cluster 1",
                             "2x2x2 cluster 8", "2x1x2 cluster 1", "4x1x3 cluster 2", "7x1x2 cluster 4"}) {
    SCOPED_TRACE(choice);
    const auto add = [&](const PackedCase& p, uint32_t seed) { RunRows("packed_rows", choice, p, seed); };
    add({16, 1, 520, 1096, PackedType::kU4, 32, DType::kBF16, DType::kBF16}, 700);
    add({13, 1, 200, 2000, PackedType::kU4, 128, DType::kBF16, DType::kF16, true, 2}, 701);
    add({5, 3, 17, 2048, PackedType::kU4, 64, DType::kF16, DType::kF16, true}, 702);
    add({24, 2, 40, 2024, PackedType::kE4M3, int64_t{1} << 20, DType::kBF16, DType::kBF16}, 703);
    add({32, 1, 40, 2048, PackedType::kU2, 16, DType::kBF16, DType::kF32, false, 1, DType::kF32}, 704);
    add({8, 1, 72, 2048, PackedType::kU8, int64_t{1} << 20, DType::kF16, DType::kF32, true, 2}, 705);
  }
}

// The same with A as digits: scale blocks of one instruction, half a stage, a stage and more, and a whole
// column.
TEST(GpuPackedDigits, EveryConfigurationMatchesTheReference) {
  for (const char* choice : {"1x1x4 cluster 1", "2x1x3 cluster 4", "3x2x2 cluster 2", "5x1x3 cluster 1",
                             "2x2x2 cluster 8", "2x1x2 cluster 1", "4x1x3 cluster 2", "7x1x2 cluster 4"}) {
    SCOPED_TRACE(choice);
    const auto add = [&](const PackedCase& p, uint32_t seed) { RunRows("packed_digits", choice, p, seed); };
    add({16, 1, 520, 1096, PackedType::kU4, 32, DType::kBF16, DType::kBF16}, 900);
    add({13, 1, 200, 2000, PackedType::kU4, 128, DType::kBF16, DType::kF16, true, 2}, 901);
    add({5, 3, 17, 2048, PackedType::kU4, 64, DType::kF16, DType::kF16, true}, 902);
    add({3, 2, 40, 2024, PackedType::kU8, int64_t{1} << 20, DType::kBF16, DType::kBF16}, 903);
    add({8, 1, 72, 2048, PackedType::kU8, int64_t{1} << 20, DType::kF16, DType::kF32, true, 2}, 904);
    if (choice[0] > '3') continue;  // more rows need too many registers
    add({24, 1, 40, 2048, PackedType::kU8, 32, DType::kBF16, DType::kF32}, 905);
    add({32, 1, 136, 2048, PackedType::kU4, 256, DType::kBF16, DType::kBF16}, 906);
  }
}

TEST(GpuPackedDigits, EveryTypeMatchesTheReference) {
  Suite suite;
  suite.configuration = *ParseKernelConfiguration("packed_digits");
  AddOfEveryType(&suite, AddExact, 1000,
                 [](PackedType type, DType dtype, bool whole) -> std::vector<PackedCase> {
                   return {{16, 2, 32, 256, type, 32, dtype, dtype, whole},
                           {9, 1, 80, 192, type, int64_t{1} << 20, dtype, dtype, whole, 2},
                           {24, 3, 17, 296, type, 128, dtype, DType::kF32, whole},
                           {32, 1, 200, 320, type, 64, dtype, dtype, whole, 2}};
                 });
  suite.Run();
}

TEST(GpuPackedRows, EveryTypeMatchesTheReference) {
  Suite suite;
  suite.configuration = *ParseKernelConfiguration("packed_rows");
  AddOfEveryType(&suite, AddExact, 800,
                 [](PackedType type, DType dtype, bool whole) -> std::vector<PackedCase> {
                   return {{16, 2, 32, 256, type, 32, dtype, dtype, whole},
                           {9, 1, 80, 192, type, int64_t{1} << 20, dtype, dtype, whole, 2},
                           {24, 3, 17, 296, type, 16, dtype, DType::kF32, whole},
                           {32, 1, 200, 320, type, 64, dtype, dtype, whole, 2}};
                 });
  suite.Run();
}

// Calls result(got, want, most) for each result of a matmul [rows, n]. `want` is computed in double from the
// same weights. `most` is the sum over K of the weight's magnitude times the largest magnitude of A among its
// 32 elements.
template <typename Result>
void EachResult(const PackedCase& p, const Case& c, const Memory& got, Result result) {
  const Part& part = c.maker.part;
  const auto memory = [&](const Memory& of, uint16_t operand) {
    return of.params[c.maker.operands[operand].param].data();
  };
  const PackedShape shape = {p.outer * p.inner, p.depth, p.block, BitsOf(p.type)};
  const char *left = memory(c.memory, part.lhs), *codes = memory(c.memory, part.rhs[0]),
             *scales = memory(c.memory, part.scales[0]);
  const auto a = [&](int64_t m, int64_t k) { return scalar::Load<double>(p.dtype, left, m * p.depth + k); };
  std::vector<double> row(static_cast<size_t>(p.depth));
  for (int64_t n = 0; n < shape.n; ++n) {
    for (int64_t k = 0; k < p.depth; ++k) {
      const int64_t bit = shape.BitAt(n, k);
      const uint32_t code = static_cast<uint8_t>(codes[bit / 8]) >> bit % 8 & ((1u << shape.bits) - 1);
      row[static_cast<size_t>(k)] = (double{PackedValue(p.type, code)} - part.packed.zero) *
                                    scalar::Load<double>(p.scale, scales, shape.ScaleAt(n, k));
    }
    for (int64_t m = 0; m < p.rows; ++m) {
      double want = 0, most = 0, greatest = 0;
      for (int64_t k = 0; k < p.depth; ++k) {
        if (k % 32 == 0) greatest = 0;
        for (int64_t other = k; k % 32 == 0 && other < std::min(k + 32, p.depth); ++other)
          greatest = std::max(greatest, std::abs(a(m, other)));
        want += a(m, k) * row[static_cast<size_t>(k)];
        most += greatest * std::abs(row[static_cast<size_t>(k)]);
      }
      result(scalar::Load<double>(DType::kF32, got.params.back().data(), m * shape.n + n), want, most);
    }
  }
}

// The relative error in norm over all results.
double ErrorOf(const PackedCase& p, const Case& c, const Memory& got) {
  double errors = 0, squares = 0;
  EachResult(p, c, got, [&](double is, double want, double) {
    errors += (is - want) * (is - want);
    squares += want * want;
  });
  return std::sqrt(errors / squares);
}

// For integer weights A is taken as 16-bit integers, whatever else is in a block. No element is off by more
// than 2^-15 of the largest that shares its scale.
TEST(GpuPacked, DigitsAreOffByLittleOfTheGreatest) {
  Suite suite;
  suite.configuration =
      *ParseKernelConfiguration("packed_digits");  // few rows have no such candidate and are streamed
  uint32_t seed = 500;
  for (PackedType type : {PackedType::kU4, PackedType::kU8}) {
    for (DType dtype : {DType::kBF16, DType::kF16}) {
      for (int64_t rows : {1, 4, 16}) {
        const PackedCase p = {rows, 1, 64, 1024, type, 32, dtype, DType::kF32};
        Add(&suite, p, seed);
        Case& c = suite.Last();
        Random random(seed++);
        std::normal_distribution<double> numbers;
        std::uniform_real_distribution<double> sizes(0.001, 0.01);
        // Some numbers are a thousand times larger than most, some tiny or 0.
        std::vector<char>& left = c.memory.params[c.maker.operands[c.maker.part.lhs].param];
        for (int64_t i = 0; i < rows * p.depth; ++i) {
          const uint32_t kind = random() % 64;
          scalar::Store<double>(dtype, left.data(), i,
                                numbers(random) * (kind == 0   ? 1000
                                                   : kind == 1 ? 1e-6
                                                   : kind == 2 ? 0
                                                               : 1));
        }
        std::vector<char>& scales = c.memory.params[c.maker.operands[c.maker.part.scales[0]].param];
        for (int64_t i = 0; i < static_cast<int64_t>(scales.size()) / 4; ++i)
          scalar::Store<double>(DType::kF32, scales.data(), i, sizes(random));
        c.difference = [p, &c](const Memory& got) -> std::string {
          double most = 0;
          EachResult(p, c, got, [&](double is, double want, double bound) {
            most = std::max(most, std::abs(is - want) / (bound * 0x1p-15));
          });
          std::printf("%s by %s: error %.2f of the bound, %.1e in norm\n", Name(p.type), Name(p.dtype), most,
                      ErrorOf(p, c, got));
          return most <= 1 ? "" : "an error is " + std::to_string(most) + " times what it may be";
        };
      }
    }
  }
  suite.Run();
}

// For FP8 weights, bf16 is taken as two E4M3 numbers with a scale that 32 or more elements share. Tensor
// cores round the sums of products.
TEST(GpuPacked, DigitsOfFp8AreOffByLittleOfTheGreatest) {
  Suite suite;
  uint32_t seed = 650;
  for (PackedType type : {PackedType::kE4M3, PackedType::kE5M2}) {
    for (int64_t rows : {1, 4}) {
      const PackedCase p = {rows, 1, 64, 1024, type, 32, DType::kBF16, DType::kF32};
      Add(&suite, p, seed);
      Case& c = suite.Last();
      Random random(seed++);
      std::normal_distribution<double> numbers;
      std::vector<char>& left = c.memory.params[c.maker.operands[c.maker.part.lhs].param];
      for (int64_t i = 0; i < rows * p.depth; ++i)
        scalar::Store<double>(DType::kBF16, left.data(), i, numbers(random) * (i % 64 == 0 ? 1000 : 1));
      c.difference = [p, &c](const Memory& got) -> std::string {
        double most = 0;
        EachResult(p, c, got, [&](double is, double want, double bound) {
          most = std::max(most, std::abs(is - want) / (bound * 0x1p-12));
        });
        std::printf("%s: error %.2f of the bound, %.1e in norm\n", Name(p.type), most, ErrorOf(p, c, got));
        return most <= 1 ? "" : "an error is " + std::to_string(most) + " times what it may be";
      };
    }
  }
  suite.Run();
}

// A number that is not finite makes the results that it reaches not finite, and no others.
TEST(GpuPacked, DigitsOfWhatIsNoNumberAreNone) {
  for (float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Suite suite;
    const PackedCase p = {2, 1, 48, 256, PackedType::kU4, 32, DType::kBF16, DType::kBF16};
    Add(&suite, p, 600);
    Case& c = suite.Last();
    scalar::Store<double>(DType::kBF16, c.memory.params[c.maker.operands[c.maker.part.lhs].param].data(), 300,
                          value);
    c.difference = [p, &c](const Memory& got) -> std::string {
      for (int64_t i = 0; i < 96; ++i) {
        const bool finite = std::isfinite(scalar::Load<double>(DType::kF32, got.params.back().data(), i));
        if (finite != (i < 48)) return "result " + std::to_string(i) + " is wrong";
      }
      return "";
    };
    suite.Run();
  }
}

// A block's scale multiplies weights, which are rounded once, to the type that is multiplied. A column's
// scale multiplies sums.
TEST(GpuPackedTiles, RoundsAWeightOnceAndASumNever) {
  Suite suite;
  uint32_t seed = 400;
  struct Bound {
    PackedType type;
    int64_t block;
    DType dtype, scale;
    double most;
  };
  for (const Bound& bound : {Bound{PackedType::kU4, 32, DType::kBF16, DType::kBF16, 0x1p-9},
                             Bound{PackedType::kU4, 128, DType::kBF16, DType::kF32, 0x1p-9},
                             Bound{PackedType::kU4, 32, DType::kF16, DType::kF16, 0x1p-12},
                             Bound{PackedType::kU8, 64, DType::kF16, DType::kF32, 0x1p-12},
                             Bound{PackedType::kU8, int64_t{1} << 20, DType::kBF16, DType::kBF16, 1e-6},
                             Bound{PackedType::kE4M3, int64_t{1} << 20, DType::kBF16, DType::kBF16, 1e-6}}) {
    const PackedCase p = {40, 1, 64, 1024, bound.type, bound.block, bound.dtype, bound.scale};
    Add(&suite, p, seed);
    Case& c = suite.Last();
    Random random(seed++);
    std::uniform_real_distribution<double> numbers(-1, 1), sizes(0.001, 0.01);
    const auto fill = [&](uint16_t index, DType dtype, auto& draw) {
      std::vector<char>& memory = c.memory.params[c.maker.operands[index].param];
      const auto count = static_cast<int64_t>(memory.size()) / ByteSize(dtype);
      for (int64_t i = 0; i < count; ++i) scalar::Store<double>(dtype, memory.data(), i, draw(random));
    };
    fill(c.maker.part.lhs, p.left, numbers);
    fill(c.maker.part.scales[0], p.scale, sizes);
    c.difference = [p, bound, &c](const Memory& got) -> std::string {
      const double error = ErrorOf(p, c, got);
      std::printf("%s, blocks of %lld, scales of %s, by %s: relative error %.2e\n", Name(p.type),
                  static_cast<long long>(p.block), Name(p.scale), Name(p.dtype), error);
      return error <= bound.most ? "" : "relative error " + std::to_string(error);
    };
  }
  suite.Run();
}

// Bytes of local memory of the functions: the largest EIATTR_MIN_STACK_SIZE attribute.
uint32_t StackOf(const std::vector<uint8_t>& image) {
  constexpr uint8_t kStack[] = {4, 0x12, 8, 0};
  uint32_t most = 0;
  for (auto at = image.begin(); at != image.end(); ++at) {
    at = std::search(at, image.end(), std::begin(kStack), std::end(kStack));
    if (image.end() - at < 12) break;
    uint32_t bytes;
    std::memcpy(&bytes, &*at + 8, 4);
    most = std::max(most, bytes);
  }
  return most;
}

// The compiler's count of a thread's registers holds for the configurations that plans prefer, with the rows
// and matrices of decoders and prompts. Two words of spill are allowed, which blocks with 64 registers a
// thread need once.
TEST(GpuPacked, PreferredConfigurationsDoNotSpill) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  constexpr int64_t kColumn = int64_t{1} << 20;  // a scale a column
  for (int64_t rows : {5, 8, 16, 24, 32, 512}) {
    for (const PackedCase& p :
         {PackedCase{rows, 1, 4096, 4096, PackedType::kU4, 32, DType::kBF16, DType::kBF16},
          PackedCase{rows, 1, 6144, 4096, PackedType::kU4, 128, DType::kBF16, DType::kBF16},
          PackedCase{rows, 1, 14336, 4096, PackedType::kU4, 32, DType::kBF16, DType::kF32, true, 2},
          PackedCase{rows, 1, 4096, 14336, PackedType::kU8, kColumn, DType::kBF16, DType::kBF16},
          PackedCase{rows, 1, 14336, 4096, PackedType::kE4M3, kColumn, DType::kBF16, DType::kBF16, false, 2},
          PackedCase{rows, 1, 512, 2048, PackedType::kU2, 64, DType::kF16, DType::kF16, true}}) {
      Arena arena;
      PartMaker maker(&arena);
      Fill(maker, p);
      const Kernel kernel = maker.Make();
      const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, true, 1 << 30});
      const Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
      ASSERT_TRUE(text.ok()) << text.status().message();
      const Result<std::vector<uint8_t>> code = CompileCuda(text->text, "sm_90a", "");
      ASSERT_TRUE(code.ok()) << code.status().message();
      EXPECT_LE(StackOf(*code), 8u) << rows << " rows, " << Name(p.type) << ", " << p.inner << " columns, "
                                    << p.depth << " of K";
    }
  }
}

// The fewest rows stream B, the most rows take tiles; between, there are candidates of each kind.
TEST(GpuPacked, CandidatesFitAMultiprocessor) {
  for (int64_t rows : {1, 4, 8, 16, 17, 512}) {
    for (int64_t depth : {512, 14336}) {
      Arena arena;
      PartMaker maker(&arena);
      Fill(maker, {rows, 1, 256, depth, PackedType::kU4, 32});
      const Kernel kernel = maker.Make();
      const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, true});
      CudaTarget target = TargetOf("sm_90a");
      int families = 0;
      for (const KernelCandidate& candidate : KernelCandidates(kernel, target, facts)) {
        if (candidate.configuration.variant == VariantId::kPlain) continue;
        const VariantId family = candidate.configuration.variant;
        ASSERT_TRUE((rows <= 16 && family == VariantId::kPacked) ||
                    (rows > 4 && rows <= 32 && family == VariantId::kPackedRows) ||
                    (rows > 4 && rows <= 32 && family == VariantId::kPackedDigits) ||
                    (rows > 4 && family == VariantId::kPackedTiles))
            << rows << ": " << Text(candidate.configuration);
        target.configuration = candidate.configuration;
        const Result<KernelText> text = WriteKernelText(kernel, target, facts);
        ASSERT_TRUE(text.ok()) << text.status().message();
        EXPECT_EQ(text->configuration, candidate.configuration);
        EXPECT_LE(text->shared, target.shared) << Text(candidate.configuration);
        ++families;
      }
      EXPECT_GE(families, 2) << rows << " rows, " << depth;
      const auto preferred = [&](const CudaTarget& gpu) {
        CudaTarget plain = gpu;
        plain.configuration = {};
        return WriteKernelText(kernel, plain, facts)->configuration.variant;
      };
      const bool streamed = rows <= (depth > 8192 ? 4 : 8);
      EXPECT_EQ(preferred(target), streamed     ? VariantId::kPacked
                                   : rows <= 32 ? VariantId::kPackedRows
                                                : VariantId::kPackedTiles);
      if (rows <= 16 && depth == 512) {  // with a longer K, A does not fit
        EXPECT_EQ(preferred(TargetOf("sm_80")), VariantId::kPacked);
      }
    }
  }
}

}  // namespace
}  // namespace rondo::test
