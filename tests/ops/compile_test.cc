// Models that call custom ops, compiled and run: results, memory, order, partitions and refusals.
#include "compiler/compile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/custom_op.h"
#include "drivers/host/host_driver.h"
#include "runtime/session.h"
#include "tests/import/model_maker.h"
#include "tests/plan/call_plan.h"
#include "tests/says.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Floats = std::vector<float>;

// Two more ops of the domain "test": Split (x -> x / 2, x + 1), and Swap, which changes both of its
// arguments.
int32_t InferBoth(void*, const rondo_op_node* node, rondo_op_type* outputs, char*, size_t) {
  for (size_t i = 0; i < node->num_outputs; ++i) outputs[i] = node->inputs[i < node->num_inputs ? i : 0];
  return 0;
}
int64_t g_elements = 4;  // of every tensor here
int32_t RunSplit(void*, const rondo_op_call* call, char*, size_t) {
  const auto* x = static_cast<const float*>(call->inputs[0]);
  auto *half = static_cast<float*>(call->outputs[0]), *more = static_cast<float*>(call->outputs[1]);
  for (int64_t i = 0; i < g_elements; ++i) {
    half[i] = x[i] / 2;
    more[i] = x[i] + 1;
  }
  return 0;
}
int32_t RunSwap(void*, const rondo_op_call* call, char*, size_t) {
  auto *a = static_cast<float*>(call->outputs[0]), *b = static_cast<float*>(call->outputs[1]);
  for (int64_t i = 0; i < g_elements; ++i) std::swap(a[i], b[i]);
  return 0;
}
int32_t RegisterMore(const rondo_op_registrar* registrar) {
  static const uint32_t kBothChange[] = {RONDO_OP_MUTATED, RONDO_OP_MUTATED};
  static const int32_t kBoth[] = {0, 1};
  rondo_op split = {};
  split.size = sizeof(split);
  split.domain = "test";
  split.name = "Split";
  split.since_version = 1;
  split.min_inputs = split.max_inputs = 1;
  split.min_outputs = split.max_outputs = 2;
  split.infer = InferBoth;
  split.run = RunSplit;
  rondo_op swap = split;
  swap.name = "Swap";
  swap.min_inputs = swap.max_inputs = 2;
  swap.input_flags = kBothChange;
  swap.output_aliases = kBoth;
  swap.run = RunSwap;
  return registrar->add(registrar->context, &split) | registrar->add(registrar->context, &swap);
}

class CompiledCalls : public testing::Test {
 protected:
  CompiledCalls() {
    EXPECT_TRUE(ops_.Register("libtest.so", RegisterTestOps).ok());
    EXPECT_TRUE(ops_.Register("libmore.so", RegisterMore).ok());
    model_.proto.add_opset_import()->set_domain("test");
    model_.proto.mutable_opset_import(1)->set_version(1);
    OpCounts& counts = CountsOfTestOps();
    counts.created = counts.destroyed = counts.scaled = counts.taps = 0;
    HostOptions host;
    host.ops = &ops_;
    Result<Driver*> driver = CreateHostDriver(host);
    EXPECT_TRUE(driver.ok());
    driver_ = *driver;
  }
  ~CompiledCalls() override {
    session_.reset();
    runtime_ = Runtime();
    DestroyHostDriver(driver_);
  }

