// Donated inputs: an output is computed in the memory of an input that the caller gives away. Which other
// values may lie there, and that nothing reads the input afterwards.
#include <cstring>
#include <fstream>

#include "formats/plan/check/checker.h"
#include "formats/plan/copies.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "runtime/verify/unchecked_plan.h"
#include "tests/e2e/alias_model.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

using Kind = ExpectationKind;
constexpr uint64_t kBytes = 64 * 64 * 4;  // size of x

// A donated input x of [64, 64].
class Donation : public AliasModel {
 public:
  Donation() {
    Input("x", {64, 64});
    Donate("x");
  }
  void Finish(const std::vector<std::string>& outputs = {"y"}) {
    for (const std::string& output : outputs) Output(output);
    Check();
  }
  const Buffer& Named(std::string_view name) const {
    for (const Buffer& buffer : plan().buffers) {
      if (buffer.name == name) return buffer;
    }
    ADD_FAILURE() << "no buffer " << name;
    return plan().buffers[0];
  }
  std::string WhyKept() const { return std::string(rondo::WhyKept(plan(), plan().programs[0], "x")); }
};

TEST(DonatedInput, AResultIsComputedInItElementByElement) {
  Donation m;
  m.Node("Relu", {"x"}, {"a"});
  m.Node("Exp", {"a"}, {"y"});
  m.Finish();
  EXPECT_EQ(m.arena(), kBytes);
  EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "x"), "");
  EXPECT_EQ(m.Expect(Kind::kReusesMemory, "y", "x"), "");
  EXPECT_EQ(m.WhyKept(), "");
}

TEST(DonatedInput, AResultIsComputedThereOnceAllHaveReadIt) {
  Donation m;
  m.Input("w", {64, 64});
  m.Node("MatMul", {"x", "w"}, {"a"});
  m.Node("ReduceSum", {"x"}, {"z"});
  m.Node("MatMul", {"a", "w"}, {"y"});
  m.Finish({"y", "z"});
  EXPECT_EQ(m.Expect(Kind::kReusesMemory, "y", "x"), "");
}

TEST(DonatedInput, OfTwoResultsOneTakesIt) {
  Donation m;
  m.Node("Relu", {"x"}, {"y"});
  m.Node("Neg", {"x"}, {"z"});
  m.Finish({"y", "z"});
  EXPECT_EQ(m.arena(), 2 * kBytes);
}

TEST(DonatedInput, IsKeptFromAResultThatReadsItElsewhere) {
  for (const bool late : {false, true}) {
    Donation m;
    m.Input("w", {64, 64});
    if (late) m.Node("Softmax", {"x"}, {"a"});
    m.Node("MatMul", {late ? "a" : "w", "x"}, {"y"});
    m.Finish();
    EXPECT_EQ(m.Named("x").kind, BufferKind::kInput);
    EXPECT_NE(m.Expect(Kind::kSharesMemory, "x", "y"), "");
    EXPECT_NE(m.WhyKept(), "");
  }
}

TEST(DonatedInput, IsKeptWhereNoResultFits) {
  Donation m;
  m.Input("w", {64, 8});
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Finish();
  EXPECT_EQ(m.WhyKept(), "no output is of its shape and type");
}

TEST(DonatedInput, RowsAreWrittenWhereItLies) {
  for (const bool donated : {true, false}) {
    AliasModel m;
    m.Input("x", {64, 64});
    m.Input("at", {1, 1}, onnx::TensorProto::INT64);
    m.Input("rows", {1, 64});
    m.IntegersBelow(64);
    for (int twice = 0; donated && twice < 2; ++twice) m.Donate("x");
    m.Node("ScatterND", {"x", "at", "rows"}, {"y"});
    m.Node("ReduceSum", {"y"}, {"z"});
    m.Output("y");
    m.Output("z");
    m.Check();
    EXPECT_EQ(m.copied(), donated ? 0u : kBytes);
    EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "x").empty(), donated);
    EXPECT_EQ(m.Expect(Kind::kSharesMemory, "x", "y").empty(), donated);
  }
}

TEST(DonatedInput, IsWrittenForNoOutputToo) {
  Donation m;
  m.Input("at", {1, 1}, onnx::TensorProto::INT64);
  m.Input("rows", {1, 64});
  m.IntegersBelow(64);
  m.Node("ScatterND", {"x", "at", "rows"}, {"a"});
  m.Node("ReduceSum", {"a"}, {"y"});
  m.Finish();
  EXPECT_EQ(m.copied(), 0u);
  EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "x"), "");
}

