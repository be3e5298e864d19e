// From planned programs to a plan: what is shared, the fields of each buffer and step, and that the plan
// passes the checker.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "compiler/codegen/emit_plan.h"
#include "compiler/schedule/least_memory.h"
#include "formats/machine_code/binary_digest.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "formats/plan/writer.h"
#include "tests/compile/hand_made.h"

namespace rondo {
namespace {

PlannedProgram Planned(HandMade made) {
  PlannedProgram planned;
  planned.lowered = made.Take();
  ScheduleForLeastMemory(&planned.lowered);
  planned.memory = PlanMemory(planned.lowered);
  std::vector<std::string> found;
  planned.partitions = PartitionSteps(SeamSteps(planned.lowered, {}, &found));
  return planned;
}

template <typename... Made>
EmittedPlan Emitted(Made... made) {
  std::vector<PlannedProgram> programs;
  (programs.push_back(Planned(std::move(made))), ...);
  auto emitted = EmitPlan(std::move(programs), {}, nullptr);
  EXPECT_TRUE(emitted.ok()) << emitted.status().message();
  return emitted.Take();
}

void ExpectProven(const PlanData& plan) {
  const Status verified = VerifyPlan(plan);
  EXPECT_TRUE(verified.ok()) << verified.message();
  if (!verified.ok()) return;
  const Status checked = CheckPlan(plan);
  EXPECT_TRUE(checked.ok()) << checked.message();
}

int Count(const PlanData& plan, BufferKind kind) {
  int count = 0;
  for (const Buffer& buffer : plan.buffers) count += buffer.kind == kind;
  return count;
}
const Buffer& Named(const PlanData& plan, std::string_view name) {
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.name == name) return buffer;
  }
  ADD_FAILURE() << "no buffer " << name;
  return plan.buffers[0];
}

// Adds w to x, twice in place, into y; also reads `state`.
HandMade Model(const std::string& name, int64_t elements = 256) {
  HandMade made(name);
  const int x = made.Input("x", elements), s = made.State("cache", 2000);
  const int w = made.Constant("w", std::vector<float>(static_cast<size_t>(elements), 0.5f));
  const int big = made.Synthetic("big", 8192, 7);
  const int a = made.Temporary(elements, "a"), b = made.Temporary(elements, "b");
  made.Sum({x, w}, a, "first");
  made.Sum({a, w, big}, b, "second");
  made.Sum({b, s}, made.Output("y", elements), "third");
  return made;
}

TEST(Emit, PlansOfHandMadeProgramsAreProven) {
  ExpectProven(Emitted(Model("main")).plan);
  ExpectProven(Emitted(Model("prefill", 512), Model("decode", 256)).plan);
  HandMade unread("main");
  unread.Input("unread", 64);
  unread.Sum({unread.Input("x", 64)}, unread.Output("y", 64));
  ExpectProven(Emitted(std::move(unread)).plan);
}

TEST(Emit, StateAndWeightsAreSharedByPrograms) {
  const EmittedPlan emitted = Emitted(Model("prefill"), Model("decode"));
  const PlanData& plan = emitted.plan;
  EXPECT_EQ(Count(plan, BufferKind::kState), 1);
  EXPECT_EQ(Count(plan, BufferKind::kConstant), 2);
  EXPECT_EQ(Count(plan, BufferKind::kInput), 2);
  EXPECT_EQ(plan.programs[0].inputs[1].buffer, plan.programs[1].inputs[1].buffer);
  EXPECT_EQ(plan.programs[0].inputs[1].buffer, plan.programs[0].outputs[0].buffer);
  EXPECT_TRUE(plan.programs[0].inputs[1].is_state);
  const DeviceBytes& bytes = plan.requirements.devices[0];
  EXPECT_EQ(bytes.state, 8192u);  // 8000 bytes in whole pages
  EXPECT_EQ(bytes.arena, std::max(plan.programs[0].arena_bytes, plan.programs[1].arena_bytes));
  EXPECT_EQ(plan.weights_bytes, 1024u);         // the synthetic one is not stored
  EXPECT_GE(bytes.weights, 1024u + 4 * 8192u);  // but it has a place on the device
}