  onnx::NodeProto* Call(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    onnx::NodeProto* node = model_.Node(op, inputs, outputs);
    node->set_domain("test");
    return node;
  }
  static void SetFloat(onnx::NodeProto* node, const char* name, float value) {
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::FLOAT);
    a->set_f(value);
  }

  Status Compile() {
    const TemporaryFolder folder;
    const std::string path = folder.File("m.onnx");
    std::ofstream(path, std::ios::binary) << model_.proto.SerializeAsString();
    CompileOptions options;
    options.check_passes = true;
    options.models = {{"main", path}};
    options.ops = use_ops_ ? &ops_ : nullptr;
    options.targets = targets_;
    Result<CompiledPlan> compiled = CompileToMemory(options);
    RONDO_RETURN_IF_ERROR(compiled.status());
    compiled_ = std::make_unique<CompiledPlan>(compiled.Take());
    weights_ = AssembleWeights(*compiled_);
    return Status::Ok();
  }
  // Compiles and arms.
  Status Make() {
    RONDO_RETURN_IF_ERROR(Compile());
    RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::FromData(compiled_->plan, weights_));
    RONDO_ASSIGN_OR_RETURN(runtime_, Runtime::Create(driver_));
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime_, plan));
    session_ = std::make_unique<Session>(std::move(session));
    return Status::Ok();
  }
  // The outputs (4 floats each) that are not state, in the model's order.
  std::vector<Floats> Run(const std::vector<std::pair<const char*, Floats>>& given) {
    const Program& program = compiled_->plan.programs[0];
    std::vector<Input> inputs;
    for (const auto& [name, values] : given) {
      const Shape shape = ShapeOf(program.inputs, name);
      inputs.push_back({name, kNone, DType::kF32, shape, values.data(), values.size() * 4});
    }
    std::vector<Floats> values;
    for (const Port& port : program.outputs) {
      if (!port.is_state)
        values.emplace_back(static_cast<size_t>(ShapeOf(program.outputs, std::string(port.name)).elements()));
    }
    std::vector<Output> outputs;
    size_t at = 0;
    for (const Port& port : program.outputs) {
      if (port.is_state) continue;
      outputs.push_back({port.name, kNone, DType::kF32, values[at].data(), 4 * values[at].size()});
      ++at;
    }
    const Status status = session_->Run(0, inputs, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  Shape ShapeOf(Span<const Port> ports, const std::string& name) const {
    for (const Port& port : ports) {
      if (port.name == name) return compiled_->plan.buffers[port.buffer].shape;
    }
    return {};
  }
  Floats State(const char* name) {
    Floats values(4);
    const Status status = session_->ReadState(name, values.data(), 16);
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  size_t StepsOf(StepKind kind) const {
    size_t count = 0;
    for (const Step& step : compiled_->plan.programs[0].steps) count += step.kind == kind;
    return count;
  }

  ModelMaker model_;
  OpRegistry ops_;
  bool use_ops_ = true;
  Targets targets_;
  std::unique_ptr<CompiledPlan> compiled_;
  std::vector<uint8_t> weights_;
  Driver* driver_ = nullptr;
  Runtime runtime_;
  std::unique_ptr<Session> session_;
};

#define ASSERT_MADE()                         \
  do {                                        \
    const Status made = Make();               \
    ASSERT_TRUE(made.ok()) << made.message(); \
  } while (0)

TEST_F(CompiledCalls, StandBetweenKernels) {
  model_.Input("x", {2, 2});
  model_.Input("bias", {2, 2});
  model_.Node("Add", {"x", "x"}, {"sum"});
  model_.Node("Transpose", {"sum"}, {"turned"});  // read densely by the call
  SetFloat(Call("Scale", {"turned", "bias"}, {"scaled"}), "factor", 3);
  model_.Node("Neg", {"scaled"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 1u);
  EXPECT_EQ(compiled_->plan.programs[0].partitions.size(), 1u);
  const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}, {"bias", {10, 20, 30, 40}}});
  EXPECT_EQ(out[0], (Floats{-16, -38, -42, -64}));
}

