// The kernels that a library computes, their form, and the splits of other kernels for it.
#include <gtest/gtest.h>

#include <set>

#include "compiler/codegen/cuda/choose_libraries.h"
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/matmul/library_matmul.h"
#include "compiler/codegen/cuda/matmul/split_epilogue.h"
#include "compiler/codegen/lowered_rules.h"
#include "tests/cuda/matmul_kernel.h"

namespace rondo::test {
namespace {

void ExpectMatrix(const MatmulMatrix& m, uint16_t param, int64_t batch, int64_t outer, int64_t inner) {
  EXPECT_EQ(m.param, param);
  EXPECT_EQ(m.offset, 0u);
  EXPECT_EQ(m.batch_stride, batch);
  EXPECT_EQ(m.outer_stride, outer);
  EXPECT_EQ(m.inner_stride, inner);
}

TEST(LibraryMatmuls, AreReadToTheLastField) {
  const MatmulKernel kernel({3, 64, 96, 128, true}, DType::kBF16, DType::kBF16,
                            {true, true, Activation::kGeluTanh});
  const auto p = LibraryMatmulOf(kernel.kernel());
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->batches, 3);
  EXPECT_EQ(p->m, 64);
  EXPECT_EQ(p->n, 96);
  EXPECT_EQ(p->k, 128);
  EXPECT_EQ(p->epilogue, MatmulEpilogue::kGeluTanh);
  EXPECT_EQ(p->lhs.dtype, DType::kBF16);
  EXPECT_FALSE(p->tf32);
  EXPECT_EQ(p->algorithm, kNone);
  ExpectMatrix(p->lhs, 0, 64 * 128, 128, 1);
  ExpectMatrix(p->rhs, 1, 96 * 128, 128, 1);
  ExpectMatrix(p->out, 2, 64 * 96, 96, 1);
  ExpectMatrix(p->bias, 3, 0, 96, 1);
  ExpectMatrix(p->addend, 4, 64 * 96, 96, 1);
}

TEST(LibraryMatmuls, TransposedSidesAreOuterByOne) {
  const MatmulKernel kernel({1, 64, 96, 128, false, true}, DType::kF32, DType::kF32, {}, true);
  const auto p = LibraryMatmulOf(kernel.kernel());
  ASSERT_TRUE(p.has_value());
  EXPECT_TRUE(p->tf32);
  EXPECT_EQ(p->epilogue, MatmulEpilogue::kNone);
  EXPECT_EQ(p->bias.param, kNoParam);
  EXPECT_EQ(p->addend.param, kNoParam);
  ExpectMatrix(p->lhs, 0, 0, 1, 64);
  ExpectMatrix(p->rhs, 1, 0, 1, 96);
}

// With one row, bias and addend have the same shape, so either may be taken for the other.
TEST(LibraryMatmuls, OneRowHasBothItsBiasAndItsAddend) {
  const MatmulKernel kernel({1, 1, 96, 128}, DType::kF16, DType::kF16, {true, true});
  const auto p = LibraryMatmulOf(kernel.kernel());
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->bias.param + p->addend.param, 3 + 4);
  EXPECT_EQ(p->addend.outer_stride, 96);
}

TEST(LibraryMatmuls, EveryEndThatLibrariesHaveIsKnown) {
  for (const ProductEnd& end : kProductEnds) {
    for (DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
      const MatmulKernel same({1, 8, 16, 32}, type, type, end), wide({1, 8, 16, 32}, type, DType::kF32, end);
      EXPECT_TRUE(LibraryMatmulOf(same.kernel()).has_value()) << same.text();
      EXPECT_TRUE(LibraryMatmulOf(wide.kernel()).has_value()) << wide.text();
    }
  }
}

