// Which norms become part of the matmuls that read them, and what of the program changes then.
#include "compiler/codegen/cuda/join_norms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/lowered_rules.h"
#include "compiler/ir/graph.h"
#include "tests/host/norm_stages.h"
#include "tests/host/packed_part.h"

namespace rondo::test {
namespace {

constexpr DType kType = DType::kBF16;

// x -> norm -> two matmuls of `rows` rows, by weights of [columns, depth].
class NormedProgram {
 public:
  enum Number { kX, kScale, kNormed, kWeight, kFirst, kSecond };  // of values

  explicit NormedProgram(int64_t rows = 1, int64_t columns = 512, int64_t depth = 1024)
      : rows_(rows), columns_(columns), depth_(depth) {
    program_.name = "main";
    program_.arena = std::make_shared<Arena>();
    Value("x", BufferKind::kInput, rows * depth);
    Value("scale", BufferKind::kConstant, depth);
    Value("normed", BufferKind::kTemporary, rows * depth);
    Value("w", BufferKind::kConstant, columns * depth);
    Value("first", BufferKind::kOutput, rows * columns);
    Value("second", BufferKind::kOutput, rows * columns);
    program_.inputs = {{"x", kX, false}};
    program_.outputs = {{"first", kFirst, false}, {"second", kSecond, false}};
    Norm();
    Matmul(kFirst);
    Matmul(kSecond);
  }

  // What JoinNorms says.
  std::string Join(const std::vector<CudaTarget>& targets = {TargetOf("sm_90a")}) {
    std::string text;
    JoinNorms(&program_, targets, &text);
    EXPECT_EQ(LoweredRulesBroken(program_), "");
    return text;
  }
  LoweredProgram& program() { return program_; }

 private:
  void Norm() {
    PartMaker maker(program_.arena.get());
    maker.loops = {rows_, depth_};
    maker.part.skeleton = Skeleton::kContraction;  // until its stages are made
    maker.part.lhs = maker.Operand(kType, Mode::kRead, {0, 1});
    AddNorm(maker, kType, {1}, kType);
    const uint16_t out = maker.Operand(kType, Mode::kWrite, {0, 1});
    std::vector<TapeInst> last(maker.part.prologue.begin(), maker.part.prologue.end());
    last.back().op = TapeOp::kStore;
    last.back().arg = out;
    std::vector<Stage> stages(maker.part.stages.begin(), maker.part.stages.end());
    stages.push_back({false, maker.arena->Copy(last)});
    Part& part = maker.part;
    part.prologue = {};
    part.lhs = kNoOperand;
    part.skeleton = Skeleton::kReduction;
    part.outer = part.reduced = 1;
    part.stages = maker.arena->Copy(stages);
    LoweredOp op;
    op.kernel = maker.Make();
    op.kernel.label = "rms_norm";
    op.params = {{kX, 0, Mode::kRead}, {kScale, 0, Mode::kRead}, {kNormed, 0, Mode::kWrite}};
    op.sources = {"ReduceMean \"norm\""};
    program_.ops.push_back(op);
  }
  void Matmul(int to) {
    PartMaker maker(program_.arena.get());
    maker.loops = {rows_, columns_, depth_};
    Part& part = maker.part;
    part.skeleton = Skeleton::kContraction;
    part.m = part.n = part.reduced = 1;
    part.lhs = maker.Operand(kType, Mode::kRead, {0, 2});
    part.rhs = maker.arena->Copy(std::vector<uint16_t>{maker.Operand(kType, Mode::kRead, {1, 2})});
    const uint16_t out = maker.Operand(kType, Mode::kWrite, {0, 1});
    TapeMaker tape;
    tape.Store(out, kType, tape.Add(TapeOp::kAcc, TapeType::kF32));
    part.epilogue = maker.Keep(tape);
    LoweredOp op;
    op.kernel = maker.Make();
    op.params = {{kNormed, 0, Mode::kRead}, {kWeight, 0, Mode::kRead}, {to, 0, Mode::kWrite}};
    op.deps = {0};
    op.sources = {"MatMul \"m" + std::to_string(to) + "\""};
    program_.ops.push_back(op);
  }
  void Value(const char* name, BufferKind kind, int64_t elements) {
    LoweredValue value;
    value.name = name;
    value.kind = kind;
    value.dtype = kType;
    value.shape = Shape({elements});
    value.bytes = elements * 2;
    if (kind == BufferKind::kConstant) {
      auto data = std::make_shared<ir::ConstantData>();
      data->dtype = kType;
      data->shape = value.shape;
      data->synthetic = true;
      value.constant = data;
    }
    program_.values.push_back(value);
  }