TEST_F(CompiledCalls, ReadAndWriteRunsOfOthersMemory) {
  g_elements = 16;
  model_.Input("x", {2, 16});
  model_.Node("Neg", {"x"}, {"t"});
  model_.Ints("one", {1});
  model_.Ints("two", {2});
  model_.Node("Slice", {"t", "one", "two"}, {"row"});
  Call("Split", {"row"}, {"half", "more"});
  onnx::AttributeProto* axis = model_.Node("Concat", {"half", "more"}, {"c"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  model_.Node("Add", {"c", "t"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  const Program& program = compiled_->plan.programs[0];
  ASSERT_EQ(program.steps.size(), 3u) << "nothing is copied";
  const Span<const Binding> call = program.steps[1].bindings;
  EXPECT_EQ(call[0].offset, 64u);
  EXPECT_EQ(call[1].buffer, call[2].buffer);
  EXPECT_EQ(call[2].offset, 64u);
  Floats x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Floats y = Run({{"x", x}})[0];
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(y[i], -x[16 + i] / 2 - x[i]);
    EXPECT_EQ(y[16 + i], -x[16 + i] + 1 - x[16 + i]);
  }
  g_elements = 4;
}

TEST_F(CompiledCalls, WhatIsPutBesideOthersInAnotherOrderIsCopied) {
  g_elements = 64;
  model_.Input("x", {4, 16});
  Call("Split", {"x"}, {"half", "more"});
  model_.Node("Transpose", {"half"}, {"th"});
  model_.Node("Transpose", {"more"}, {"tm"});
  onnx::AttributeProto* axis = model_.Node("Concat", {"th", "tm"}, {"y"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  model_.Output("y");
  ASSERT_MADE();
  Floats x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Floats y = Run({{"x", x}})[0];
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(y[4 * row + column], x[16 * column + row] / 2);
      EXPECT_EQ(y[64 + 4 * row + column], x[16 * column + row] + 1);
    }
  }
  g_elements = 4;
}

TEST_F(CompiledCalls, ChangeAStateInPlace) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "x"}, {"total_out"});
  model_.Node("Neg", {"total_out"}, {"y"});
  model_.Output("y");
  model_.Output("total_out");
  ASSERT_MADE();
  const PlanData& plan = compiled_->plan;
  ASSERT_EQ(plan.programs[0].steps.size(), 2u);  // the call and the negation: nothing is copied
  const Step& call = plan.programs[0].steps[0];
  EXPECT_EQ(plan.buffers[call.bindings[0].buffer].kind, BufferKind::kState);
  EXPECT_EQ(call.bindings[0].buffer, call.bindings[2].buffer);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{-1, -2, -3, -4}));
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{-2, -4, -6, -8}));
  EXPECT_EQ(State("total"), (Floats{2, 4, 6, 8}));
}

TEST_F(CompiledCalls, ChangeAStateTwiceAfterWhoReadsItsOldContents) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "x"}, {"once"});
  Call("Accumulate", {"once", "x"}, {"total_out"});
  model_.Node("Neg", {"total"}, {"before"});
  model_.Node("Mul", {"once", "once"}, {"between"});
  model_.Output("before");
  model_.Output("between");
  model_.Output("total_out");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.programs[0].steps.size(), 4u);
  Run({{"x", {1, 1, 1, 1}}});
  const std::vector<Floats> out = Run({{"x", {1, 1, 1, 1}}});
  EXPECT_EQ(out[0], (Floats{-2, -2, -2, -2}));
  EXPECT_EQ(out[1], (Floats{9, 9, 9, 9}));
  EXPECT_EQ(State("total"), (Floats{4, 4, 4, 4}));
}

// A reader that needs what the call makes comes after it: the state itself cannot be changed then.
TEST_F(CompiledCalls, ChangeACopyOfAStateThatIsReadTooLate) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "x"}, {"total_out"});
  model_.Node("Sub", {"total_out", "total"}, {"difference"});
  model_.Output("difference");
  model_.Output("total_out");
  ASSERT_MADE();
  Run({{"x", {5, 6, 7, 8}}});
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(State("total"), (Floats{6, 8, 10, 12}));
}

TEST_F(CompiledCalls, ReadAStateThatTheyChange) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "total"}, {"doubled"});
  Call("Accumulate", {"doubled", "x"}, {"total_out"});
  model_.Output("total_out");
  ASSERT_MADE();
  Run({{"x", {1, 2, 3, 4}}});
  Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(State("total"), (Floats{3, 6, 9, 12}));
}

