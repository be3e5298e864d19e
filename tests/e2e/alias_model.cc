#include "tests/e2e/alias_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "compiler/import/import.h"
#include "core/scalar.h"
#include "formats/plan/copies.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

double ElementOf(DType dtype, const uint8_t* data, int64_t i) {
  const scalar::Value value = scalar::LoadValue(dtype, data, i);
  return NaturalType(dtype) == TapeType::kI64 ? static_cast<double>(value.i64)
                                              : static_cast<double>(value.f32);
}

void ExpectSame(const std::string& what, const ir::ConstantData& expected,
                const std::vector<uint8_t>& found) {
  for (int64_t i = 0; i < expected.shape.elements(); ++i) {
    const double a = ElementOf(expected.dtype, expected.bytes.data(), i),
                 b = ElementOf(expected.dtype, found.data(), i);
    ASSERT_NEAR(a, b, 1e-5 + 1e-5 * std::abs(a)) << what << ", element " << i;
  }
}

}  // namespace

void AliasModel::Node(const std::string& op, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, const std::string& attribute, int64_t value) {
  onnx::AttributeProto* to = Node(op, inputs, outputs)->add_attribute();
  to->set_name(attribute);
  to->set_type(onnx::AttributeProto::INT);
  to->set_i(value);
}

void AliasModel::Node(const std::string& op, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, const std::string& attribute,
                      const std::vector<int64_t>& values) {
  onnx::AttributeProto* to = Node(op, inputs, outputs)->add_attribute();
  to->set_name(attribute);
  to->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) to->add_ints(value);
}

void AliasModel::Slice(const std::string& from, const std::string& to, int64_t begin, int64_t end,
                       int64_t axis) {
  Ints(to + "_begin", {begin});
  Ints(to + "_end", {end});
  Ints(to + "_axis", {axis});
  Node("Slice", {from, to + "_begin", to + "_end", to + "_axis"}, {to});
}

void AliasModel::State(const std::string& input, const std::vector<int64_t>& dims, const std::string& output,
                       int type) {
  Input(input, dims, type);
  Output(output);
  states_.push_back({input, output});
}

void AliasModel::Check() {
  const TemporaryFolder folder;
  const std::string path = folder.File("model.onnx");
  std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  CompileOptions options;
  options.models = {{"main", path}};
  options.states = states_;
  options.donations = donations_;
  options.auto_state = false;
  model_ = std::make_unique<LiveModel>(options, HostOptions());
  ASSERT_TRUE(model_->session().valid());
  Result<ir::Graph> graph = ImportModel(Make(), ImportOptions(), nullptr);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  CheckRuns(*graph);
  CheckLifecycle();
  for (const CopyingStep& copy : CopyingSteps(plan(), 0))
    EXPECT_NE(WhyCopied(plan(), plan().programs[0], copy.step), "") << "step " << copy.step;
}

ir::Values AliasModel::RandomInputs(const ir::Graph& graph) const {
  std::mt19937 random(5);
  ir::Values values;
  for (const ir::GraphInput& input : graph.inputs) {
    const ir::Node& node = graph.node(input.node);
    std::vector<uint8_t> bytes(static_cast<size_t>(node.shape.elements() * ByteSize(node.dtype)));
    for (int64_t i = 0; i < node.shape.elements(); ++i) {
      const uint32_t drawn = static_cast<uint32_t>(random());
      if (IsFloat(node.dtype)) {
        scalar::Store<float>(node.dtype, bytes.data(), i, static_cast<float>(drawn % 2001) / 1000 - 1);
      } else {
        scalar::Store<int64_t>(node.dtype, bytes.data(), i, drawn % static_cast<uint64_t>(below_));
      }
    }
    values.push_back(ir::ConstantData::Own(node.dtype, node.shape, std::move(bytes)));
  }
  return values;
}

void AliasModel::CheckRuns(const ir::Graph& graph) {
  const Program& program = plan().programs[0];
  ir::Values inputs = RandomInputs(graph);
  LiveModel::Buffers buffers = model_->MakeBuffers(0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::ConstantData& data = *inputs[i];
    if (program.inputs[i].is_state) {
      ASSERT_TRUE(
          model_->session().WriteState(program.inputs[i].name, data.bytes.data(), data.bytes.size()).ok());
    } else {
      std::memcpy(buffers.input_bytes[i].data(), data.bytes.data(), data.bytes.size());
    }
  }
  for (int run = 0; run < 2; ++run) {
    Result<ir::Values> expected = ir::EvaluateGraph(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Status status = model_->session().Run(0, buffers.inputs, buffers.outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      const Port& port = program.outputs[o];
      const ir::ConstantData& data = *(*expected)[o];
      std::vector<uint8_t> found = buffers.output_bytes[o];
      if (port.is_state) {
        found.resize(data.bytes.size());
        const std::string_view name = plan().buffers[port.buffer].name;
        ASSERT_TRUE(model_->session().ReadState(name, found.data(), found.size()).ok());
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (program.inputs[i].buffer == port.buffer) inputs[i] = (*expected)[o];
        }
      }
      ExpectSame("run " + std::to_string(run) + ", output " + std::string(port.name), data, found);
    }
  }
}

void AliasModel::CheckLifecycle() {
  Result<Driver*> driver = CreateHostDriver(HostOptions());
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  VerifyOptions options;
  options.reopenings = 1;
  Result<VerifyReport> report = VerifyLifecycle(model_->plan(), *driver, options);
  DestroyHostDriver(*driver);
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const Finding& finding : report->findings) ADD_FAILURE() << finding.Text();
}

std::string AliasModel::Why() const {
  std::string all;
  for (const CopyingStep& copy : CopyingSteps(plan(), 0))
    all.append(WhyCopied(plan(), plan().programs[0], copy.step)).append("\n");
  return all;
}

}  // namespace rondo