// A reader of the old contents may come before the write. If it cannot, the write is not in place.
TEST(DonatedInput, OldContentsAreReadBeforeTheyAreWritten) {
  for (const bool late : {false, true}) {
    Donation m;
    m.Input("at", {1, 1}, onnx::TensorProto::INT64);
    m.Input("rows", {1, 64});
    m.IntegersBelow(64);
    m.Node("ScatterND", {"x", "at", "rows"}, {"y"});
    m.Node("ReduceSum", {late ? "y" : "x"}, {"s"});
    m.Node("Mul", {"x", "s"}, {"z"});
    m.Finish({"y", "z"});
    EXPECT_EQ(m.copied(), late ? kBytes : 0u);
  }
}

TEST(DonatedInput, IsTheOutputThatShowsIt) {
  Donation m;
  m.Node("Identity", {"x"}, {"y"});
  m.Node("ReduceSum", {"x"}, {"z"});
  m.Finish({"y", "z"});
  EXPECT_EQ(m.copied(), 0u);
  EXPECT_EQ(m.steps(), 1u);
}

TEST(DonatedInput, AProgramOfItAloneCopiesItOntoItself) {
  Donation m;
  m.Node("Identity", {"x"}, {"y"});
  m.Finish();
  EXPECT_EQ(m.arena(), kBytes);
}

TEST(DonatedInput, TemporariesTakeItOver) {
  Donation m;
  m.Node("Relu", {"x"}, {"a"});
  m.Node("MatMul", {"a", "a"}, {"b"});
  m.Node("MatMul", {"b", "a"}, {"c"});
  m.Node("ReduceSum", {"c"}, {"y"});
  m.Finish();
  EXPECT_EQ(m.Expect(Kind::kReusesMemory, "a", "x"), "");
}

// In a loop, the next round would read what a round writes.
TEST(DonatedInput, ManyRoundsHandOnTheirOwnMemory) {
  Donation m;
  const TemporaryFolder folder;
  m.Node("Softmax", {"x"}, {"a"});
  m.Node("CumSum", {"a", "axis"}, {"y"});
  m.Ints("axis", {0});
  m.Finish();
}

struct alignas(4096) Memory {
  float x[64 * 64], y[64 * 64], rows[64];
  int64_t at = 3;
};

// After a run, the caller's memory holds the result in place of x, and nothing was copied.
TEST(DonatedInput, TheCallersMemoryIsUsedWhereItIs) {
  Donation m;
  m.Input("at", {1, 1}, onnx::TensorProto::INT64);
  m.Input("rows", {1, 64});
  m.IntegersBelow(64);
  m.Node("ScatterND", {"x", "at", "rows"}, {"y"});
  m.Node("Relu", {"y"}, {"a"});
  m.Node("ReduceSum", {"a"}, {"z"});
  m.Finish({"y"});
  Memory memory;
  for (float& value : memory.x) value = 1;
  for (float& value : memory.rows) value = 7;
  constexpr MemoryKind kThere = MemoryKind::kDevice;
  const Input inputs[] = {{"x", kNone, DType::kF32, {64, 64}, memory.x, kBytes, kThere},
                          {"at", kNone, DType::kI64, {1, 1}, &memory.at, 8, kThere},
                          {"rows", kNone, DType::kF32, {1, 64}, memory.rows, 256, kThere}};
  Session& session = m.live().session();
  const auto copied = [&] {
    return m.live().runtime().metrics().input_bytes + m.live().runtime().metrics().output_bytes;
  };
  const auto holds = [&](const float* of, int row) { return of[row * 64] == 7 && of[row * 64 + 63] == 7; };
  uint64_t before = copied();
  ASSERT_TRUE(session.Run(0, inputs, {}).ok());
  EXPECT_TRUE(holds(memory.x, 3));
  EXPECT_EQ(memory.x[0], 1);
  memory.at = 5;
  const Output same[] = {{"y", kNone, DType::kF32, memory.x, kBytes, kThere}};
  const Status status = session.Run(0, inputs, same);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(holds(memory.x, 3) && holds(memory.x, 5));
  EXPECT_EQ(copied(), before);
  memory.at = 8;
  const Output other[] = {{"y", kNone, DType::kF32, memory.y, kBytes, kThere}};
  ASSERT_TRUE(session.Run(0, inputs, other).ok());
  EXPECT_TRUE(holds(memory.y, 3) && holds(memory.y, 5) && holds(memory.y, 8));
  EXPECT_EQ(copied(), before + kBytes);
  const Output overlapping[] = {{"y", kNone, DType::kF32, memory.x + 16, kBytes, kThere}};
  EXPECT_EQ(session.Run(0, inputs, overlapping).code(), Code::kInvalidArgument);
  // Step by step, and with tensors in host memory, the caller's memory stays unchanged.
  const Memory was = memory;
  RunOptions stepwise;
  stepwise.stepwise = true;
  memory.at = 9;
  ASSERT_TRUE(session.Run(0, inputs, {}, stepwise).ok());
  Input host[] = {inputs[0], inputs[1], inputs[2]};
  for (Input& input : host) input.memory = MemoryKind::kHost;
  ASSERT_TRUE(session.Run(0, host, other).ok());
  EXPECT_EQ(std::memcmp(memory.x, was.x, sizeof(was.x)), 0);
  EXPECT_TRUE(holds(memory.y, 9));
}