TEST_F(CompiledCalls, NeverChangeInputsConstantsOrWhatOthersRead) {
  model_.Input("x", {4});
  model_.Floats("w", {4}, {10, 20, 30, 40});
  Call("Accumulate", {"x", "w"}, {"a"});  // an input
  Call("Accumulate", {"w", "x"}, {"b"});  // a constant
  model_.Node("Neg", {"x"}, {"n"});
  Call("Accumulate", {"n", "x"}, {"zero"});  // read by others
  model_.Node("Mul", {"n", "w"}, {"c"});
  Call("Accumulate", {"zero", "zero"}, {"still"});  // read by itself as well
  for (const char* name : {"a", "b", "c", "zero", "still"}) model_.Output(name);
  ASSERT_MADE();
  for (int round = 0; round < 2; ++round) {
    const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}});
    EXPECT_EQ(out[0], (Floats{11, 22, 33, 44}));
    EXPECT_EQ(out[1], (Floats{11, 22, 33, 44}));
    EXPECT_EQ(out[2], (Floats{-10, -40, -90, -160}));
    EXPECT_EQ(out[3], (Floats{0, 0, 0, 0}));
    EXPECT_EQ(out[4], (Floats{0, 0, 0, 0}));
  }
}

TEST_F(CompiledCalls, ChangeWhatTheyAloneReadInPlace) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Accumulate", {"n", "x"}, {"a"});
  Call("Accumulate", {"a", "x"}, {"b"});
  model_.Output("b");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.programs[0].steps.size(), 3u);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{1, 2, 3, 4}));
}