TEST(LibraryMatmuls, WhatNoLibraryComputesExactlyIsNone) {
  const MatmulSize sides = {1, 8, 16, 32};
  const auto refused = [&](const char* why, DType type, DType out, const ProductEnd& end,
                           void (*change)(PartMaker&)) {
    MatmulKernel kernel(sides, type, out, end);
    if (change != nullptr) change(kernel.maker());
    EXPECT_FALSE(LibraryMatmulOf(kernel.Again()).has_value()) << why;
  };
  const DType f16 = DType::kF16;
  refused("GELU by erf", f16, f16, {false, false, Activation::kGeluErf}, nullptr);
  refused("f64", DType::kF64, DType::kF64, {}, [](PartMaker& m) { m.part.acc_type = TapeType::kF64; });
  refused("a result of another 16-bit type", f16, DType::kBF16, {}, nullptr);
  refused("an addend of another type", f16, DType::kF32, {false, true},
          [](PartMaker& m) { m.operands[3].dtype = DType::kF16; });
  refused("two right sides", f16, f16, {}, [](PartMaker& m) {
    m.part.rhs = m.arena->Copy(std::vector<uint16_t>{1, 1});
  });
  refused("a prologue", f16, f16, {}, [](PartMaker& m) {
    TapeMaker tape;
    tape.Add(TapeOp::kYield, TapeType::kF32, 0, tape.Load(m.part.lhs, DType::kF16));
    m.part.prologue = m.Keep(tape);
  });
  refused("a guard", f16, f16, {}, [](PartMaker& m) {
    Guard guard;
    guard.extent = 4;
    guard.strides = m.arena->Copy(std::vector<int64_t>{0, 1, 0, 0});
    m.operands[0].guards = m.arena->Copy(std::vector<Guard>{guard});
  });
  refused("an index from data", f16, f16, {},
          [](PartMaker& m) { m.operands[2].indirects = m.arena->Copy(std::vector<Indirect>{{}}); });
  refused("rows that overlap", f16, f16, {}, [](PartMaker& m) {
    m.operands[0].strides = m.arena->Copy(std::vector<int64_t>{0, 16, 0, 1});
  });
  refused("no contiguous side", f16, f16, {}, [](PartMaker& m) {
    m.operands[0].strides = m.arena->Copy(std::vector<int64_t>{0, 64, 0, 2});
  });
  refused("a result by columns", f16, f16, {}, [](PartMaker& m) {
    m.operands[2].strides = m.arena->Copy(std::vector<int64_t>{0, 1, 8, 0});
  });
  refused("a sum scaled", f16, f16, {}, [](PartMaker& m) {
    TapeMaker tape;
    const uint16_t sum = tape.Add(TapeOp::kAcc, TapeType::kF32);
    tape.Store(2, DType::kF16, tape.Binary(TapeOp::kMul, sum, tape.Const(2)));
    m.part.epilogue = m.Keep(tape);
  });
  refused("a sum twice", f16, f16, {}, [](PartMaker& m) {
    TapeMaker tape;
    const uint16_t sum = tape.Add(TapeOp::kAcc, TapeType::kF32);
    tape.Store(2, DType::kF16, tape.Binary(TapeOp::kAdd, sum, sum));
    m.part.epilogue = m.Keep(tape);
  });
}

TEST(LibraryMatmuls, DepthOfSeveralLoopsIsOneWhereBothSidesAgree) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {64, 96, 4, 32};
  maker.part.skeleton = Skeleton::kMatMul;
  maker.part.m = maker.part.n = 1;
  maker.part.reduced = 2;
  maker.part.lhs = maker.Operand(DType::kF16, Mode::kRead, {0, 2, 3});
  maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF16, Mode::kRead, {2, 3, 1})});
  const uint16_t out = maker.Operand(DType::kF16, Mode::kWrite, {0, 1});
  TapeMaker tape;
  tape.Store(out, DType::kF16, tape.Add(TapeOp::kAcc, TapeType::kF32));
  maker.part.epilogue = maker.Keep(tape);
  ASSERT_TRUE(LibraryMatmulOf(maker.Make()).has_value());
  EXPECT_EQ(LibraryMatmulOf(maker.Make())->k, 128);
  // Heads are outside the rows, so no single stride describes them.
  maker.operands[0].strides = arena.Copy(std::vector<int64_t>{32, 0, 64 * 32, 1});
  EXPECT_FALSE(LibraryMatmulOf(maker.Make()).has_value());
}

