// Library matmuls: the verifier and the checker compare them with the kernel's contract.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "formats/plan/encode.h"
#include "formats/plan/format.h"
#include "formats/plan/reader.h"
#include "tests/plan/broken.h"
#include "tests/plan/matmul_plan.h"
#include "tests/plan/round_trip.h"

namespace rondo {
namespace {

TEST(MachineCode, LiesInASectionOfItsOwn) {
  const Sample s = MakeProductSample();
  const auto fill = [&](uint32_t buffer, uint64_t first, uint64_t count, uint8_t* out) {
    return FillSample(s.data, buffer, first, count, out);
  };
  std::vector<uint8_t> bytes;
  ASSERT_TRUE(WritePlanBytes(s.data, fill, &bytes).ok());
  SectionEntry section;
  std::memcpy(&section, bytes.data() + sizeof(FileHeader) + sizeof(SectionEntry), sizeof(section));
  EXPECT_EQ(section.kind, SectionKind::kMachineCode);
  EXPECT_EQ(section.offset % kPlanPage, 0u);
  const uint8_t expected[] = {1, 2, 3};
  ASSERT_EQ(section.bytes, sizeof(expected));
  EXPECT_EQ(std::memcmp(bytes.data() + section.offset, expected, sizeof(expected)), 0);
  Arena arena;
  Result<PlanFile> plan = ReadPlan({bytes.data(), bytes.size()}, {}, arena);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const Span<const uint8_t> code = plan->data.modules[0].codes[0];
  EXPECT_EQ(std::vector<uint8_t>(code.begin(), code.end()), std::vector<uint8_t>(expected, expected + 3));

  // Once damaged, once removed from the table.
  std::vector<uint8_t> damaged = bytes;
  damaged[section.offset + 1] ^= 1;
  plan = ReadPlan({damaged.data(), damaged.size()}, {}, arena);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(std::string(plan.status().message()).find("the hash of its machine code"), std::string::npos);
  damaged = bytes;
  section.bytes = 2;
  std::memcpy(damaged.data() + sizeof(FileHeader) + sizeof(SectionEntry), &section, sizeof(section));
  ReadOptions options;
  options.ignore_hashes = true;
  plan = ReadPlan({damaged.data(), damaged.size()}, options, arena);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(std::string(plan.status().message()).find("outside the machine code section's 2"),
            std::string::npos)
      << plan.status().message();
}

TEST(MachineCode, NextCodeBeginsAtTheNextMultipleOf64) {
  for (uint64_t end = 0; end < 200; ++end) {
    const uint64_t next = NextCode(end);
    EXPECT_GE(next, end);
    EXPECT_LT(next, end + 64);
    EXPECT_EQ(next % 64, 0u);
  }
}

TEST(Matmuls, TheSampleIsGood) {
  const Sample s = MakeProductSample();
  ExpectVerifiedAndProven(s.data);
}

// The addend may have the result's memory if it has the same layout.
TEST(Matmuls, TheAddendMayBeInPlace) {
  Sample s = MakeProductSample();
  Edit(StepOf(s, 0).bindings, 2) = {kProductY, 0};
  const Status status = VerifyPlan(s.data);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Matmuls, RoundTripKeepsEverything) {
  const Sample s = MakeProductSample();
  Arena arena;
  Result<PlanFile> plan = RoundTrip(s, arena);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->data.kernels[0].workspace_param, 5);
  EXPECT_EQ(plan->data.kernels[0].workspace_bytes, kProductScratchBytes);
  const KernelBinary& binary = plan->data.modules[0].binaries[0];
  ASSERT_EQ(binary.kind, BinaryKind::kLibraryMatmul);
  const LibraryMatmul& p = *binary.matmul;
  EXPECT_EQ(p.lhs.outer_stride, 8);
  EXPECT_EQ(p.bias.param, 3);
  EXPECT_EQ(p.addend.dtype, DType::kF32);
  EXPECT_EQ(p.m, 4);
  EXPECT_EQ(p.n, 16);
  EXPECT_EQ(p.k, 8);
  EXPECT_EQ(p.epilogue, MatmulEpilogue::kRelu);
  EXPECT_TRUE(p.tf32);
  EXPECT_EQ(p.workspace_bytes, kProductScratchBytes);
  EXPECT_EQ(p.algorithm, 2u);
}

class ProductRules : public BrokenSample {};

TEST_P(ProductRules, Broken) { EitherRefuses(MakeProductSample()); }

Kernel& KernelOf(Sample& s) { return Edit(s.data.kernels, 0); }

const Broken kRules[] = {
    {"UnknownKind", [](Sample& s) { BinaryOf(s).kind = static_cast<BinaryKind>(2); }, "kind 2 with a matmul"},
    {"MatmulMissing", [](Sample& s) { BinaryOf(s).matmul = nullptr; }, "kind 1 without a matmul"},
    {"ProductOfAFunction",
     [](Sample& s) {
       BinaryOf(s).kind = BinaryKind::kFunction;
       BinaryOf(s).entry = "f";
     },
     "kind 0 with a matmul"},
    {"ProductWithAnEntry", [](Sample& s) { BinaryOf(s).entry = "f"; }, "no need of an entry"},
    {"NoRows", [](Sample& s) { MatmulOf(s).m = 0; }, "0 x 16 x 8) has an extent that is not from 1"},
    {"TooDeep", [](Sample& s) { MatmulOf(s).k = int64_t{1} << 31; },
     "4 x 16 x 2147483648) has an extent that is not from 1"},
    {"UnknownEpilogue", [](Sample& s) { MatmulOf(s).epilogue = static_cast<MatmulEpilogue>(9); },
     "has an epilogue that is unknown"},
    {"LeftSideLeftOut", [](Sample& s) { MatmulOf(s).lhs.param = kNoParam; },
     "matrix 0 of its matmul, parameter 65535"},
    {"ResultLeftOut", [](Sample& s) { MatmulOf(s).out.param = kNoParam; },
     "matrix 2 of its matmul, parameter 65535"},
    {"UnknownDtype", [](Sample& s) { MatmulOf(s).rhs.dtype = static_cast<DType>(77); },
     "of types that do not go together"},
    {"OtherDtype", [](Sample& s) { MatmulOf(s).rhs.dtype = DType::kF16; },
     "of types that do not go together"},
    {"TypesThatNoLibraryIsAskedFor",
     [](Sample& s) {
       LibraryMatmul& p = MatmulOf(s);
       for (MatmulMatrix* m : {&p.lhs, &p.rhs, &p.out, &p.addend, &p.bias}) m->dtype = DType::kI32;
     },
     "of types that do not go together"},
    {"ResultOfAnotherType", [](Sample& s) { MatmulOf(s).out.dtype = DType::kBF16; },
     "of types that do not go together"},
    {"BiasOfAnotherType", [](Sample& s) { MatmulOf(s).bias.dtype = DType::kF16; },
     "of types that do not go together"},
    {"ResultsAlongTheirRows",
     [](Sample& s) {
       MatmulOf(s).out.inner_stride = 4;
       MatmulOf(s).out.outer_stride = 1;
     },
     "that are not contiguous"},
    {"AllOfAnotherType",
     [](Sample& s) {
       LibraryMatmul& p = MatmulOf(s);
       for (MatmulMatrix* m : {&p.lhs, &p.rhs, &p.out, &p.addend, &p.bias}) m->dtype = DType::kF16;
     },
     "is not what an operand touches"},
    {"ParameterOutOfRange", [](Sample& s) { MatmulOf(s).rhs.param = 40; },
     "matrix 1 of its matmul, parameter 40, is not what"},
    {"WorkspaceAsASide", [](Sample& s) { MatmulOf(s).rhs.param = 5; },
     "matrix 1 of its matmul, parameter 5, is not what"},
    {"MoreRowsThanTheContract", [](Sample& s) { MatmulOf(s).m = 5; },
     "matrix 0 of its matmul, parameter 0, is not what"},
    {"FewerRowsThanTheContract", [](Sample& s) { MatmulOf(s).m = 3; },
     "matrix 0 of its matmul, parameter 0, is not what"},
    {"WiderThanTheContract", [](Sample& s) { MatmulOf(s).n = 17; },
     "matrix 1 of its matmul, parameter 1, is not what"},
    {"BeginsElsewhere", [](Sample& s) { MatmulOf(s).out.offset = 4; },
     "matrix 2 of its matmul, parameter 4, is not what"},
    {"WritesWhatIsRead", [](Sample& s) { MatmulOf(s).out = MatmulOf(s).addend; },
     "matrix 2 of its matmul, parameter 2, is not what"},
    {"ReadsWhatIsWritten", [](Sample& s) { MatmulOf(s).addend = MatmulOf(s).out; },
     "matrix 3 of its matmul, parameter 4, is not what"},
    {"LinesOverlap", [](Sample& s) { MatmulOf(s).out.outer_stride = 15; },
     "matrix 2 of its matmul, parameter 4, has impossible"},
    {"NegativeStride", [](Sample& s) { MatmulOf(s).lhs.outer_stride = -8; },
     "matrix 0 of its matmul, parameter 0, has impossible"},
    {"StrideTooLong", [](Sample& s) { MatmulOf(s).lhs.outer_stride = int64_t{1} << 60; },
     "matrix 0 of its matmul, parameter 0, has impossible"},
    {"OffsetTooFar", [](Sample& s) { MatmulOf(s).lhs.offset = ~0ull; },
     "matrix 0 of its matmul, parameter 0, has impossible"},
    {"BatchesOfOne",
     [](Sample& s) {
       MatmulOf(s).batches = 2;
       MatmulOf(s).lhs.batch_stride = 32;
     },
     "matrix 0 of its matmul, parameter 0, is not what"},
    // Two batches of three rows that begin one row apart. They cover the contract's four rows, two of them
    // twice.
    {"BatchesThatOverlap",
     [](Sample& s) {
       MatmulOf(s).batches = 2;
       MatmulOf(s).m = 3;
       MatmulOf(s).lhs.batch_stride = MatmulOf(s).lhs.outer_stride;
       MatmulOf(s).out.batch_stride = MatmulOf(s).out.outer_stride;
       MatmulOf(s).addend.batch_stride = MatmulOf(s).addend.outer_stride;
     },
     "matrix 2 of its matmul, parameter 4, has impossible"},
    {"AddendInPlaceButLaidOutOtherwise",
     [](Sample& s) {
       MatmulOf(s).rhs.batch_stride = 0;
       MatmulOf(s).n = 4;
       MatmulOf(s).batches = 4;
       MatmulOf(s).rhs.batch_stride = 32;
       MatmulOf(s).out.batch_stride = 4;
       MatmulOf(s).addend.batch_stride = 16;
       MatmulOf(s).addend.outer_stride = 4;
       MatmulOf(s).bias.param = kNoParam;
       Edit(StepOf(s, 0).bindings, 2) = {kProductY, 0};
     },
     "share memory"},
    {"BiasByBatch", [](Sample& s) { MatmulOf(s).bias.batch_stride = 1; },
     "matrix 4 of its matmul, parameter 3, has impossible"},
    {"MoreScratchThanTheKernels", [](Sample& s) { MatmulOf(s).workspace_bytes += 1; },
     "4097 bytes of a workspace of 4096"},
    {"NotAContraction",
     [](Sample& s) {
       KernelOf(s).parts = List<Part>(s.arena, {KernelOf(s).parts[0], KernelOf(s).parts[0]});
     },
     "not of one matmul"},
    {"WorkspaceWithoutBytes", [](Sample& s) { KernelOf(s).workspace_bytes = 0; }, "a workspace of 0 bytes"},
    {"WorkspaceWithoutParameter", [](Sample& s) { KernelOf(s).workspace_param = kNoOperand; },
     "a workspace of 4096 bytes in parameter 65535"},
    {"WorkspaceParameterOutOfRange", [](Sample& s) { KernelOf(s).workspace_param = 6; }, "parameter 6 of 6"},
    {"WorkspaceTooLarge", [](Sample& s) { KernelOf(s).workspace_bytes = ~0ull; }, "a workspace of"},
    {"WorkspaceUsedByAnOperand", [](Sample& s) { KernelOf(s).workspace_param = 2; },
     "an operand uses parameter 2"},
    {"BindingTooSmall", [](Sample& s) { Edit(StepOf(s, 0).bindings, 5).offset = 16; },
     "touches bytes [16, 4112)"},
    {"BindingNotAligned", [](Sample& s) { Edit(StepOf(s, 0).bindings, 5).offset = 8; }, "bound to byte 8"},
    {"ScratchOfAnotherKind", [](Sample& s) { BufferOf(s, kProductScratch).kind = BufferKind::kTemporary; },
     "parameter 5 is bound to buffer 5 of kind temporary"},
    {"OperandInAWorkspace", [](Sample& s) { Edit(StepOf(s, 0).bindings, 2).buffer = kProductScratch; },
     "parameter 2 is bound to buffer 5 of kind workspace"},
    {"MoreWorkspaceThanStated", [](Sample& s) { Edit(s.data.requirements.devices, 0).workspace = 4095; },
     "exceed the device's workspace of 4095"},
    {"WorkspaceOverAnInput", [](Sample& s) { BufferOf(s, kProductScratch).offset = 192; },
     "writes buffer 5 \"scratch\" at bytes [192, 4288) of the same memory"},
    {"WorkspaceKeptTooLong",
     [](Sample& s) {
       BufferOf(s, kProductScratch).first_step = 1;
       BufferOf(s, kProductScratch).last_step = 0;
     },
     "lives from step 1 to 0"},
};

INSTANTIATE_TEST_SUITE_P(All, ProductRules, testing::ValuesIn(kRules), RuleName);

}  // namespace
}  // namespace rondo