TEST_F(CompiledCalls, HaveSeveralOutputs) {
  model_.Input("x", {4});
  Call("Split", {"x"}, {"half", "more"});
  Call("Split", {"half"}, {"quarter", "unused"});
  Call("Swap", {"more", "quarter"}, {"q", "m"});
  model_.Output("q");
  model_.Output("m");
  model_.Output("half");
  ASSERT_MADE();
  const std::vector<Floats> out = Run({{"x", {4, 8, 12, 16}}});
  EXPECT_EQ(out[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(out[1], (Floats{5, 9, 13, 17}));
  EXPECT_EQ(out[2], (Floats{2, 4, 6, 8}));
}

// A tensor given twice to an op that changes both is two tensors.
TEST_F(CompiledCalls, ChangeOneTensorTwiceAsTwoTensors) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Accumulate", {"n", "n"}, {"doubled"});
  model_.Node("Abs", {"x"}, {"p"});
  Call("Swap", {"p", "p"}, {"a", "b"});
  Call("Accumulate", {"a", "x"}, {"a2"});
  model_.Output("doubled");
  model_.Output("a2");
  model_.Output("b");
  ASSERT_MADE();
  const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(out[0], (Floats{-2, -4, -6, -8}));
  EXPECT_EQ(out[1], (Floats{2, 4, 6, 8}));
  EXPECT_EQ(out[2], (Floats{1, 2, 3, 4}));
}

TEST_F(CompiledCalls, ThatNoGraphMayContainArePartitionsOfTheirOwn) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Tap", {"n"}, {"t"});
  model_.Node("Abs", {"t"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  const Program& program = compiled_->plan.programs[0];
  size_t alone = 0;
  bool said = false;
  for (const Partition& p : program.partitions) {
    alone += p.num_steps == 1 && program.steps[p.first_step].kind == StepKind::kCustom;
    said |= p.reason == BreakReason::kUnsafeStep &&
            std::string(p.detail).find("(Tap \"Tap_t\") cannot be in a graph: it counts its calls") !=
                std::string::npos;
  }
  EXPECT_EQ(alone, 1u);
  EXPECT_TRUE(said);
  EXPECT_EQ(Run({{"x", {1, -2, 3, -4}}})[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(CountsOfTestOps().taps, 1);
}

// A run reports the errors of stream 0.
TEST_F(CompiledCalls, ThatNoGraphMayContainStayOnStreamZero) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Tap", {"n"}, {"t"});
  model_.Node("Abs", {"t"}, {"y"});
  model_.Output("y");
  for (onnx::NodeProto& node : *model_.graph()->mutable_node()) {
    onnx::StringStringEntryProto* entry = node.add_metadata_props();
    entry->set_key("stream");
    entry->set_value("1");
  }
  ASSERT_MADE();
  for (const Step& step : compiled_->plan.programs[0].steps)
    EXPECT_EQ(step.stream, step.kind == StepKind::kCustom ? 0u : 1u);
  EXPECT_EQ(Run({{"x", {1, -2, 3, -4}}})[0], (Floats{1, 2, 3, 4}));
}

// A GPU's graphs contain no functions of the host, whatever their library says.
TEST_F(CompiledCalls, BreakEveryGraphOfAGpu) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Scale", {"n"}, {"s"});
  model_.Node("Abs", {"s"}, {"y"});
  model_.Output("y");
  targets_ = *ParseTargets("cuda:sm_90a");
  const Status made = Compile();
  if (made.code() == Code::kUnsupported) GTEST_SKIP() << made.message();
  ASSERT_TRUE(made.ok()) << made.message();
  const Program& program = compiled_->plan.programs[0];
  ASSERT_EQ(program.partitions.size(), 3u);
  EXPECT_EQ(program.steps[program.partitions[1].first_step].kind, StepKind::kCustom);
  EXPECT_EQ(program.partitions[1].num_steps, 1u);
  EXPECT_EQ(program.partitions[0].reason, BreakReason::kUnsafeStep);
  EXPECT_EQ(program.partitions[0].detail,
            "step 1 (Scale \"Scale_s\") cannot be in a graph: it runs on the host");
  EXPECT_EQ(program.partitions[1].reason, BreakReason::kUnsafeStep);
  EXPECT_EQ(program.partitions[1].detail,
            "step 1 (Scale \"Scale_s\") cannot share a graph: it runs on the host");
  EXPECT_FALSE(compiled_->plan.custom_ops[0].graph_safe);
  EXPECT_EQ(compiled_->plan.custom_ops[0].reason, "it runs on the host");
}

TEST_F(CompiledCalls, WithSideEffectsRunThoughNothingReadsThem) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Tap", {"n"}, {"nobody"});
  Call("Tap", {"n"}, {"nobody_either"});  // equal, but not the same
  Call("Scale", {"x"}, {"dead"});
  model_.Node("Abs", {"x"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 2u);
  Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(CountsOfTestOps().taps, 2);
  EXPECT_EQ(CountsOfTestOps().scaled, 0);
}

TEST_F(CompiledCalls, ThatAreEqualAndPureAreOne) {
  model_.Input("x", {4});
  SetFloat(Call("Scale", {"x"}, {"a"}), "factor", 2);
  SetFloat(Call("Scale", {"x"}, {"b"}), "factor", 2);
  SetFloat(Call("Scale", {"x"}, {"c"}), "factor", 3);
  model_.Node("Mul", {"a", "b"}, {"ab"});
  model_.Node("Add", {"ab", "c"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 2u);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{7, 22, 45, 76}));
}

TEST_F(CompiledCalls, ShareAnInstanceWhereTheyAreCalledAlike) {
  model_.Input("x", {4});
  SetFloat(Call("Scale", {"x"}, {"a"}), "factor", 2);
  SetFloat(Call("Scale", {"a"}, {"b"}), "factor", 2);
  SetFloat(Call("Scale", {"b"}, {"y"}), "factor", 4);
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.custom_ops.size(), 2u);
  EXPECT_EQ(CountsOfTestOps().created, 2);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{16, 32, 48, 64}));
}

TEST_F(CompiledCalls, OfConstantsAreNotFolded) {
  model_.Input("x", {4});
  model_.Floats("w", {4}, {1, 1, 1, 1});
  SetFloat(Call("Scale", {"w"}, {"s"}), "factor", 2);
  model_.Node("Mul", {"x", "s"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 1u);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{2, 4, 6, 8}));
}

TEST_F(CompiledCalls, PiecesOfAConcatenationAndPartsOfATensor) {
  model_.Input("x", {2, 2});
  model_.Ints("from", {1});
  model_.Ints("to", {2});
  model_.Ints("axis", {1});
  model_.Node("Slice", {"x", "from", "to", "axis"}, {"column"});  // [2, 1], strided
  SetFloat(Call("Scale", {"column"}, {"scaled"}), "factor", 10);
  onnx::NodeProto* concat = model_.Node("Concat", {"scaled", "column"}, {"y"});
  onnx::AttributeProto* axis = concat->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(1);
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{20, 2, 40, 4}));
}

