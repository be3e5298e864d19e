// The lifecycle verifier's findings for each defect planted in a plan, with the checker off.
#include "tests/plan/call_plan.h"
#include "tests/plan/loop_plan.h"
#include "tests/verify/chain.h"

namespace rondo {
namespace {

TEST(Undamaged, ChainHasNoFindings) {
  Chain chain;
  const PlanData data = chain.MakePlan();
  ASSERT_TRUE(CheckPlan(data).ok()) << CheckPlan(data).message();
  EXPECT_EQ(FindingsOf(data), "");
}

TEST(Undamaged, InputsThatAreGivenAreTaken) {
  Chain chain;
  const PlanData data = chain.MakePlan();
  Result<Plan> plan = Plan::FromData(data, {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const HostDriverHandle driver = MakeHostDriver();
  const std::vector<float> in(64, 3);
  VerifyOptions options;
  options.inputs = {{{"in", kNone, DType::kF32, Shape{64}, in.data(), 256}}};
  EXPECT_EQ(FindingsOf(*plan, driver.get(), options), "");
}

// Each output has its own type.
TEST(Undamaged, InputsAndOutputsOfSeveralTypesHaveNoFindings) {
  for (const DType in : {DType::kF32, DType::kI32, DType::kI64}) {
    for (const DType out : {DType::kF32, DType::kI32, DType::kU8}) {
      Maker maker;
      maker.buffers[Maker::kIn].dtype = in;
      maker.buffers[Maker::kOut].dtype = out;
      for (Buffer& buffer : maker.buffers) buffer.shape = Shape{256 / ByteSize(buffer.dtype)};
      Step copy;
      copy.kind = StepKind::kCopy;
      copy.bytes = 256;
      copy.bindings = List<Binding>(maker.arena, {{Maker::kIn, 0}, {Maker::kOut, 0}});
      maker.steps.push_back(copy);
      PlanData plan = maker.Make();
      plan.requirements.target = "host";
      plan.weights_bytes = 0;
      const_cast<DeviceBytes&>(plan.requirements.devices[0]).weights = 0;
      EXPECT_EQ(FindingsOf(plan), "") << Name(in) << " " << Name(out);
    }
  }
}

TEST(Undamaged, PartsOfSyntheticWeightsHaveNoFindings) {
  Chain chain;
  chain.buffers[chain.w].synthetic_run = 24;
  chain.buffers[chain.w].synthetic_step = 100;
  EXPECT_EQ(FindingsOf(chain.MakePlan()), "");
}

TEST(Undamaged, LoopsHaveNoFindings) {
  const Sample loop = MakeLoopSample();
  EXPECT_EQ(FindingsOf(loop.data), "");
}

TEST(Undamaged, CustomOpsHaveNoFindings) {
  const Sample calls = MakeCallSample();
  OpRegistry ops;
  ASSERT_TRUE(ops.Register("libtest.so", RegisterTestOps).ok());
  const HostDriverHandle driver = MakeHostDriver(1, &ops);
  Result<Plan> plan = Plan::FromData(calls.data, {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(FindingsOf(*plan, driver.get()), "");
}

TEST(PlanDefect, LifetimeThatEndsEarly) {
  Chain chain;
  const PlanData data = chain.MakePlan();
  const_cast<Buffer&>(data.buffers[chain.b]).last_step = 2;
  EXPECT_FINDS(
      FindingsOf(data),
      "lifetime: program \"p\", device 0, buffer 3 \"b\" of Copy \"node_1\": expected steps 1 to 2, as the "
      "plan says; found steps 1 to 4 that read or write it");
}

TEST(PlanDefect, LifetimeThatEndsLate) {
  Chain chain;
  const PlanData data = chain.MakePlan();
  const_cast<Buffer&>(data.buffers[chain.a]).last_step = 2;
  EXPECT_FINDS(FindingsOf(data), "found steps 0 to 1 that read or write it");
}

TEST(PlanDefect, BufferOverAnother) {
  Chain chain;
  chain.buffers[chain.c].offset = Chain::kB + 128;
  const std::string text = FindingsOf(chain.MakePlan());
  EXPECT_FINDS(
      text,
      "overlap: program \"p\", step 3 (Copy \"node_3\"), device 0, buffer 3 \"b\" of Copy \"node_1\", "
      "bytes 128 to 255: expected its contents kept until step 4; found the step writes buffer \"c\"");
  EXPECT_FINDS(text, "read foreign: program \"p\", step 4 (Copy \"node_4\")");
}

TEST(PlanDefect, StatesInOnePlace) {
  Chain chain;
  const uint32_t second = chain.AddBuffer("second", BufferKind::kState, 64, 128);
  chain.Copy(chain.b, second);
  EXPECT_FINDS(FindingsOf(chain.MakePlan()),
               "expected memory of its own in the state; found buffer \"s\" (state, of Copy \"node_2\")");
}

TEST(PlanDefect, ReadOfWhatNobodyWrote) {
  Chain chain;
  chain.steps[1].kernel = chain.AddKernel(CopyKernel(chain.arena, "", 32, 0, 0));
  EXPECT_FINDS(
      FindingsOf(chain.MakePlan()),
      "read unwritten: program \"p\", step 2 (Copy \"node_2\"), device 0, buffer 3 \"b\" of Copy \"node_1\", "
      "bytes 128 to 255: expected what was written to the buffer, to be read; found memory that nothing has "
      "written");
}

TEST(PlanDefect, OutputThatNobodyWrote) {
  Chain chain;
  chain.steps[5].kernel = chain.AddKernel(CopyKernel(chain.arena, "", 63, 0, 0));
  EXPECT_FINDS(FindingsOf(chain.MakePlan()), "read unwritten: program \"p\", device 0, buffer 1 \"out\"");
}

TEST(PlanDefect, WrittenInput) {
  Chain chain;
  chain.Copy(chain.c, Maker::kIn);
  EXPECT_FINDS(FindingsOf(chain.MakePlan()),
               "not writable: program \"p\", step 6 (Copy \"node_6\"), device 0, buffer 0");
}

// A weight lies in no arena, so a write there overwrites no arena value.
TEST(PlanDefect, WrittenWeight) {
  Chain chain;
  chain.Copy(chain.c, chain.w);
  const std::string text = FindingsOf(chain.MakePlan());
  EXPECT_FINDS(text, "not writable: program \"p\", step 6 (Copy \"node_6\"), device 0, buffer 6");
  EXPECT_FINDS(text, "\nweights: device 0, buffer 6");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(PlanDefect, ReversalInPlace) {
  Chain chain;
  const uint32_t reverse = chain.AddKernel(Elementwise(chain.arena, -1, 1), 2);
  chain.Launch(reverse, {{chain.c, 0}, {chain.c, 0}});
  EXPECT_FINDS(FindingsOf(chain.MakePlan()), "inside step: program \"p\", step 6 (Copy \"node_6\")");
}

TEST(PlanDefect, StreamsWithoutAnEvent) {
  Chain chain;
  chain.steps[1].stream = 1;
  const std::string text = FindingsOf(chain.MakePlan());
  EXPECT_FINDS(
      text,
      "unordered: program \"p\", step 1 (Copy \"node_1\"), device 0, buffer 2 \"a\" of Copy \"node_0\": "
      "expected a stream, event or wait that keeps the step behind the end of step 0; found none, and "
      "step 0 writes buffer \"a\"");
}

TEST(PlanDefect, RoundOfALoopThatReadsAnothers) {
  Sample loop = MakeLoopSample();
  BindingOf(loop, 1, 0).stride = 0;  // reads X[0] in each round, which is another sound plan
  EXPECT_EQ(FindingsOf(loop.data), "");
  loop = MakeLoopSample();
  BindingOf(loop, 4, 1).stride = 0;  // writes only one row of Y
  EXPECT_FINDS(FindingsOf(loop.data), "read unwritten");
}

}  // namespace
}  // namespace rondo