TEST(Emit, StateOfAnotherShapeIsAnotherState) {
  HandMade a("a"), b("b");
  a.Sum({a.State("cache", 64)}, a.Output("y", 64));
  b.Sum({b.State("cache", 128)}, b.Output("y", 128));
  const EmittedPlan emitted = Emitted(std::move(a), std::move(b));
  EXPECT_EQ(Count(emitted.plan, BufferKind::kState), 2);
  EXPECT_EQ(emitted.plan.requirements.devices[0].state, 8192u);
  for (const Buffer& buffer : emitted.plan.buffers) {
    if (buffer.kind == BufferKind::kState) {
      EXPECT_EQ(buffer.offset % 4096, 0u);
    }
  }
}

TEST(Emit, ConstantsAreSharedByContentAndNotByName) {
  HandMade made;
  const int x = made.Input("x", 4);
  const int one = made.Constant("w1", {1, 2, 3, 4}), same = made.Constant("w2", {1, 2, 3, 4});
  const int other = made.Constant("w1", {1, 2, 3, 5}), unused = made.Constant("unused", {9, 9, 9, 9});
  const int key1 = made.Synthetic("s1", 4, 1), key1_too = made.Synthetic("s2", 4, 1);
  const int key2 = made.Synthetic("s3", 4, 2);
  (void)unused;
  made.Sum({x, one, same, other, key1, key1_too, key2}, made.Output("y", 4));
  const EmittedPlan emitted = Emitted(std::move(made));
  EXPECT_EQ(Count(emitted.plan, BufferKind::kConstant), 4);
  const auto bindings = emitted.plan.programs[0].steps[0].bindings;
  EXPECT_EQ(bindings[1].buffer, bindings[2].buffer);
  EXPECT_NE(bindings[1].buffer, bindings[3].buffer);
  EXPECT_EQ(bindings[4].buffer, bindings[5].buffer);
  EXPECT_NE(bindings[4].buffer, bindings[6].buffer);
  // The bytes lie where the plan says.
  const std::vector<uint8_t> weights = AssembleWeights(emitted);
  ASSERT_EQ(weights.size(), emitted.plan.weights_bytes);
  float last = 0;
  std::memcpy(&last, weights.data() + emitted.plan.buffers[bindings[3].buffer].file_offset + 12, 4);
  EXPECT_EQ(last, 5);
}

TEST(Emit, KernelsOfOneStructureAreOne) {
  HandMade made;
  const int x = made.Input("x", 64), a = made.Temporary(64), b = made.Temporary(64), c = made.Temporary(64);
  made.Sum({x}, a);
  made.Sum({a}, b);     // the same kernel
  made.Sum({a, b}, c);  // a different kernel
  made.Sum({c}, made.Output("y", 64));
  const EmittedPlan emitted = Emitted(std::move(made));
  EXPECT_EQ(emitted.plan.kernels.size(), 2u);
  EXPECT_EQ(emitted.plan.kernels[0].name, "k0_map");
  EXPECT_EQ(emitted.plan.programs[0].steps[0].kernel, emitted.plan.programs[0].steps[1].kernel);
  EXPECT_NE(emitted.plan.programs[0].steps[1].kernel, emitted.plan.programs[0].steps[2].kernel);
}

TEST(Emit, EveryFieldOfAKernelTellsItApart) {
  HandMade made;
  made.Sum({made.Input("x", 64)}, made.Output("y", 64));
  const Kernel& kernel = made.program().ops[0].kernel;
  const std::string structure = KernelStructure(kernel);
  auto differs = [&](auto change) {
    Part part = kernel.parts[0];
    std::vector<Operand> operands(part.operands.begin(), part.operands.end());
    std::vector<TapeInst> body(part.body.begin(), part.body.end());
    Kernel other = kernel;
    change(&other, &part, &operands, &body);
    part.operands = Span<const Operand>(operands.data(), operands.size());
    part.body = Tape(body.data(), body.size());
    other.parts = Span<const Part>(&part, 1);
    EXPECT_NE(KernelStructure(other), structure);
  };
  using Operands = std::vector<Operand>*;
  using Body = std::vector<TapeInst>*;
  differs([](Kernel* k, Part*, Operands, Body) { k->label = "softmax"; });
  differs([](Kernel* k, Part*, Operands, Body) { k->num_params = 3; });
  differs([](Kernel*, Part* p, Operands, Body) { p->skeleton = Skeleton::kReduction; });
  differs([](Kernel*, Part* p, Operands, Body) { p->sequential = true; });
  differs([](Kernel*, Part* p, Operands, Body) { p->scale = -1; });
  differs([](Kernel*, Part* p, Operands, Body) { p->limit = 0; });
  differs([](Kernel*, Part*, Operands o, Body) { (*o)[0].offset = 1; });
  differs([](Kernel*, Part*, Operands o, Body) { (*o)[0].absent = -0.0; });
  differs([](Kernel*, Part*, Operands o, Body) { (*o)[0].dtype = DType::kI32; });
  differs([](Kernel*, Part*, Operands, Body b) { (*b)[0].imm.i = 5; });
  differs([](Kernel*, Part*, Operands, Body b) { (*b)[0].op = TapeOp::kConst; });
}