TEST_F(CompiledCalls, AreImportedInLoopBodies) {
  model_.Input("x", {4});
  model_.Ints("trips", {3});
  model_.Bool("go", true);
  onnx::NodeProto* loop = model_.Node("Loop", {"trips", "go", "x"}, {"y"});
  onnx::AttributeProto* body = loop->add_attribute();
  body->set_name("body");
  body->set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto* graph = body->mutable_g();
  for (const char* name : {"i", "keep", "v"}) graph->add_input()->set_name(name);
  SetFloat(ModelMaker::Node(graph, "Scale", {"v"}, {"v2"}), "factor", 2);
  graph->mutable_node(0)->set_domain("test");
  ModelMaker::Node(graph, "Tap", {"v2"}, {"unread"})->set_domain("test");
  ModelMaker::Node(graph, "Identity", {"keep"}, {"keep2"});
  graph->add_output()->set_name("keep2");
  graph->add_output()->set_name("v2");
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{8, 16, 24, 32}));
  EXPECT_EQ(CountsOfTestOps().taps, 3);
}

TEST_F(CompiledCalls, MayBeTheWholeOutput) {
  model_.Input("x", {4});
  Call("Tap", {"x"}, {"y"});  // passed through: the output is the input
  Call("Scale", {"x"}, {"z"});
  model_.Output("y");
  model_.Output("z");
  ASSERT_MADE();
  const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(out[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(out[1], (Floats{1, 2, 3, 4}));
}

TEST_F(CompiledCalls, GiveTheSamePlanEachTime) {
  model_.Input("x", {4});
  SetFloat(Call("Scale", {"x"}, {"a"}), "factor", 2);
  Call("Tap", {"a"}, {"y"});
  model_.Output("y");
  ASSERT_TRUE(Compile().ok());
  std::vector<std::string> texts;
  for (int i = 0; i < 2; ++i) {
    const TemporaryFolder folder;
    const std::string model = folder.File("same.onnx"), plan = folder.File("same.rondo");
    std::ofstream(model, std::ios::binary) << model_.proto.SerializeAsString();
    CompileOptions options;
    options.models = {{"main", model}};
    options.ops = &ops_;
    ASSERT_TRUE(rondo::Compile(options, plan).ok());
    std::ifstream file(plan, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  EXPECT_EQ(texts[0], texts[1]);
}

// --- refusals

TEST_F(CompiledCalls, UnknownOperatorsSayHowToAddThem) {
  model_.Input("x", {4});
  Call("Scale", {"x"}, {"y"});
  model_.Output("y");
  use_ops_ = false;
  const Status status = Compile();
  EXPECT_SAYS(status, "test::Scale (\"Scale_y\")");
  EXPECT_SAYS(status, "--ops LIB.so");
}

TEST_F(CompiledCalls, WhatAnOpRefusesNamesItsNode) {
  model_.Input("x", {4}, onnx::TensorProto::INT64);
  Call("Scale", {"x"}, {"y"});
  model_.Output("y");
  const Status status = Compile();
  EXPECT_SAYS(status, "Scale \"Scale_y\": custom op \"test.Scale\" of libtest.so: it works on f32 only");
  EXPECT_STREQ(status.source_node(), "Scale \"Scale_y\"");
}

TEST_F(CompiledCalls, AttributesThatAreGraphsAreRefused) {
  model_.Input("x", {4});
  onnx::AttributeProto* a = Call("Scale", {"x"}, {"y"})->add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  a->mutable_g();
  model_.Output("y");
  EXPECT_SAYS(Compile(), "Scale \"Scale_y\": attribute \"body\": a custom op takes numbers");
}

TEST_F(CompiledCalls, OfAnotherVersionAreUnknown) {
  model_.proto.mutable_opset_import(1)->set_version(0);
  model_.Input("x", {4});
  Call("Scale", {"x"}, {"y"});
  model_.Output("y");
  EXPECT_SAYS(Compile(), "test::Scale");
}

}  // namespace
}  // namespace rondo
