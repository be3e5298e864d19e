// CompiledCalls: models that call custom ops, compiled and armed on the host driver.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "core/custom_op.h"
#include "drivers/host/host_driver.h"
#include "runtime/session.h"
#include "tests/import/model_maker.h"
#include "tests/plan/call_plan.h"
#include "tests/says.h"
#include "tests/temporary_folder.h"

namespace rondo {

using Floats = std::vector<float>;

// More ops of the domain "test": Split (x -> x / 2, x + 1), Swap, which changes both of its arguments, and
// Reverse, which reverses its argument through its workspace.
inline int32_t InferBoth(void*, const rondo_op_node* node, rondo_op_type* outputs, char*, size_t) {
  for (size_t i = 0; i < node->num_outputs; ++i) outputs[i] = node->inputs[i < node->num_inputs ? i : 0];
  return 0;
}
inline int64_t g_elements = 4;  // elements of every tensor here
inline int32_t RunSplit(void*, const rondo_op_call* call, char*, size_t) {
  const auto* x = static_cast<const float*>(call->inputs[0]);
  auto *half = static_cast<float*>(call->outputs[0]), *more = static_cast<float*>(call->outputs[1]);
  for (int64_t i = 0; i < g_elements; ++i) {
    half[i] = x[i] / 2;
    more[i] = x[i] + 1;
  }
  return 0;
}
inline int32_t RunSwap(void*, const rondo_op_call* call, char*, size_t) {
  auto *a = static_cast<float*>(call->outputs[0]), *b = static_cast<float*>(call->outputs[1]);
  for (int64_t i = 0; i < g_elements; ++i) std::swap(a[i], b[i]);
  return 0;
}
inline int32_t RunReverse(void*, const rondo_op_call* call, char*, size_t) {
  if (call->workspace_bytes != static_cast<size_t>(g_elements) * sizeof(float)) return RONDO_OP_FAILED;
  std::memcpy(call->workspace, call->inputs[0], call->workspace_bytes);
  const auto* from = static_cast<const float*>(call->workspace);
  std::reverse_copy(from, from + g_elements, static_cast<float*>(call->outputs[0]));
  return 0;
}
inline int32_t RegisterMore(const rondo_op_registrar* registrar) {
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
  rondo_op reverse = split;
  reverse.name = "Reverse";
  reverse.min_outputs = reverse.max_outputs = 1;
  reverse.input_flags = kBothChange;
  reverse.output_aliases = kBoth;
  reverse.workspace = [](void*, const rondo_op_node*) {
    return static_cast<uint64_t>(g_elements) * sizeof(float);
  };
  reverse.run = RunReverse;
  int32_t refused = 0;
  for (const rondo_op* op : {&split, &swap, &reverse}) refused |= registrar->add(registrar->context, op);
  return refused;
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
    options.states = states_;
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
  std::vector<StateName> states_;
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

}  // namespace rondo