TEST(LibraryMatmuls, ScratchIsBoundedByShapeAndArchitecture) {
  LibraryMatmul p;
  p.m = 512;
  p.n = 4096;
  EXPECT_EQ(MostWorkspace(p, 90), 32u << 20);
  EXPECT_EQ(MostWorkspace(p, 80), 4u << 20);
  p.m = p.n = 8;
  EXPECT_EQ(MostWorkspace(p, 90), 64u << 10);
}

// ------------------------------------------------------------------------------------ in programs

// out = silu(x gate) * (x up) + bias(row), with gate and up side by side in one weight, in either order.
class GatedProgram {
 public:
  static constexpr int64_t kRows = 512, kColumns = 2048, kDepth = 1024;

  explicit GatedProgram(bool gate_first = true, int64_t gap = 0) {
    program_.name = "main";
    program_.arena = std::make_shared<Arena>();
    Arena& arena = *program_.arena;
    const int64_t line = 2 * kColumns + gap;
    Value("x", BufferKind::kInput, kRows * kDepth);
    Value("w", BufferKind::kConstant, kDepth * line);
    Value("out", BufferKind::kOutput, kRows * kColumns);
    program_.inputs = {{"x", 0, false}};
    program_.outputs = {{"out", 2, false}};
    PartMaker maker(&arena);
    maker.loops = {kRows, kColumns, kDepth};
    maker.part.skeleton = Skeleton::kMatMul;
    maker.part.m = maker.part.n = maker.part.reduced = 1;
    maker.part.lhs = maker.Operand(DType::kBF16, Mode::kRead, {0, 2});
    const uint16_t gate = maker.Operand(DType::kBF16, Mode::kRead, {2, 1}),
                   up = maker.Operand(DType::kBF16, Mode::kRead, {2, 1}),
                   out = maker.Operand(DType::kBF16, Mode::kWrite, {0, 1});
    for (uint16_t side : {gate, up})
      maker.operands[side].strides = arena.Copy(std::vector<int64_t>{0, 1, line});
    maker.part.rhs = arena.Copy(std::vector<uint16_t>{gate, up});
    TapeMaker tape;
    const uint16_t g = tape.Add(TapeOp::kAcc, TapeType::kF32, 0),
                   u = tape.Add(TapeOp::kAcc, TapeType::kF32, 1);
    const uint16_t silu = tape.Binary(TapeOp::kMul, g, tape.Unary(TapeOp::kSigmoid, g));
    tape.Store(out, DType::kBF16, tape.Binary(TapeOp::kMul, silu, u));
    maker.part.epilogue = maker.Keep(tape);
    LoweredOp op;
    op.kernel = maker.Make();
    op.kernel.label = "swiglu";
    const uint64_t second = static_cast<uint64_t>(kColumns + gap) * 2;
    op.params = {{0, 0, Mode::kRead},
                 {1, gate_first ? 0 : second, Mode::kRead},
                 {1, gate_first ? second : 0, Mode::kRead},
                 {2, 0, Mode::kWrite}};
    op.sources = {"MatMul \"mlp\""};
    program_.ops.push_back(op);
    // One more op, which depends on the first.
    LoweredOp after = op;
    after.deps = {0};
    program_.ops.push_back(after);
  }

  LoweredProgram& program() { return program_; }

 private:
  void Value(const char* name, BufferKind kind, int64_t elements) {
    LoweredValue value;
    value.name = name;
    value.kind = kind;
    value.dtype = DType::kBF16;
    value.shape = Shape({elements});
    value.bytes = elements * 2;
    if (kind == BufferKind::kConstant) {
      auto data = std::make_shared<ir::ConstantData>();
      data->dtype = DType::kBF16;
      data->shape = value.shape;
      data->synthetic = true;
      value.constant = data;
    }
    program_.values.push_back(value);
  }
  LoweredProgram program_;
};

