// The check of single kernels, host driver against host driver. It reports nothing for right kernels, and
// reports each kind of fault that a wrapper driver puts into a kernel.
#include "tools/rondo/kernel_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "core/forwarding_driver.h"
#include "core/scalar.h"
#include "drivers/host/host_driver.h"
#include "tests/folders.h"
#include "tools/rondo/kernel_memory.h"
#include "tools/rondo/kernel_timer.h"

namespace rondo::tools {
namespace {

// The fault of a kernel, besides inverting the bytes of BrokenDevice::damage.
enum class Fault {
  kNone,
  kForgetsOne,     // does not write the first element of the output
  kSlightlyOff,    // one element off by a hundredth
  kIgnoresBounds,  // reports no index
};

// The host driver's device with one kernel broken.
class BrokenDevice : public ForwardingDevice {
 public:
  BrokenDevice(Device* inner, Fault fault) : ForwardingDevice(inner), fault_(fault) {}
  std::vector<int64_t> damage;  // byte offsets from the address of `param`
  int64_t steps_off = 0;        // number of bytes from there on that are increased by `greater_by`
  int8_t greater_by = 0;
  uint32_t param = 0;

  Status Synchronize(Stream* stream, uint32_t* step) override {
    Status status = inner_->Synchronize(stream, step);
    return fault_ == Fault::kIgnoresBounds ? Status::Ok() : status;
  }
  Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                uint32_t step) override {
    auto* at = reinterpret_cast<char*>(addresses[param]);
    float before, after;
    uint32_t step_of_fault = 0;
    std::memcpy(&before, at, sizeof(before));
    Status status = inner_->Launch(module, kernel, addresses, stream, step);
    std::memcpy(&after, at, sizeof(after));
    if (fault_ == Fault::kForgetsOne) std::memcpy(at, &before, sizeof(before));
    after += 0.01f;
    if (fault_ == Fault::kSlightlyOff) std::memcpy(at, &after, sizeof(after));
    if (steps_off > 0) (void)inner_->Synchronize(stream, &step_of_fault);
    for (int64_t i = 0; i < steps_off; ++i) at[i] = static_cast<char>(at[i] + greater_by);
    for (int64_t byte : damage) at[byte] = static_cast<char>(~at[byte]);
    return status;
  }