  const int64_t rows_, columns_, depth_;
  LoweredProgram program_;
};

TEST(JoinNorms, MatmulsComputeTheNormThemselves) {
  NormedProgram normed;
  const Part before = normed.program().ops[1].kernel.parts[0];
  EXPECT_EQ(normed.Join(), "1 norms are computed by the matmuls that read them");
  const LoweredProgram& program = normed.program();
  ASSERT_EQ(program.ops.size(), 2u);
  for (const LoweredOp& op : program.ops) {
    const Part& part = op.kernel.parts[0];
    EXPECT_TRUE(op.deps.empty());
    ASSERT_EQ(op.params.size(), 4u);
    EXPECT_EQ(op.params[0].value, NormedProgram::kX);
    EXPECT_EQ(op.params[3].value, NormedProgram::kScale);
    EXPECT_EQ(op.sources.size(), 2u);
    EXPECT_EQ(part.stages.size(), 2u);
    EXPECT_EQ(part.scalars, 2);
    EXPECT_EQ(part.prologue.back().op, TapeOp::kYield);
    // What the norm stored was rounded.
    EXPECT_EQ(part.prologue[part.prologue.back().a].op, TapeOp::kCast);
    EXPECT_EQ(part.prologue[part.prologue.back().a].imm.i, static_cast<int64_t>(kType));
    EXPECT_EQ(part.operands[part.lhs].strides[2], 1);
    EXPECT_EQ(part.operands[part.lhs].strides[1], 0);
    EXPECT_EQ(part.rhs[0], before.rhs[0]);
    Result<KernelText> text = WriteKernelText(op.kernel, TargetOf("sm_90a"),
                                              std::vector<cuda::ParamFacts>(4, cuda::ParamFacts{256, true}));
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_NE(text->text.find("matmul_few_rows<"), std::string::npos);
    EXPECT_NE(text->text.find("reduce<Sum"), std::string::npos);
  }
}

// Where the norm stays a kernel.
TEST(JoinNorms, OthersStayAsTheyAre) {
  const auto stays = [](const char* why, const std::function<void(LoweredProgram&)>& change,
                        NormedProgram normed = NormedProgram()) {
    if (change) change(normed.program());
    const size_t ops = normed.program().ops.size();
    EXPECT_EQ(normed.Join(), "0 norms are computed by the matmuls that read them") << why;
    EXPECT_EQ(normed.program().ops.size(), ops) << why;
    for (const LoweredOp& op : normed.program().ops) {
      if (op.kind != LoweredKind::kKernel || op.kernel.parts[0].skeleton != Skeleton::kContraction) continue;
      EXPECT_TRUE(op.kernel.parts[0].stages.empty()) << why;
    }
  };
  constexpr int kNormed = NormedProgram::kNormed;
  stays("several rows", nullptr, NormedProgram(2));
  stays("a row that no stage has room for", nullptr, NormedProgram(1, 512, 65536));
  stays("a result that is an output",
        [](LoweredProgram& p) { p.values[kNormed].kind = BufferKind::kOutput; });
  stays("three readers", [](LoweredProgram& p) { p.ops.push_back(p.ops[2]); });
  stays("something waits for it", [](LoweredProgram& p) {
    p.ops.push_back(p.ops[2]);
    p.ops.back().params[0].value = NormedProgram::kX;
  });
  stays("another part of what it stored", [](LoweredProgram& p) { p.ops[1].params[0].byte_offset = 16; });
  stays("a kernel of its own", [](LoweredProgram& p) { p.ops[0].annotations["fuse"] = "off"; });
  stays("a matmul of its own", [](LoweredProgram& p) { p.ops[2].annotations["stream"] = "1"; });
  stays("a library", [](LoweredProgram& p) { p.ops[1].library = 0; });
  stays("rounds of a loop", [](LoweredProgram& p) {
    p.loops = {2};
    for (LoweredOp& op : p.ops) op.loop = 0;
  });
  stays("behind a collective", [](LoweredProgram& p) {
    LoweredOp wait;
    wait.kind = LoweredKind::kCollectiveWait;
    wait.collective = 0;
    wait.params = {{NormedProgram::kX, 0, Mode::kRead}, {NormedProgram::kX, 0, Mode::kWrite}};
    p.collectives.push_back({});
    p.ops.insert(p.ops.begin(), wait);
    p.ops[1].deps = {0};
    p.ops[2].deps = p.ops[3].deps = {1};
  });
  stays("a left side with a prologue", [](LoweredProgram& p) {
    TapeMaker tape;
    tape.Add(TapeOp::kYield, TapeType::kF32, 0, tape.Load(p.ops[1].kernel.parts[0].lhs, kType));
    Part part = p.ops[1].kernel.parts[0];
    part.prologue = p.arena->Copy(tape.list);
    p.ops[1].kernel.parts = p.arena->Copy(std::vector<Part>{part});
  });
}

TEST(JoinNorms, EveryTargetMustBeAbleTo) {
  NormedProgram both;
  EXPECT_EQ(both.Join({TargetOf("sm_90a"), TargetOf("sm_80")})[0], '1');
  NormedProgram small;
  CudaTarget none = TargetOf("sm_80");
  none.shared = 8 << 10;  // bytes, in which no stages fit
  EXPECT_EQ(small.Join({TargetOf("sm_90a"), none})[0], '0');
}

// Of 8 bits, a norm of its own is quicker.
TEST(JoinNorms, WeightsOfFewerBitsThan8HaveATemplateForIt) {
  for (PackedType type : {PackedType::kU2, PackedType::kU4, PackedType::kU8, PackedType::kE4M3}) {
    Arena arena;
    PartMaker maker(&arena);
    const PackedShape shape = BeginPacked(maker, {1, 1, 512, 1024}, {type, kType, 32, 0});
    maker.part.lhs = maker.Operand(kType, Mode::kRead, {0, 3});
    AddPacked(maker, shape, 1, kType, false);
    AddNorm(maker, kType, {3}, kType);
    const uint16_t out = maker.Operand(kType, Mode::kWrite, {0, 1, 2});
    TapeMaker tape;
    tape.Store(out, kType, tape.Add(TapeOp::kAcc, TapeType::kF32));
    maker.part.epilogue = maker.Keep(tape);
    const Kernel kernel = maker.Make();
    const std::vector<cuda::ParamFacts> facts(kernel.num_params, cuda::ParamFacts{256, true});
    EXPECT_EQ(KernelCandidates(kernel, TargetOf("sm_90a"), facts).empty(), BitsOf(type) == 8) << Name(type);
  }
}

// What the joined kernel reads all of may not be written by it in place.
TEST(JoinNorms, NothingIsWrittenOverWhatTheRowIsReadFrom) {
  NormedProgram normed(1, 1024, 1024);
  normed.program().ops[1].in_place = {{2, 0}};
  normed.Join();
  EXPECT_TRUE(normed.program().ops[0].in_place.empty());
}

}  // namespace
}  // namespace rondo::test