TEST(SplitEpilogues, NeighbouringRightSidesBecomeOne) {
  for (bool gate_first : {true, false}) {
    GatedProgram gated(gate_first);
    const LoweredOp& op = gated.program().ops[0];
    auto split = SplitEpilogue(gated.program(), op, 3);
    ASSERT_TRUE(split.has_value());
    const auto p = LibraryMatmulOf(split->matmul.kernel);
    ASSERT_TRUE(p.has_value());
    EXPECT_EQ(p->n, 2 * GatedProgram::kColumns);
    EXPECT_EQ(split->sums.bytes, GatedProgram::kRows * 2 * GatedProgram::kColumns * 2);
    EXPECT_EQ(split->matmul.params[1].byte_offset, 0u);
    const Part& map = split->map.kernel.parts[0];
    EXPECT_EQ(map.skeleton, Skeleton::kMap);
    EXPECT_EQ(map.loops.size(), 2u);
    EXPECT_EQ(split->map.kernel.label, "swiglu");
    ASSERT_EQ(split->map.params.size(), 2u);
    EXPECT_EQ(split->map.params[0].value, 2);
    EXPECT_EQ(split->map.params[1].value, 3);
    // Accumulator 0, the gate, is read from the gate's columns.
    const Operand &gate = map.operands[map.body[0].arg], &up = map.operands[map.body[1].arg];
    EXPECT_EQ(gate.offset, gate_first ? 0 : GatedProgram::kColumns);
    EXPECT_EQ(up.offset, gate_first ? GatedProgram::kColumns : 0);
    EXPECT_EQ(gate.strides[0], 2 * GatedProgram::kColumns);
    EXPECT_EQ(gate.strides[1], 1);
  }
  GatedProgram apart(true, 8);
  EXPECT_FALSE(SplitEpilogue(apart.program(), apart.program().ops[0], 3).has_value());
}

TEST(SplitEpilogues, TakeTheirPlaceInTheProgram) {
  GatedProgram gated;
  LoweredProgram& program = gated.program();
  std::string text;
  LibraryOptions options;
  options.matmuls = Matmuls::kLibrary;
  ASSERT_TRUE(ChooseLibraries(&program, TargetOf("sm_90a"), options, &text).ok());
  EXPECT_EQ(LoweredRulesBroken(program), "");
  ASSERT_EQ(program.ops.size(), 4u);
  EXPECT_TRUE(program.ops[0].library.has_value());
  EXPECT_FALSE(program.ops[1].library.has_value());
  EXPECT_EQ(program.ops[1].deps, (std::vector<int>{0}));
  EXPECT_EQ(program.ops[2].deps, (std::vector<int>{1}));  // the former op 0 now ends with its map
  EXPECT_EQ(program.ops[3].deps, (std::vector<int>{1, 2}));
  const Kernel& matmul = program.ops[0].kernel;
  ASSERT_EQ(matmul.workspace_param, 3);
  EXPECT_EQ(matmul.workspace_bytes, (32u << 20) + kWorkspaceSlack);
  const LoweredValue& scratch = program.values[static_cast<size_t>(program.ops[0].params[3].value)];
  EXPECT_EQ(scratch.kind, BufferKind::kWorkspace);
  EXPECT_EQ(static_cast<uint64_t>(scratch.bytes), matmul.workspace_bytes);
  EXPECT_NE(text.find("2 matmuls by cuBLASLt, 2 of them"), text.npos) << text;
}

TEST(ChoosingLibraries, IsUpToOptionsProfileAndEstimate) {
  const auto ops_with = [](Matmuls matmuls, KernelConfiguration choice) {
    GatedProgram gated;
    std::string text;
    LibraryOptions options;
    options.matmuls = matmuls;
    if (choice.variant != VariantId::kAny) options.configuration = [choice](const Kernel&) { return choice; };
    EXPECT_TRUE(ChooseLibraries(&gated.program(), TargetOf("sm_90a"), options, &text).ok());
    return gated.program();
  };
  KernelConfiguration library, tile;
  library.variant = VariantId::kLibrary;
  library.algorithm = 3;
  tile.variant = VariantId::kMma;
  EXPECT_EQ(ops_with(Matmuls::kGenerated, {}).ops.size(), 2u);
  EXPECT_EQ(ops_with(Matmuls::kLibrary, {}).ops.size(), 4u);
  EXPECT_EQ(ops_with(Matmuls::kLibrary, tile).ops.size(), 2u);
  const LoweredProgram third = ops_with(Matmuls::kGenerated, library);
  ASSERT_EQ(third.ops.size(), 4u);
  EXPECT_EQ(third.ops[0].library, 2u);  // positions begin at 0
}