TEST(Emit, BuffersSayWhenTheyLiveAndWhatTheyTakeOver) {
  const EmittedPlan emitted = Emitted(Model("main"));
  const PlanData& plan = emitted.plan;
  EXPECT_EQ(Named(plan, "x").first_step, 0u);
  EXPECT_EQ(Named(plan, "a").first_step, 0u);
  EXPECT_EQ(Named(plan, "a").last_step, 1u);
  EXPECT_EQ(Named(plan, "b").first_step, 1u);
  EXPECT_EQ(&plan.buffers[Named(plan, "b").aliases], &Named(plan, "a"));
  EXPECT_EQ(Named(plan, "b").offset, Named(plan, "a").offset);
  EXPECT_EQ(Named(plan, "y").last_step, 2u);
  EXPECT_EQ(Named(plan, "w").program, kNone);
  EXPECT_EQ(Named(plan, "y").program, 0u);
  EXPECT_EQ(plan.sources[plan.programs[0].steps[2].source], "Sum \"third\"");
}

TEST(Emit, ControlDependencesThatNoDataImpliesAreKept) {
  HandMade made;
  const int x = made.Input("x", 64);
  made.Sum({x}, made.Output("y", 64));
  made.Sum({x}, made.Output("z", 64));
  made.program().ops[1].deps = {0};
  const EmittedPlan emitted = Emitted(std::move(made));
  ASSERT_EQ(emitted.plan.programs[0].steps[1].after.size(), 1u);
  EXPECT_EQ(emitted.plan.programs[0].steps[1].after[0], 0u);
}

TEST(Emit, TheSameProgramsGiveTheSameBytes) {
  std::vector<uint8_t> bytes[2];
  for (auto& out : bytes) {
    const EmittedPlan emitted = Emitted(Model("prefill", 512), Model("decode"));
    const auto fill = [&](uint32_t buffer, uint64_t first, uint64_t count, uint8_t* to) {
      std::memcpy(to, emitted.constant_bytes[buffer].data() + first, count);
      return Status::Ok();
    };
    const Status written = WritePlanBytes(emitted.plan, fill, &out);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST(Emit, RefusesProgramsThatBreakTheRules) {
  auto error_of = [](auto change) {
    HandMade made = Model("main");
    change(&made.program());
    PlannedProgram planned;
    planned.lowered = made.Take();
    std::vector<PlannedProgram> programs;
    programs.push_back(std::move(planned));
    auto emitted = EmitPlan(std::move(programs), {}, nullptr);
    EXPECT_FALSE(emitted.ok());
    if (emitted.ok()) return std::string();
    EXPECT_EQ(emitted.status().code(), Code::kInternal);
    return std::string(emitted.status().message());
  };
  EXPECT_NE(error_of([](LoweredProgram* p) { p->ops[1].deps = {1}; }).find("Sum \"second\""),
            std::string::npos);
  EXPECT_NE(error_of([](LoweredProgram* p) { p->ops[0].params[0].value = 99; }).find("99"),
            std::string::npos);
  EXPECT_NE(error_of([](LoweredProgram* p) { p->ops[0].params.pop_back(); }).find("parameters"),
            std::string::npos);
  EXPECT_NE(error_of([](LoweredProgram* p) { p->outputs[1].value = 0; }).find("\"y\""), std::string::npos);
  EXPECT_NE(error_of([](LoweredProgram* p) { p->values[2].constant = nullptr; }).find("\"w\""),
            std::string::npos);
}

}  // namespace
}  // namespace rondo