TEST(DonatedInput, TemporariesAndResultsLieInTheCallersMemory) {
  Donation m;
  m.Node("Relu", {"x"}, {"a"});
  m.Node("MatMul", {"a", "a"}, {"b"});
  m.Node("Softmax", {"b"}, {"c"});
  m.Node("MatMul", {"c", "a"}, {"d"});
  m.Node("ReduceSum", {"d"}, {"y"});
  m.Finish();
  Memory memory;
  for (int i = 0; i < 64 * 64; ++i) memory.x[i] = static_cast<float>(i % 13) - 6;
  const Input input = {"x", kNone, DType::kF32, {64, 64}, memory.x, kBytes, MemoryKind::kDevice};
  Session& session = m.live().session();
  float results[2];
  for (float& result : results) {
    for (int i = 0; i < 64 * 64; ++i) memory.x[i] = static_cast<float>(i % 13) - 6;
    const Output output = {"y", kNone, DType::kF32, &result, 4};
    ASSERT_TRUE(session.Run(0, {&input, 1}, {&output, 1}).ok());
    EXPECT_EQ(memory.x[0], 0) << "what Relu made of it lies there";
  }
  EXPECT_EQ(results[0], results[1]);
}

// The error for a model to which a donation does not apply.
std::string Refusal(const std::string& name, uint32_t tensor_parallel, bool state) {
  ModelMaker m;
  m.Input("x", {64, 64});
  m.Output("y");
  m.Node("Relu", {"x"}, {"y"});
  const TemporaryFolder folder;
  const std::string path = folder.File("model.onnx");
  std::ofstream(path, std::ios::binary) << m.proto.SerializeAsString();
  CompileOptions options;
  options.models = {{"main", path}};
  options.donations = {name};
  options.tensor_parallel = tensor_parallel;
  if (state) options.states = {{"x", "y"}};
  return CompileToMemory(options).status().message();
}

TEST(DonatedInput, WhatCannotBeIsRefused) {
  EXPECT_NE(Refusal("nobody", 0, false).find("no model has an input of this name"), std::string::npos);
  EXPECT_NE(Refusal("x", 2, false).find("a plan for several devices"), std::string::npos);
  EXPECT_NE(Refusal("x", 0, true).find("it is a state"), std::string::npos);
  EXPECT_EQ(Refusal("x", 0, false), "");
}

// y = relu(x) in the memory of x, and z = -x. The plan is damaged so that z reads x after y is written.
TEST(DonatedInput, AReadAfterItWasTakenOverIsFound) {
  Donation m;
  m.Node("Relu", {"x"}, {"y"});
  m.Node("Neg", {"x"}, {"z"});
  m.Finish({"y", "z"});
  const auto& steps = const_cast<Program&>(m.plan().programs[0]).steps;
  ASSERT_EQ(steps.size(), 2u);
  std::swap(const_cast<Step&>(steps[0]), const_cast<Step&>(steps[1]));
  for (const Step& step : steps) const_cast<Step&>(step).after = {};
  for (size_t b = 0; b < m.plan().buffers.size(); ++b) {
    Buffer& buffer = const_cast<Buffer&>(m.plan().buffers[b]);
    if (buffer.name == "y") buffer.first_step = 0;
    if (buffer.name == "z") buffer.first_step = 1;
  }
  const std::string checked = CheckPlan(m.plan()).message();
  EXPECT_NE(checked.find("\"x\""), std::string::npos) << checked;
  EXPECT_NE(checked.find("are in use at once and overlap"), std::string::npos) << checked;
  Result<Plan> plan = UncheckedPlan::FromData(m.plan(), {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Driver* driver = CreateHostDriver(HostOptions()).Take();
  VerifyOptions options;
  options.reopenings = 1;
  const Result<VerifyReport> report = VerifyLifecycle(*plan, driver, options);
  plan = Status::Error(Code::kInternal, "closed");
  DestroyHostDriver(driver);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_FALSE(report->findings.empty());
  EXPECT_NE(report->findings[0].Text().find("\"x\""), std::string::npos) << report->findings[0].Text();
}

}  // namespace
}  // namespace rondo