const KernelCandidate* FirstOfLibrary(const std::vector<KernelCandidate>& candidates) {
  for (const KernelCandidate& candidate : candidates) {
    if (Text(candidate.configuration) == "library") return &candidate;
  }
  return nullptr;
}

TEST(KernelCandidates, ListTheLibraryBesideWhatIsGenerated) {
  const MatmulKernel p({1, 512, 4096, 4096}, DType::kBF16, DType::kBF16, {});
  const std::vector<cuda::ParamFacts> facts(p.kernel().num_params, {256, false});
  const std::vector<KernelCandidate> candidates = KernelCandidates(p.kernel(), TargetOf("sm_90a"), facts);
  const KernelCandidate* library = FirstOfLibrary(candidates);
  ASSERT_NE(library, nullptr);
  EXPECT_LT(library->microseconds, kNotEstimated);
  std::set<VariantId> families;
  for (const KernelCandidate& candidate : candidates) {
    families.insert(candidate.configuration.variant);
    EXPECT_GT(candidate.microseconds, 0) << Text(candidate.configuration);
    // Library candidates after the first, and the plain variant, are used only on request.
    const bool last = candidate.configuration.variant == VariantId::kPlain;
    EXPECT_EQ(candidate.microseconds == kNotEstimated, last || candidate.configuration.algorithm > 0)
        << Text(candidate.configuration);
  }
  EXPECT_EQ(families, (std::set<VariantId>{VariantId::kMma, VariantId::kWgmma, VariantId::kTma,
                                           VariantId::kPingPong, VariantId::kLibrary, VariantId::kPlain}));
  // On a target where it was never measured, the library has no estimate.
  const std::vector<KernelCandidate> older = KernelCandidates(p.kernel(), TargetOf("sm_80"), facts);
  ASSERT_NE(FirstOfLibrary(older), nullptr);
  EXPECT_EQ(FirstOfLibrary(older)->microseconds, kNotEstimated);
}

TEST(KernelCandidates, CountTheMapOfASplit) {
  GatedProgram gated;
  const LoweredOp& op = gated.program().ops[0];
  const std::optional<SplitOp> split = SplitEpilogue(gated.program(), op, 3);
  ASSERT_TRUE(split.has_value());
  const std::vector<cuda::ParamFacts> facts(op.kernel.num_params, {256, false});
  const CudaTarget target = TargetOf("sm_90a");
  EXPECT_EQ(FirstOfLibrary(KernelCandidates(op.kernel, target, facts)), nullptr);
  const std::vector<KernelCandidate> whole = KernelCandidates(op.kernel, target, facts, &*split),
                                     alone = KernelCandidates(split->matmul.kernel, target, facts);
  ASSERT_NE(FirstOfLibrary(whole), nullptr);
  EXPECT_GT(FirstOfLibrary(whole)->microseconds, FirstOfLibrary(alone)->microseconds);
}

TEST(ChoosingLibraries, FewRowsAreGenerated) {
  const MatmulKernel few({1, 16, 4096, 4096}, DType::kBF16, DType::kBF16, {});
  LoweredProgram program;
  program.arena = std::make_shared<Arena>();
  for (uint64_t bytes : few.bytes()) {
    LoweredValue value;
    value.dtype = DType::kBF16;
    value.bytes = static_cast<int64_t>(bytes);
    value.shape = Shape({value.bytes / 2});
    program.values.push_back(value);
  }
  LoweredOp op;
  op.kernel = few.kernel();
  op.params = {{0, 0, Mode::kRead}, {1, 0, Mode::kRead}, {2, 0, Mode::kWrite}};
  program.ops.push_back(op);
  std::string text;
  ASSERT_TRUE(ChooseLibraries(&program, TargetOf("sm_90a"), {}, &text).ok());
  EXPECT_FALSE(program.ops[0].library.has_value());
}

}  // namespace
}  // namespace rondo::test
