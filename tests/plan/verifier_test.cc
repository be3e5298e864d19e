// One broken plan for each rule. Each changes one thing of the sample, and the message must name it.

#include <gtest/gtest.h>

#include <string>

#include "formats/plan/certificate.h"
#include "tests/plan/broken.h"
#include "tests/plan/sample_plan.h"

namespace rondo {
namespace {

TEST(Verifier, AcceptsTheSample) {
  const Sample s = MakeSample();
  Status status = VerifyPlan(s.data);
  EXPECT_TRUE(status.ok()) << status.message();
}

class VerifierRules : public BrokenSample {};

TEST_P(VerifierRules, Broken) { VerifierRefuses(MakeSample()); }

void SetOp(Sample& s, uint32_t kernel, Tape Part::*tape, size_t k, TapeInst inst) {
  Edit(PartOf(s, kernel).*tape, k) = inst;
}
TapeInst& StageInst(Sample& s, size_t stage, size_t k) { return Edit(PartOf(s, 2).stages[stage].tape, k); }

void Replicate(Sample& s, uint32_t buffer) {
  Edit(ProgramOf(s, 1).inputs, 0).replicas = List<uint32_t>(s.arena, {buffer});
}

const Broken kPlanRules[] = {
    {"NoDevices", [](Sample& s) { s.data.requirements.devices = {}; }, "0 devices"},
    {"RegionTooLarge", [](Sample& s) { Edit(s.data.requirements.devices, 0).state = ~0ull; }, "exceed"},
    {"WorkspaceMoreThanArena", [](Sample& s) { Edit(s.data.requirements.devices, 0).workspace = 4096; },
     "workspace of 4096"},
    {"MoreScratchThanStated", [](Sample& s) { s.data.requirements.scratch = 1 << 20; },
     "bytes of scratch a thread; the limit is 1048576"},
    {"MoreWorkThanStated", [](Sample& s) { s.data.requirements.work = 100; },
     "steps a run; the limit is 100"},
    // A row of 2^50 elements with 16 kept rows: 2^57 bytes, which lanes of 256 make 2^64 and more.
    {"KeptRowsBeyondAllMemory",
     [](Sample& s) {
       s.data.requirements = {s.data.requirements.devices, s.data.requirements.target, 0, 0, 0};
       Part& p = PartOf(s, 2);
       p.loops = List<int64_t>(s.arena, {1, int64_t{1} << 49, 2});
       p.outer = 1;
       p.reduced = 2;
       p.kept = 16;
       for (size_t i = 0; i < p.operands.size(); ++i)
         OperandOf(s, 2, static_cast<uint32_t>(i)).strides = List<int64_t>(s.arena, {0, 0, 0});
       p.sequential = true;
     },
     "bytes of scratch a thread; the limit is 4294967296"},
    {"WeightsTooLarge", [](Sample& s) { s.data.weights_bytes = ~0ull; }, "bytes of weights exceed"},
    {"WeightsFileWithFolder", [](Sample& s) { s.data.weights_file = "../w"; }, "not the plain name"},
    {"NoPrograms",
     [](Sample& s) {
       s.data.programs = {};
       s.data.buffers = {};
     },
     "no programs"},
    {"TwoProgramsOfOneName", [](Sample& s) { ProgramOf(s, 1).name = "main"; }, "\"main\""},
    {"ProgramWithoutName", [](Sample& s) { ProgramOf(s, 1).name = ""; }, "no name"},
    {"TwoKernelsOfOneName", [](Sample& s) { Edit(s.data.kernels, 1).name = "k0_matmul"; }, "\"k0_matmul\""},
};

const Broken kBufferRules[] = {
    {"Kind", [](Sample& s) { BufferOf(s, kX).kind = static_cast<BufferKind>(9); }, "kind 9"},
    {"DType", [](Sample& s) { BufferOf(s, kX).dtype = static_cast<DType>(77); }, "dtype 77"},
    {"Device", [](Sample& s) { BufferOf(s, kX).device = 2; }, "device 2 of 2"},
    {"Program", [](Sample& s) { BufferOf(s, kX).program = 2; }, "program 2 of 2"},
    {"SharedOfAProgram", [](Sample& s) { BufferOf(s, kW).program = 0; }, "cannot belong to program 0"},
    {"Bytes", [](Sample& s) { BufferOf(s, kH).bytes = ~0ull; }, "exceed"},
    {"BytesOfShape", [](Sample& s) { BufferOf(s, kX).bytes = 132; }, "shape needs 128"},
    {"NegativeExtent", [](Sample& s) { BufferOf(s, kX).shape[0] = -4; }, "-4"},
    {"ShapeOverflows",
     [](Sample& s) {
       BufferOf(s, kX).shape[0] = int64_t{1} << 62;
       BufferOf(s, kX).shape[1] = int64_t{1} << 62;
     },
     "more than"},
    {"Rank", [](Sample& s) { BufferOf(s, kX).shape.rank = 13; }, "rank 13"},
    {"AlignmentZero", [](Sample& s) { BufferOf(s, kX).alignment = 0; }, "alignment 0"},
    {"AlignmentNoPowerOfTwo", [](Sample& s) { BufferOf(s, kX).alignment = 48; }, "alignment 48"},
    {"AlignmentBelowElement", [](Sample& s) { BufferOf(s, kX).alignment = 2; }, "alignment 2"},
    {"OffsetUnaligned", [](Sample& s) { BufferOf(s, kH).offset = 260; }, "260 is not a multiple"},
    {"OutsideArena", [](Sample& s) { BufferOf(s, kH).offset = 1856; }, "outside the 2048 bytes"},
    {"OutsideProgramsArena", [](Sample& s) { ProgramOf(s, 0).arena_bytes = 1984; }, "outside the 1984 bytes"},
    {"OffsetOverflows", [](Sample& s) { BufferOf(s, kH).offset = ~0ull << 6; }, "outside"},
    {"OutsideWeights", [](Sample& s) { BufferOf(s, kTable).offset = 576; }, "outside the 1152 bytes"},
    {"OutsideState", [](Sample& s) { BufferOf(s, kCache).offset = 64; }, "outside the 512 bytes"},
    {"LastStep", [](Sample& s) { BufferOf(s, kH).last_step = 9; }, "last step is 9 of 9"},
    {"Source", [](Sample& s) { BufferOf(s, kH).source = 6; }, "source 6 of 6"},
    {"AliasRange", [](Sample& s) { BufferOf(s, kP).aliases = 99; }, "aliases buffer 99"},
    {"AliasSelf", [](Sample& s) { BufferOf(s, kP).aliases = kP; }, "aliases buffer"},
    {"AliasOtherRegion", [](Sample& s) { BufferOf(s, kP).aliases = kCache; }, "region"},
    {"AliasOtherProgram", [](Sample& s) { BufferOf(s, kP).aliases = kSum0; }, "region"},
    {"AliasCycle", [](Sample& s) { BufferOf(s, kH).aliases = kP; }, "aliases itself"},
    {"WeightSource", [](Sample& s) { BufferOf(s, kW).weight = static_cast<WeightSource>(3); }, "source 3"},
    {"WeightOutsideFile", [](Sample& s) { BufferOf(s, kW).file_offset = 64; }, "outside their 512"},
    {"WeightUnaligned",
     [](Sample& s) {
       BufferOf(s, kW).file_offset = 4;
       s.data.weights_bytes = 1024;
     },
     "multiple of its alignment"},
    {"SyntheticScale", [](Sample& s) { BufferOf(s, kTable).synthetic_scale = __builtin_inff(); },
     "not finite"},
    {"InputWithoutPort",
     [](Sample& s) {
       Program& p = ProgramOf(s, 1);
       p.inputs = p.inputs.subspan(0, 1);
     },
     "no port"},
};

const Broken kKernelRules[] = {
    {"NoParts",
     [](Sample& s) {
       Edit(s.data.kernels, 0).parts = {};
       Edit(s.data.kernels, 0).num_params = 0;
     },
     "no parts"},
    {"Skeleton", [](Sample& s) { PartOf(s, 0).skeleton = static_cast<Skeleton>(6); }, "skeleton 6"},
    {"Combine", [](Sample& s) { PartOf(s, 7).combine = static_cast<Combine>(4); }, "combine 4"},
    {"AccType", [](Sample& s) { PartOf(s, 0).acc_type = static_cast<TapeType>(3); }, "type 3"},
    {"Tf32OfAMap", [](Sample& s) { PartOf(s, 5).tf32 = true; }, "has no factors in tf32"},
    {"NoLoops", [](Sample& s) { PartOf(s, 5).loops = {}; }, "0 loops"},
    {"TooManyLoops",
     [](Sample& s) {
       PartOf(s, 5).loops = List<int64_t>(s.arena, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
     },
     "17 loops"},
    {"LoopOfNoExtent", [](Sample& s) { Edit(PartOf(s, 5).loops, 0) = 0; }, "extent 0"},
    {"PointsOverflow",
     [](Sample& s) { Edit(PartOf(s, 5).loops, 0) = Edit(PartOf(s, 5).loops, 1) = int64_t{1} << 40; },
     "points"},
    {"CountsDoNotSum", [](Sample& s) { PartOf(s, 5).outer = 1; }, "roles need 1 loops"},
    {"CountsOfMap",
     [](Sample& s) {
       PartOf(s, 5).outer = 1;
       PartOf(s, 5).n = 1;
     },
     "cannot have"},
    {"CountsOfReduction",
     [](Sample& s) {
       PartOf(s, 2).outer = 2;
       PartOf(s, 2).reduced = 0;
     },
     "cannot have"},
    {"CountsOfConvolution",
     [](Sample& s) {
       PartOf(s, 7).m = 1;
       PartOf(s, 7).n = 2;
     },
     "cannot have"},
    {"CountsOfAttention",
     [](Sample& s) {
       PartOf(s, 6).n = 2;
       PartOf(s, 6).features = 0;
     },
     "cannot have"},
    {"OperandParameter", [](Sample& s) { OperandOf(s, 0, 0).param = 3; }, "parameter 3 of 3"},
    {"ParameterUnused", [](Sample& s) { OperandOf(s, 6, 1).param = OperandOf(s, 6, 2).param = 0; },
     "no operand uses"},
    {"OperandDType", [](Sample& s) { OperandOf(s, 0, 0).dtype = static_cast<DType>(kNumDTypes); },
     "dtype 15"},
    {"OperandMode", [](Sample& s) { OperandOf(s, 0, 0).mode = static_cast<Mode>(3); }, "mode 3"},
    {"OperandStrides", [](Sample& s) { OperandOf(s, 0, 0).strides = {}; }, "0 strides for 3 loops"},
    {"StrideOverflows", [](Sample& s) { Edit(OperandOf(s, 5, 1).strides, 0) = INT64_MIN; }, "reach further"},
    {"OffsetOverflows", [](Sample& s) { OperandOf(s, 5, 1).offset = INT64_MAX; }, "reach further"},
    {"GuardStrides", [](Sample& s) { Edit(OperandOf(s, 5, 0).guards, 0).strides = {}; },
     "0 strides for 2 loops"},
    {"GuardExtent", [](Sample& s) { Edit(OperandOf(s, 5, 0).guards, 0).extent = 0; }, "extent 0"},
    {"GuardOverflows", [](Sample& s) { Edit(OperandOf(s, 5, 0).guards, 0).stride = INT64_MAX; },
     "reach further"},
    {"GuardStrideOverflows",
     [](Sample& s) { Edit(Edit(OperandOf(s, 5, 0).guards, 0).strides, 0) = INT64_MAX / 2; }, "reach further"},
    {"IndirectExtent", [](Sample& s) { Edit(OperandOf(s, 1, 1).indirects, 0).extent = 0; }, "extent 0"},
    {"IndirectOverflows", [](Sample& s) { Edit(OperandOf(s, 1, 1).indirects, 0).stride = INT64_MAX; },
     "reach further"},
    {"IndirectOperand", [](Sample& s) { Edit(OperandOf(s, 1, 1).indirects, 0).operand = 3; },
     "operand 3 of 3"},
    {"IndirectOfFloat", [](Sample& s) { OperandOf(s, 1, 0).dtype = DType::kF32; }, "read-only integer"},
    {"IndirectOfWritten", [](Sample& s) { OperandOf(s, 1, 0).mode = Mode::kReadWrite; }, "read-only"},
    {"IndirectOfIndirect", [](Sample& s) { Edit(OperandOf(s, 1, 1).indirects, 0).operand = 1; },
     "read-only integer"},
    {"BodyMissing", [](Sample& s) { PartOf(s, 5).body = {}; }, "needs a body"},
    {"BodyOfContraction", [](Sample& s) { PartOf(s, 0).body = PartOf(s, 5).body; }, "cannot have a body"},
    {"EpilogueMissing", [](Sample& s) { PartOf(s, 0).epilogue = {}; }, "needs an epilogue"},
    {"EpilogueOfMap", [](Sample& s) { PartOf(s, 5).epilogue = PartOf(s, 5).body; },
     "cannot have an epilogue"},
    {"StagesMissing", [](Sample& s) { PartOf(s, 2).stages = {}; }, "needs stages"},
    {"PrologueOfAttention", [](Sample& s) { PartOf(s, 6).prologue = PartOf(s, 0).prologue; },
     "cannot have a prologue"},
    {"ScalarsOfMap", [](Sample& s) { PartOf(s, 5).scalars = 1; }, "cannot have row scalars"},
    {"TooManyScalars", [](Sample& s) { PartOf(s, 2).scalars = 17; }, "17 row scalars"},
    {"LhsMissing", [](Sample& s) { PartOf(s, 0).lhs = kNoOperand; }, "needs its lhs"},
    {"LhsOfMap", [](Sample& s) { PartOf(s, 5).lhs = 0; }, "has no lhs"},
    {"LhsRange", [](Sample& s) { PartOf(s, 0).lhs = 9; }, "operand 9 of 3"},
    {"LhsWritten", [](Sample& s) { PartOf(s, 0).lhs = 2; }, "not only read"},
    {"LhsMovesWithN", [](Sample& s) { Edit(OperandOf(s, 0, 0).strides, 1) = 1; }, "moves with loop 1"},
    {"RhsMovesWithM", [](Sample& s) { Edit(OperandOf(s, 0, 1).strides, 0) = 1; }, "moves with loop 0"},
    {"RhsMissing", [](Sample& s) { PartOf(s, 0).rhs = {}; }, "not 0"},
    {"RhsType", [](Sample& s) { OperandOf(s, 0, 1).dtype = DType::kI32; }, "accumulators' type"},
    {"RhsOfMap", [](Sample& s) { PartOf(s, 5).rhs = List<uint16_t>(s.arena, {0}); }, "rhs"},
    {"KeysOfContraction", [](Sample& s) { PartOf(s, 0).keys = 1; }, "has no keys"},
    {"KeysMissing", [](Sample& s) { PartOf(s, 6).keys = kNoOperand; }, "needs its k"},
    {"LimitType", [](Sample& s) { OperandOf(s, 6, 3).dtype = DType::kI32; }, "not i64"},
    {"MaskType", [](Sample& s) { PartOf(s, 6).mask = 3; }, "neither bool nor float"},
    {"ConvolutionWithoutWeight", [](Sample& s) { PartOf(s, 7).combine = Combine::kProduct; },
     "needs its weight"},
    {"PoolWithChannels", [](Sample& s) { Edit(PartOf(s, 7).loops, 4) = 2; }, "a pool with"},
    {"SaidToBeWritten",
     [](Sample& s) {
       PartOf(s, 3).operands =
           List<Operand>(s.arena, {OperandOf(s, 3, 0), OperandOf(s, 3, 1), OperandOf(s, 3, 1)});
     },
     "no tape stores to it"},
    {"StoresCoincide", [](Sample& s) { Edit(OperandOf(s, 5, 1).strides, 0) = 0; }, "same element"},
    {"StoresOverlap", [](Sample& s) { Edit(OperandOf(s, 5, 1).strides, 0) = 7; }, "same element"},
};

const Broken kTapeRules[] = {
    {"UnknownOp", [](Sample& s) { SetOp(s, 5, &Part::body, 0, Apply(static_cast<TapeOp>(7), 0)); },
     "unknown op"},
    {"UnknownType", [](Sample& s) { Edit(PartOf(s, 5).body, 0).type = static_cast<TapeType>(3); },
     "unknown type"},
    {"TooLong",
     [](Sample& s) { PartOf(s, 5).body = ListOf(s.arena, std::vector<TapeInst>(kMaxTape + 1, Number(0))); },
     "4097 instructions"},
    {"RegisterNotEarlier", [](Sample& s) { Edit(PartOf(s, 5).body, 1).a = 1; }, "not an earlier one"},
    {"RegisterOfEffect",
     [](Sample& s) {
       PartOf(s, 5).body = List<TapeInst>(s.arena, {Load(0), Store(0, 1), Store(1, 1)});
     },
     "no value"},
    {"LoadRange", [](Sample& s) { Edit(PartOf(s, 5).body, 0).arg = 2; }, "operand 2 of 2"},
    {"LoadOfWritten", [](Sample& s) { Edit(PartOf(s, 5).body, 0).arg = 1; }, "only writes"},
    {"LoadType", [](Sample& s) { Edit(PartOf(s, 5).body, 0).type = TapeType::kI64; }, "loads f32"},
    {"StoreOfRead", [](Sample& s) { Edit(PartOf(s, 5).body, 1).arg = 0; }, "only reads"},
    {"StoreType", [](Sample& s) { OperandOf(s, 5, 1).dtype = DType::kI32; }, "as i32"},
    {"StoreInPrologue", [](Sample& s) { SetOp(s, 0, &Part::prologue, 1, Store(0, 2)); }, "not allowed here"},
    {"IndexRange", [](Sample& s) { SetOp(s, 5, &Part::body, 0, Slot(TapeOp::kIndex, 2)); }, "loop 2"},
    {"IndexOfReducedLoop", [](Sample& s) { SetOp(s, 0, &Part::epilogue, 1, Slot(TapeOp::kIndex, 2)); },
     "loop 2"},
    {"IndexType", [](Sample& s) { SetOp(s, 5, &Part::body, 0, Slot(TapeOp::kIndex, 0)); }, "type i64"},
    {"AccInBody", [](Sample& s) { SetOp(s, 5, &Part::body, 0, Slot(TapeOp::kAcc, 0)); },
     "not to be used here"},
    {"AccRange", [](Sample& s) { Edit(PartOf(s, 0).epilogue, 0).arg = 1; }, "number 1 of 1"},
    {"AccType", [](Sample& s) { Edit(PartOf(s, 0).epilogue, 0).type = TapeType::kF64; },
     "accumulators' type"},
    {"ScalarInBody", [](Sample& s) { SetOp(s, 5, &Part::body, 0, Slot(TapeOp::kScalar, 0)); },
     "not to be used"},
    {"ScalarRange", [](Sample& s) { StageInst(s, 1, 1).arg = 3; }, "number 3 of 3"},
    {"ScalarBeforeSet", [](Sample& s) { StageInst(s, 1, 1).arg = 2; }, "before it is set"},
    {"ScalarWhileReduced",
     [](Sample& s) {
       StageInst(s, 1, 5).arg = 0;
       StageInst(s, 2, 0).arg = 1;
     },
     "before it is set"},
    {"ScalarType", [](Sample& s) { StageInst(s, 0, 1).op = TapeOp::kReduceArgMax; }, "another type"},
    {"ScalarSetPerElement", [](Sample& s) { StageInst(s, 3, 2) = Slot(TapeOp::kSetScalar, 0, 1); },
     "not to be used"},
    {"KeptInRow", [](Sample& s) { StageInst(s, 2, 0) = Slot(TapeOp::kKept, 0); }, "not to be used here"},
    {"KeptRange", [](Sample& s) { StageInst(s, 1, 4).arg = 1; }, "number 1 of 1"},
    {"ReduceInRow", [](Sample& s) { StageInst(s, 2, 2).op = TapeOp::kReduceSum; }, "not to be used here"},
    {"ReduceTwice", [](Sample& s) { StageInst(s, 1, 4) = Slot(TapeOp::kReduceSum, 1, 3); }, "twice"},
    {"ArgImm",
     [](Sample& s) {
       StageInst(s, 0, 1).op = TapeOp::kReduceArgMax;
       StageInst(s, 0, 1).imm.i = 2;
     },
     "neither 0 nor 1"},
    {"YieldInBody", [](Sample& s) { SetOp(s, 5, &Part::body, 1, Apply(TapeOp::kYield, 0)); },
     "only a prologue"},
    {"YieldMissing", [](Sample& s) { SetOp(s, 0, &Part::prologue, 3, Apply(TapeOp::kNeg, 2)); }, "its yield"},
    {"YieldType",
     [](Sample& s) {
       PartOf(s, 0).acc_type = TapeType::kF64;
       OperandOf(s, 0, 1).dtype = DType::kF64;
     },
     "accumulators' type"},
    {"UnaryType",
     [](Sample& s) { SetOp(s, 0, &Part::epilogue, 1, Apply(TapeOp::kNeg, 0, 0, 0, TapeType::kF64)); },
     "not of its type"},
    {"BinaryType", [](Sample& s) { Edit(PartOf(s, 0).epilogue, 1).type = TapeType::kF64; },
     "not of its type"},
    {"CompareType", [](Sample& s) { SetOp(s, 0, &Part::epilogue, 2, Apply(TapeOp::kLess, 0, 1)); },
     "its result has type i64"},
    {"SelectType", [](Sample& s) { SetOp(s, 0, &Part::epilogue, 2, Apply(TapeOp::kSelect, 0, 0, 1)); },
     "not i64"},
    {"BitsOfFloat", [](Sample& s) { SetOp(s, 0, &Part::epilogue, 2, Apply(TapeOp::kBitAnd, 0, 1)); },
     "bit operation"},
    {"CastRange",
     [](Sample& s) {
       TapeInst cast = Apply(TapeOp::kCast, 0);
       cast.imm.i = kNumDTypes;
       SetOp(s, 0, &Part::epilogue, 1, cast);
     },
     "dtype 15"},
    {"CastType",
     [](Sample& s) {
       TapeInst cast = Apply(TapeOp::kCast, 0);
       cast.imm.i = static_cast<int64_t>(DType::kI32);
       SetOp(s, 0, &Part::epilogue, 1, cast);
     },
     "not its dtype's"},
    {"IsNanType", [](Sample& s) { SetOp(s, 0, &Part::epilogue, 1, Apply(TapeOp::kIsNan, 0)); }, "type i64"},
    {"OperandMovesWithReducedLoop", [](Sample& s) { Edit(OperandOf(s, 0, 2).strides, 2) = 64; },
     "moves with loop 2"},
    {"StoresNothing",
     [](Sample& s) {
       PartOf(s, 5).body = List<TapeInst>(s.arena, {Load(0)});
       OperandOf(s, 5, 1).mode = Mode::kRead;
     },
     "stores nothing"},
};

// A map that stores what it loads, and combines all of it into a single number.
Part& Combining(Sample& s, TapeOp op = TapeOp::kCombineMax) {
  Part& p = PartOf(s, 5);
  p.operands = List<Operand>(
      s.arena, {OperandOf(s, 5, 0), OperandOf(s, 5, 1), Access(s.arena, 1, Mode::kReadWrite, {0, 0})});
  p.body = List<TapeInst>(s.arena, {Load(0), Store(0, 1), Slot(op, 2, 0)});
  return p;
}

TEST(Verifier, AMapMayCombineAllPointsIntoOneNumber) {
  Sample s = MakeSample();
  Combining(s);
  const Status status = VerifyPlan(s.data);
  EXPECT_TRUE(status.ok()) << status.message();
}

const Broken kCombineRules[] = {
    {"NotOneElement", [](Sample& s) { Edit(Edit(Combining(s).operands, 2).strides, 1) = 1; },
     "not one f32 that is read and written"},
    {"Guarded", [](Sample& s) { Edit(Combining(s).operands, 2).guards = OperandOf(s, 5, 0).guards; },
     "not one f32 that is read and written"},
    {"OnlyWritten", [](Sample& s) { Edit(Combining(s).operands, 2).mode = Mode::kWrite; },
     "not one f32 that is read and written"},
    {"OfIntegers", [](Sample& s) { Edit(Combining(s).operands, 2).dtype = DType::kI32; },
     "not one f32 that is read and written"},
    {"InTwoWays",
     [](Sample& s) {
       Combining(s).body = List<TapeInst>(
           s.arena, {Load(0), Store(0, 1), Slot(TapeOp::kCombineMax, 2, 0), Slot(TapeOp::kCombineMin, 2, 0)});
     },
     "touched otherwise"},
    {"LoadedAsWell",
     [](Sample& s) {
       Combining(s).body =
           List<TapeInst>(s.arena, {Load(0), Load(2), Store(0, 1), Slot(TapeOp::kCombineMax, 2, 0)});
     },
     "touched otherwise"},
    {"InAPrologue", [](Sample& s) { SetOp(s, 0, &Part::prologue, 3, Slot(TapeOp::kCombineMax, 2, 0)); },
     "only bodies, epilogues and stages combine"},
};

const Broken kProgramRules[] = {
    {"ArenaMoreThanDevices", [](Sample& s) { ProgramOf(s, 0).arena_bytes = 4096; }, "arena of 4096"},
    {"LowerBoundMoreThanArena", [](Sample& s) { ProgramOf(s, 0).arena_lower_bound = 2049; },
     "lower bound of 2049"},
    {"Streams", [](Sample& s) { ProgramOf(s, 0).num_streams = 0; }, "0 streams"},
    {"Events", [](Sample& s) { ProgramOf(s, 0).num_events = 10; }, "10 events"},
    {"PortBuffer", [](Sample& s) { Edit(ProgramOf(s, 0).inputs, 0).buffer = 99; }, "buffer 99 of 19"},
    {"PortKind", [](Sample& s) { Edit(ProgramOf(s, 0).inputs, 0).buffer = kY; }, "not its input"},
    {"PortState", [](Sample& s) { Edit(ProgramOf(s, 0).inputs, 2).is_state = false; }, "not its input"},
    {"PortOfOtherProgram", [](Sample& s) { Edit(ProgramOf(s, 0).inputs, 0).buffer = kIn0; }, "of program 1"},
    {"TwoPortsOfOneName", [](Sample& s) { Edit(ProgramOf(s, 0).inputs, 1).name = "x"; }, "\"x\""},
    {"TwoInputsInOneBuffer", [](Sample& s) { Edit(ProgramOf(s, 1).inputs, 1).buffer = kIn0; },
     "two of its inputs"},
    {"ReplicaBuffer", [](Sample& s) { Replicate(s, 99); }, "replica buffer 99 of 19"},
    {"ReplicaOfState", [](Sample& s) { Replicate(s, kCache); }, "only inputs are replicated"},
    {"ReplicaKind", [](Sample& s) { Replicate(s, kOut1); }, "only inputs are replicated"},
    {"ReplicaDevice", [](Sample& s) { Replicate(s, kIn0); }, "devices must ascend from 0 on"},
    {"ReplicaShape",
     [](Sample& s) {
       Replicate(s, kIn1);
       BufferOf(s, kIn1).shape = Shape({4, 4});
     },
     "has not the dtype and shape"},
    {"ReplicaTwice", [](Sample& s) { Replicate(s, kIn1); }, "two of its inputs"},
    {"StepKind", [](Sample& s) { StepOf(s, 0).kind = static_cast<StepKind>(5); }, "kind 5"},
    {"StepDevice", [](Sample& s) { StepOf(s, 0).device = 2; }, "device 2 of 2"},
    {"StepStream", [](Sample& s) { StepOf(s, 0).stream = 2; }, "stream 2 of 2"},
    {"StepKernel", [](Sample& s) { StepOf(s, 0).kernel = 8; }, "kernel 8 of 8"},
    {"StepSource", [](Sample& s) { StepOf(s, 0).source = 6; }, "source 6 of 6"},
    {"Bindings", [](Sample& s) { StepOf(s, 0).bindings = StepOf(s, 2).bindings; }, "2 bindings for the 3"},
    {"BindingBuffer", [](Sample& s) { Edit(StepOf(s, 0).bindings, 0).buffer = 99; }, "buffer 99 of 19"},
    {"BindingOfOtherProgram", [](Sample& s) { Edit(StepOf(s, 0).bindings, 0).buffer = kIn0; },
     "of program 1"},
    {"BindingOfOtherDevice", [](Sample& s) { Edit(StepOf(s, 2, 1).bindings, 0).buffer = kSum1; },
     "of device 1"},
    {"BindingOffset", [](Sample& s) { Edit(StepOf(s, 0).bindings, 0).offset = 1ull << 63; },
     "is bound to byte"},
    {"BindingUnaligned", [](Sample& s) { Edit(StepOf(s, 1).bindings, 0).offset = 2; }, "is bound to byte 2"},
    {"ReadsPastTheEnd", [](Sample& s) { Edit(StepOf(s, 0).bindings, 0).offset = 4; }, "bytes [4, 132)"},
    {"ReadsBeforeTheStart", [](Sample& s) { OperandOf(s, 0, 0).offset = -1; }, "bytes [-4, 124)"},
    {"WritesPastTheEnd", [](Sample& s) { OperandOf(s, 3, 1, 1).offset = 17; }, "which has 512"},
    {"IndirectPastTheEnd", [](Sample& s) { Edit(OperandOf(s, 1, 1).indirects, 0).extent = 11; },
     "bytes [0, 704)"},
    {"GuardPastTheEnd", [](Sample& s) { Edit(OperandOf(s, 5, 0).guards, 0).extent = 5; }, "bytes [0, 160)"},
    {"LaunchWithSyncPoint", [](Sample& s) { StepOf(s, 0).sync_point = 0; }, "no sync point"},
    {"CopyBindings", [](Sample& s) { StepOf(s, 5).bindings = {}; }, "2 bindings"},
    {"CopyWithKernel", [](Sample& s) { StepOf(s, 5).kernel = 0; }, "neither kernel"},
    {"CopyBytes", [](Sample& s) { StepOf(s, 5).bytes = 513; }, "which has 512"},
    {"CopyNothing", [](Sample& s) { StepOf(s, 5).bytes = 0; }, "copy of 0"},
    {"WaitsRange", [](Sample& s) { Edit(StepOf(s, 3).waits, 0) = 1; }, "event 1 of 1"},
    {"WaitsUnrecorded", [](Sample& s) { StepOf(s, 1).records = kNone; }, "no earlier step records"},
    {"RecordsRange", [](Sample& s) { StepOf(s, 1).records = 1; }, "event 1 of 1"},
    {"RecordsTwice", [](Sample& s) { StepOf(s, 2).records = 0; }, "as step 1 does"},
    {"AfterLater", [](Sample& s) { Edit(StepOf(s, 5).after, 0) = 5; }, "not an earlier one"},
    {"PartitionReason",
     [](Sample& s) { Edit(ProgramOf(s, 0).partitions, 0).reason = static_cast<BreakReason>(5); }, "reason 5"},
    {"PartitionGap", [](Sample& s) { Edit(ProgramOf(s, 0).partitions, 1).first_step = 7; },
     "must begin at 6"},
    {"PartitionEmpty", [](Sample& s) { Edit(ProgramOf(s, 0).partitions, 0).num_steps = 0; }, "partition 0"},
    {"PartitionTooLong", [](Sample& s) { Edit(ProgramOf(s, 0).partitions, 1).num_steps = 4; }, "end by 9"},
    {"PartitionsEndEarly", [](Sample& s) { Edit(ProgramOf(s, 0).partitions, 1).num_steps = 2; },
     "end at step 8 of 9"},
    {"PartitionDevice", [](Sample& s) { Edit(ProgramOf(s, 1).partitions, 1).device = 0; },
     "its step 3 of device 1"},
};

SyncPoint& Point(Sample& s) { return Edit(ProgramOf(s, 1).sync_points, 0); }

const Broken kCollectiveRules[] = {
    {"Op", [](Sample& s) { Point(s).op = static_cast<CollectiveOp>(6); }, "op 6"},
    {"DType", [](Sample& s) { Point(s).dtype = static_cast<DType>(kNumDTypes); }, "dtype 15"},
    {"Bytes", [](Sample& s) { Point(s).bytes = 62; }, "62 bytes"},
    {"BytesPastTheEnd", [](Sample& s) { Point(s).bytes = 68; }, "which has 64"},
    {"GatherPastTheEnd", [](Sample& s) { Point(s).op = CollectiveOp::kAllGather; }, "bytes [0, 128)"},
    {"ScatterPastTheEnd", [](Sample& s) { Point(s).op = CollectiveOp::kReduceScatter; }, "bytes [0, 128)"},
    {"Source", [](Sample& s) { Point(s).source = 6; }, "source 6"},
    {"Communicator", [](Sample& s) { Point(s).communicator = 1; }, "communicator 1"},
    {"NoParticipants", [](Sample& s) { Point(s).participants = {}; }, "no participants"},
    {"Participant", [](Sample& s) { Edit(Point(s).participants, 1) = 2; }, "participant 2"},
    {"ParticipantTwice", [](Sample& s) { Edit(Point(s).participants, 1) = 0; }, "not ascending"},
    {"NotAParticipant",
     [](Sample& s) {
       Point(s).participants = List<uint32_t>(s.arena, {0});
       Edit(ProgramOf(s, 1).certificates, 0) = OrderCertificate(s.data.programs[1], 0);
     },
     "no participant"},
    {"StepSyncPoint", [](Sample& s) { StepOf(s, 0, 1).sync_point = 1; }, "sync point 1 of 1"},
    {"StartBindings", [](Sample& s) { StepOf(s, 0, 1).bindings = {}; }, "has 2 bindings"},
    {"WaitBindings", [](Sample& s) { StepOf(s, 1, 1).bindings = StepOf(s, 0, 1).bindings; },
     "has 0 bindings"},
    {"NeverWaited",
     [](Sample& s) {
       Step& wait = StepOf(s, 1, 1);
       wait = StepOf(s, 2, 1);
     },
     "never waits for"},
    {"BufferOfAnotherDType", [](Sample& s) { BufferOf(s, kSum1).dtype = DType::kI32; },
     "step 3 (AllReduce \"sum\"): device 1, sync point 0: parameter 1 is bound to buffer 17 \"sum1\" of i32, "
     "but "
     "the collective is of f32"},
    {"WaitedBeforeStart", [](Sample& s) { std::swap(StepOf(s, 0, 1), StepOf(s, 1, 1)); }, "not in flight"},
    {"WaitedInAnotherPartition",
     [](Sample& s) {
       Program& p = ProgramOf(s, 1);
       std::swap(StepOf(s, 1, 1), StepOf(s, 2, 1));
       std::vector<Partition> parts(3);
       parts[0].num_steps = 2;
       parts[1].first_step = 2;
       parts[1].num_steps = 1;
       parts[2].first_step = parts[2].num_steps = 3;
       parts[2].device = 1;
       p.partitions = ListOf(s.arena, parts);
     },
     "another partition"},
    {"VariantOfItself", [](Sample& s) { ProgramOf(s, 1).variant_of = 1; }, "is out of order"},
    {"VariantBeforeAProgram", [](Sample& s) { ProgramOf(s, 0).variant_of = 0; }, "is out of order"},
    {"VariantOfNothing", [](Sample& s) { ProgramOf(s, 1).variant_of = 7; }, "is out of order"},
    {"Certificate", [](Sample& s) { Edit(ProgramOf(s, 1).certificates, 1) ^= 1; }, "order certificate"},
    {"CertificateCount", [](Sample& s) { ProgramOf(s, 1).certificates = {}; }, "0 order certificates"},
    {"OneDeviceTakesNoPart",
     [](Sample& s) {
       Program& p = ProgramOf(s, 1);
       StepOf(s, 3, 1) = StepOf(s, 4, 1) = StepOf(s, 5, 1);
       Edit(p.certificates, 1) = OrderCertificate(p, 1);
     },
     "device 1, sync point 0 (AllReduce \"sum\"): the device takes part in it, but never starts it"},
};

INSTANTIATE_TEST_SUITE_P(Combine, VerifierRules, testing::ValuesIn(kCombineRules), RuleName);
INSTANTIATE_TEST_SUITE_P(Plan, VerifierRules, testing::ValuesIn(kPlanRules), RuleName);
INSTANTIATE_TEST_SUITE_P(Buffers, VerifierRules, testing::ValuesIn(kBufferRules), RuleName);
INSTANTIATE_TEST_SUITE_P(Kernels, VerifierRules, testing::ValuesIn(kKernelRules), RuleName);
INSTANTIATE_TEST_SUITE_P(Tapes, VerifierRules, testing::ValuesIn(kTapeRules), RuleName);
INSTANTIATE_TEST_SUITE_P(Programs, VerifierRules, testing::ValuesIn(kProgramRules), RuleName);
INSTANTIATE_TEST_SUITE_P(Collectives, VerifierRules, testing::ValuesIn(kCollectiveRules), RuleName);

TEST(Verifier, NamesTheStepAndItsNode) {
  Sample s = MakeSample();
  OperandOf(s, 3, 1, 1).offset = 17;
  const Status status = VerifyPlan(s.data);
  const std::string message = status.message();
  EXPECT_NE(message.find("program \"main\": step 3 (Concat \"cat\")"), message.npos) << message;
  EXPECT_STREQ(status.source_node(), "Concat \"cat\"");
}

TEST(Verifier, NamesTheNodeOfAKernel) {
  Sample s = MakeSample();
  Edit(PartOf(s, 2).loops, 0) = 0;
  EXPECT_STREQ(VerifyPlan(s.data).source_node(), "Softmax \"sm\"");
}

TEST(Verifier, OrderOfCollectivesIsPartOfTheCertificate) {
  Sample s = MakeSample();
  const uint64_t before = OrderCertificate(s.data.programs[1], 0);
  Point(s).bytes = 32;
  EXPECT_NE(OrderCertificate(s.data.programs[1], 0), before);
}

TEST(Verifier, SequentialStoresMayCoincide) {
  Sample s = MakeSample();
  Edit(OperandOf(s, 5, 1).strides, 0) = 0;
  PartOf(s, 5).sequential = true;
  const Status status = VerifyPlan(s.data);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Verifier, RunningOutOfMemoryIsAnError) {
  static size_t left;
  const HostAllocator limited = {[](void*, size_t bytes, size_t alignment) -> void* {
                                   if (bytes > left) return nullptr;
                                   left -= bytes;
                                   return DefaultHostAllocator().allocate(nullptr, bytes, alignment);
                                 },
                                 DefaultHostAllocator().deallocate, nullptr};
  const Sample s = MakeSample();
  for (size_t limit = 0; limit < 16 << 10; limit += 200) {
    left = limit;
    const Status status = VerifyPlan(s.data, limited);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kOutOfMemory) << status.message();
    }
  }
}

}  // namespace
}  // namespace rondo