 private:
  Fault fault_;
};

// out[i][j] = table[index[i]][j] + 1 over [8, 4], the rows of out 6 elements apart.
struct GatherPlan {
  GatherPlan() {
    static constexpr int64_t kLoops[] = {8, 4}, kOutStrides[] = {6, 1}, kRow[] = {1, 0}, kColumn[] = {0, 1};
    part.loops = kLoops;
    indirect.operand = 1;
    indirect.stride = 4;
    indirect.extent = 10;
    operands[0].strides = kColumn;
    operands[0].indirects = Span<const Indirect>(&indirect, 1);
    operands[1].param = 1;
    operands[1].dtype = DType::kI64;
    operands[1].strides = kRow;
    operands[2].param = 2;
    operands[2].mode = Mode::kWrite;
    operands[2].strides = kOutStrides;
    tape[1].imm.f = 1;
    tape[0].op = TapeOp::kLoad;
    tape[2] = {.op = TapeOp::kAdd, .type = TapeType::kF32, .arg = 0, .a = 0, .b = 1, .c = 0, .imm = {}};
    tape[3] = {.op = TapeOp::kStore, .type = TapeType::kF32, .arg = 2, .a = 2, .b = 0, .c = 0, .imm = {}};
    part.outer = 2;
    part.operands = operands;
    part.body = tape;
    kernel.name = "gather_plus";
    kernel.num_params = 3;
    kernel.parts = Span<const Part>(&part, 1);
    plan.kernels = Span<const Kernel>(&kernel, 1);
  }
  Indirect indirect;
  Operand operands[3];
  TapeInst tape[4];
  Part part;
  Kernel kernel;
  PlanData plan;
};

// out[i] = exp(x[i]) over [128], quantised to bytes; the floats may differ between machines.
struct QuantisedPlan {
  static constexpr int64_t kElements = 128;
  QuantisedPlan() {
    static constexpr int64_t kLoops[] = {kElements}, kOne[] = {1};
    part.loops = kLoops;
    operands[0].strides = kOne;
    operands[1].strides = kOne;
    operands[1].param = 1;
    operands[1].mode = Mode::kWrite;
    operands[1].dtype = DType::kI8;
    tape[0].op = TapeOp::kLoad;
    tape[1] = {.op = TapeOp::kExp, .type = TapeType::kF32, .arg = 0, .a = 0, .b = 0, .c = 0, .imm = {}};
    tape[2] = {.op = TapeOp::kCast, .type = TapeType::kI64, .arg = 0, .a = 1, .b = 0, .c = 0, .imm = {}};
    tape[3] = {.op = TapeOp::kStore, .type = TapeType::kI64, .arg = 1, .a = 2, .b = 0, .c = 0, .imm = {}};
    part.outer = 1;
    part.operands = operands;
    part.body = tape;
    kernel.name = "quantised";
    kernel.num_params = 2;
    kernel.parts = Span<const Part>(&part, 1);
    plan.kernels = Span<const Kernel>(&kernel, 1);
  }
  Operand operands[2];
  TapeInst tape[4];
  Part part;
  Kernel kernel;
  PlanData plan;
};

// out[i] = exp(x[i]) / 2^20 over [128] in f16: below the smallest normal number, in steps of 2^-24.
struct TinyPlan : QuantisedPlan {
  TinyPlan() {
    operands[1].dtype = DType::kF16;
    tape[2] = {.op = TapeOp::kConst, .type = TapeType::kF32, .arg = 0, .a = 0, .b = 0, .c = 0, .imm = {}};
    tape[2].imm.f = 1.0 / (1 << 20);
    tiny[0] = tape[0], tiny[1] = tape[1], tiny[2] = tape[2];
    tiny[3] = {.op = TapeOp::kMul, .type = TapeType::kF32, .arg = 0, .a = 1, .b = 2, .c = 0, .imm = {}};
    tiny[4] = {.op = TapeOp::kStore, .type = TapeType::kF32, .arg = 1, .a = 3, .b = 0, .c = 0, .imm = {}};
    part.body = tiny;
  }
  TapeInst tiny[5];
};

class KernelCheck : public ::testing::Test {
 protected:
  void SetUp() override { host_ = *CreateHostDriver({}); }
  void TearDown() override { DestroyHostDriver(host_); }
  // All failures of the plan's kernels, joined.
  std::string Failures(const PlanData& plan, Driver* tested) {
    Result<std::vector<KernelVerdict>> verdicts = CheckKernels(plan, tested, host_, {});
    EXPECT_TRUE(verdicts.ok()) << verdicts.status().message();
    std::string all;
    if (!verdicts.ok()) return all;
    EXPECT_EQ(verdicts->size(), plan.kernels.size());
    for (const KernelVerdict& verdict : *verdicts) {
      for (const std::string& failure : verdict.failures) all += failure + "\n";
    }
    return all;
  }
  std::string Broken(Fault fault, uint32_t param, std::vector<int64_t> damage) {
    GatherPlan gather;
    BrokenDevice device(host_->Open(0).Take(), fault);
    device.param = param;
    device.damage = std::move(damage);
    OneDeviceDriver driver(host_, &device);
    return Failures(gather.plan, &driver);
  }
  // The failures of a plan with the first `bytes` bytes of its result increased by `step`.
  template <typename Plan = QuantisedPlan>
  std::string OffBy(int64_t bytes, int8_t step) {
    Plan made;
    BrokenDevice device(host_->Open(0).Take(), Fault::kNone);
    device.param = 1;
    device.steps_off = bytes;
    device.greater_by = step;
    OneDeviceDriver driver(host_, &device);
    return Failures(made.plan, &driver);
  }
  Driver* host_ = nullptr;
};

#define EXPECT_SAYS(text, words) EXPECT_NE((text).find(words), std::string::npos) << (text)

TEST_F(KernelCheck, HostAgreesWithItselfOnEveryKernelOfRealModels) {
  for (const char* model : {"pycoder/decode.onnx", "pycoder/prefill64.onnx", "fixtures/resnet/model.onnx",
                            "fixtures/bert_ts17/model.onnx", "fixtures/unet_op23/model.onnx"}) {
    CompileOptions options;
    options.models = {{"main", SourceFolder() + "/tests/data/" + model}};
    Result<CompiledPlan> compiled = CompileToMemory(options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(Failures(compiled->plan, host_), "") << model;
  }
}

TEST_F(KernelCheck, AKernelThatIsRightPasses) { EXPECT_EQ(Broken(Fault::kNone, 2, {}), ""); }

TEST_F(KernelCheck, WritesBeforeBehindBetweenAndIntoInputsAreFound) {
  // The last element written ends at byte 4 * (7 * 6 + 4); bytes 16 to 23 are a gap between rows.
  for (int64_t byte : {4 * 46, -1, 16, 23, 4 * 46 + 4000}) {
    const std::string text = Broken(Fault::kNone, 2, {byte});
    EXPECT_SAYS(text, "was overwritten");
    EXPECT_SAYS(text, "gather_plus");
  }
  EXPECT_SAYS(Broken(Fault::kNone, 0, {5}), "byte 5 from the start of parameter 0");
  EXPECT_SAYS(Broken(Fault::kNone, 1, {0}), "byte 0 from the start of parameter 1");
}

TEST_F(KernelCheck, WrongAndForgottenElementsAreFoundWithTheirPlace) {
  const std::string off = Broken(Fault::kSlightlyOff, 2, {});
  EXPECT_SAYS(off, "operand 2 (f32, parameter 2) has 1 wrong elements");
  EXPECT_SAYS(off, "at loop counters [0, 0]: got ");
  EXPECT_SAYS(off, ", expected ");
  EXPECT_SAYS(Broken(Fault::kForgetsOne, 2, {}), "nan, expected ");
}

TEST_F(KernelCheck, AnIndexOutsideItsBoundsMustBeReported) {
  EXPECT_SAYS(Broken(Fault::kIgnoresBounds, 2, {}), "an index outside its bounds was not reported");
}

// A sum of floats next to the middle between two quantisation steps may be rounded to either.
TEST(KernelTolerance, LetsQuantisedSumsOfFloatsBeOneStepOff) {
  Part part;
  Operand bytes, words, floats;
  bytes.dtype = DType::kI8;
  words.dtype = DType::kI64;
  floats.dtype = DType::kF32;
  part.skeleton = Skeleton::kAttention;
  EXPECT_EQ(KernelTolerance(part, bytes), 1);
  EXPECT_EQ(KernelTolerance(part, words), 0);
  part.skeleton = Skeleton::kMatMul;
  part.acc_type = TapeType::kF32;
  EXPECT_EQ(KernelTolerance(part, bytes), 1);
  part.acc_type = TapeType::kI64;
  EXPECT_EQ(KernelTolerance(part, bytes), 0);
  part.skeleton = Skeleton::kMap;
  EXPECT_EQ(KernelTolerance(part, bytes), 0);
  // A row's maximum is the same in any order; a sum of floats is not.
  TapeInst fold;
  Stage stage;
  stage.tape = Tape(&fold, 1);
  part.skeleton = Skeleton::kReduction;
  part.stages = Span<const Stage>(&stage, 1);
  part.acc_type = TapeType::kF32;
  fold.op = TapeOp::kReduceMax;
  EXPECT_EQ(KernelTolerance(part, bytes), 0);
  fold.op = TapeOp::kReduceSum;
  EXPECT_EQ(KernelTolerance(part, bytes), 1);
  part.skeleton = Skeleton::kMap;
  part.stages = {};
  EXPECT_EQ(KernelTolerance(part, floats), 0);
}

TEST_F(KernelCheck, FewBytesMayBeOneStepOffAndNoMore) {
  EXPECT_EQ(OffBy(3, 1), "");
  EXPECT_SAYS(OffBy(1, 2), "has 1 wrong elements");
  EXPECT_SAYS(OffBy(100, 1), "one step of quantisation in 100 of 128 elements, at most 3 may");
}

TEST_F(KernelCheck, TinyNumbersMayBeAStepOff) {
  EXPECT_EQ(OffBy<TinyPlan>(1, 1), "");
  EXPECT_SAYS(OffBy<TinyPlan>(1, 8), "has 1 wrong elements");
}

TEST(KernelMemory, IsTheSameForTheSameSeedAndIndicesAreInBounds) {
  GatherPlan gather;
  const KernelMemory a = MakeKernelMemory(gather.plan, 0, 3, IndexValues::kInRange);
  const KernelMemory b = MakeKernelMemory(gather.plan, 0, 3, IndexValues::kInRange);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_NE(a.bytes, MakeKernelMemory(gather.plan, 0, 4, IndexValues::kInRange).bytes);
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t index = scalar::Load<int64_t>(DType::kI64, a.bytes.data() + a.places[1], i);
    EXPECT_GE(index, 0);
    EXPECT_LT(index, 10);
  }
  EXPECT_FALSE(a.faults);
  EXPECT_TRUE(MakeKernelMemory(gather.plan, 0, 3, IndexValues::kOneOutside).faults);
}

// Another binary of a kernel, which on the host driver means the same contract and another tape.
TEST_F(KernelCheck, ImagesAreComparedWithTheOneThatRuns) {
  GatherPlan plan, same, other;
  other.tape[1].imm.f = 2;
  Result<std::vector<KernelVerdict>> verdicts =
      CheckBinaries(plan.plan, 0, {&same.plan, &other.plan, &same.plan}, host_, 1);
  ASSERT_TRUE(verdicts.ok()) << verdicts.status().message();
  ASSERT_EQ(verdicts->size(), 3u);
  EXPECT_TRUE((*verdicts)[0].failures.empty());
  EXPECT_FALSE((*verdicts)[1].failures.empty());
  EXPECT_TRUE((*verdicts)[2].failures.empty());
}

TEST_F(KernelCheck, KernelsAndRunsAreTimedOverMemoryAsThePlanLaysItOut) {
  CompileOptions options;
  const std::string data = SourceFolder() + "/tests/data/pycoder/";
  options.models = {{"prefill", data + "prefill64.onnx"}, {"decode", data + "decode.onnx"}};
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  KernelTimerOptions timing;
  timing.replays = 3;
  KernelTimer timer(compiled->plan, *host_->Open(0), timing);
  ASSERT_TRUE(timer.Open().ok());
  ASSERT_EQ(*timer.Load(compiled->plan), 0u);
  ASSERT_EQ(*timer.Load(compiled->plan), 1u);
  const Result<double> alone = timer.Time(0, 1);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_GT(*alone, 0);
  // Inputs are written again before each replay, because a run may overwrite them, and indices must stay in
  // range.
  std::vector<size_t> binaries(compiled->plan.kernels.size(), 0);
  binaries[0] = 1;
  const Result<double> run = timer.TimeRun(binaries);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_GT(*run, *alone);
  EXPECT_EQ(timer.Time(100000, 0).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace rondo::tools
