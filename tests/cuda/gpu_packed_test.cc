// Matmuls by weights in fewer bits against the reference (gpu_suite.h), in every configuration.
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "tests/cuda/gpu_suite.h"
#include "tests/host/packed_part.h"

namespace rondo::test {
namespace {

struct PackedCase {
  int64_t rows, outer, inner, depth;  // n is outer x inner
  PackedType type;
  int64_t block;
  DType dtype = DType::kF16, scale = DType::kF16;
  bool zeros = false;
  int64_t rights = 1;
};

void Fill(PartMaker& maker, const PackedCase& p) {
  const PackedWeights packed = {p.type, p.dtype, p.block, p.type <= PackedType::kU8 ? 3 : 0};
  const PackedShape shape = BeginPacked(maker, {p.rows, p.outer, p.inner, p.depth}, packed);
  maker.part.lhs = maker.Operand(p.dtype, Mode::kRead, {0, 3});
  AddPacked(maker, shape, p.rights, p.scale, p.zeros);
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1, 2});
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kF32, 0);
  if (p.rights == 2) x = tape.Binary(TapeOp::kAdd, x, tape.Add(TapeOp::kAcc, TapeType::kF32, 1));
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
      // FP8 of the lower half of its exponents; whole numbers that zero points take to both sides.
      byte = static_cast<char>(random() &
                               (p.type == PackedType::kE4M3 || p.type == PackedType::kE5M2 ? 0xbf : 0xff));
    }
  }
  for (uint16_t points : c.maker.part.zeros) {  // whole numbers, as they are in plans
    std::vector<char>& memory = c.memory.params[c.maker.operands[points].param];
    const auto count = static_cast<int64_t>(memory.size()) / ByteSize(p.scale);
    for (int64_t i = 0; i < count; ++i)
      scalar::Store<double>(p.scale, memory.data(), i, static_cast<double>(random() % 4));
  }
  const double most = p.type == PackedType::kU8 ? 512 : p.type == PackedType::kU4 ? 32 : 8;
  c.tolerance = {2e-3, 1e-4 * most * std::sqrt(static_cast<double>(p.depth))};
  c.canaries = false;  // codes drawn as numbers are small
}

constexpr PackedType kTypes[] = {PackedType::kU2,   PackedType::kU4,   PackedType::kU8,
                                 PackedType::kE4M3, PackedType::kE5M2, PackedType::kE2M1};

TEST(GpuPacked, EveryTypeMatchesTheReference) {
  Suite suite;
  uint32_t seed = 1;
  for (PackedType type : kTypes) {
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      Add(&suite, {1, 2, 64, 512, type, 32, dtype, dtype}, seed++);
      Add(&suite, {5, 3, 17, 296, type, 128, dtype, DType::kF32, type <= PackedType::kU8}, seed++);
      Add(&suite, {16, 1, 80, 1024, type, int64_t{1} << 20, dtype, dtype, false, 2}, seed++);
      Add(&suite, {2, 1, 48, 272, type, 16, dtype, DType::kBF16, type <= PackedType::kU8}, seed++);
    }
  }
  suite.Run();
}

TEST(GpuPacked, EveryConfigurationMatchesTheReference) {
  for (const char* choice :
       {"packed 5x4 warps 8 cluster 1", "packed 6x2 warps 8 cluster 1", "packed 5x4 warps 4 cluster 1",
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
    Add(&suite, {13, 1, 272, 4096, PackedType::kU4, 32, DType::kBF16, DType::kBF16, true, 2}, 103);
    Add(&suite, {1, 1, 256, 2048, PackedType::kU4, 16, DType::kBF16, DType::kF32, true}, 104);
    suite.Run();
  }
}

TEST(GpuPacked, CandidatesFitAMultiprocessor) {
  for (int64_t rows : {1, 16}) {
    for (int64_t depth : {512, 14336}) {
      Arena arena;
      PartMaker maker(&arena);
      Fill(maker, {rows, 1, 256, depth, PackedType::kU4, 32});
      const Kernel kernel = maker.Make();
      const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, true});
      CudaTarget target = TargetOf("sm_90a");
      int families = 0;
      for (const KernelCandidate& candidate : KernelCandidates(kernel, target, facts)) {
        if (candidate.configuration.family == TemplateFamily::kPlain) continue;
        ASSERT_EQ(candidate.configuration.family, TemplateFamily::kPacked) << Text(candidate.configuration);
        target.configuration = candidate.configuration;
        const Result<KernelText> text = WriteKernelText(kernel, target, facts);
        ASSERT_TRUE(text.ok()) << text.status().message();
        EXPECT_EQ(text->configuration, candidate.configuration);
        EXPECT_LE(text->shared, target.shared) << Text(candidate.configuration);
        ++families;
      }
      EXPECT_GE(families, 2) << rows << " rows, " << depth;
    }
  }
}

}  // namespace
}  // namespace rondo::test
