// Recurrent operators, Loop and Scan as loops give the results of the unrolled form, round by round.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/loop.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

struct Recurrent {
  const char* name;
  const char* op;
  int64_t steps, batch, hidden;
  const char* direction = "forward";
  bool lengths = false, states = false, peepholes = false, batch_first = false;
  const char* option = nullptr;  // an attribute that is set to 1
  const char* outputs = "YHC";   // of Y, Y_h and Y_c
};
std::ostream& operator<<(std::ostream& out, const Recurrent& r) { return out << r.name; }

constexpr int64_t kInput = 3;

void SetText(onnx::NodeProto* node, const char* name, const char* value) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s(value);
}
void SetInt(onnx::NodeProto* node, const char* name, int64_t value) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}

std::vector<float> Random(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-0.7f, 0.7f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = uniform(random);
  return values;
}

std::string Save(ModelMaker& m, const char* name) {
  static const TemporaryFolder folder;
  const std::string path = folder.File(std::string(name) + ".onnx");
  std::ofstream file(path, std::ios::binary);
  m.proto.SerializeToOstream(&file);
  return path;
}

std::string Make(const Recurrent& r) {
  ModelMaker m(14);
  const std::string op = r.op;
  const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  const int64_t directions = std::string(r.direction) == "bidirectional" ? 2 : 1, n = r.hidden;
  m.Input("x", r.batch_first ? std::vector<int64_t>{r.batch, r.steps, kInput}
                             : std::vector<int64_t>{r.steps, r.batch, kInput});
  m.Floats("w", {directions, gates * n, kInput}, Random(directions * gates * n * kInput, 1));
  m.Floats("r", {directions, gates * n, n}, Random(directions * gates * n * n, 2));
  m.Floats("b", {directions, 2 * gates * n}, Random(2 * directions * gates * n, 3));
  std::vector<std::string> inputs = {"x", "w", "r", "b", ""};
  if (r.lengths) {
    m.Input("lengths", {r.batch}, onnx::TensorProto::INT32);
    inputs.back() = "lengths";
  }
  const std::vector<int64_t> state = r.batch_first ? std::vector<int64_t>{r.batch, directions, n}
                                                   : std::vector<int64_t>{directions, r.batch, n};
  if (r.states || r.peepholes) {
    for (const char* name : {"h", "c"}) {
      if (*name == 'c' && gates != 4) continue;
      if (r.states) m.Input(name, state);
      inputs.push_back(r.states ? name : "");
    }
  }
  if (r.peepholes) {
    m.Floats("p", {directions, 3 * n}, Random(3 * directions * n, 4));
    inputs.push_back("p");
  }
  std::vector<std::string> outputs;
  for (const char* out : {"Y", "H", "C"}) {
    if (*out == 'C' && gates != 4) continue;
    const bool wanted = std::strchr(r.outputs, *out) != nullptr;
    outputs.push_back(wanted ? out : "");
  }
  onnx::NodeProto* node = m.Node(op, inputs, outputs);
  node->set_name("rec");
  SetInt(node, "hidden_size", n);
  SetText(node, "direction", r.direction);
  if (r.batch_first) SetInt(node, "layout", 1);
  if (r.option != nullptr) SetInt(node, r.option, 1);
  for (const std::string& out : outputs) {
    if (!out.empty()) m.Output(out);
  }
  return Save(m, r.name);
}

using Bytes = std::vector<std::vector<uint8_t>>;

Bytes InputsOf(const LiveModel& model, int64_t steps, uint32_t seed) {
  LiveModel::Buffers buffers = model.MakeBuffers(0);
  std::mt19937 random(seed);
  for (size_t i = 0; i < buffers.inputs.size(); ++i) {
    std::vector<uint8_t>& bytes = buffers.input_bytes[i];
    const DType dtype = model.data().buffers[model.data().programs[0].inputs[i].buffer].dtype;
    if (dtype == DType::kF32) {
      const std::vector<float> values = Random(static_cast<int64_t>(bytes.size() / 4), seed + 7);
      std::memcpy(bytes.data(), values.data(), bytes.size());
    } else if (dtype == DType::kI32) {
      for (size_t k = 0; k + 4 <= bytes.size(); k += 4) {
        const int32_t length = static_cast<int32_t>(random() % static_cast<uint32_t>(steps + 1));
        std::memcpy(&bytes[k], &length, 4);
      }
    }
  }
  return buffers.input_bytes;
}

Bytes RunOn(LiveModel& model, const Bytes& inputs, bool stepwise) {
  LiveModel::Buffers buffers = model.MakeBuffers(0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::memcpy(buffers.input_bytes[i].data(), inputs[i].data(), inputs[i].size());
  }
  RunOptions options;
  options.stepwise = stepwise;
  const Status run = model.session().Run(0, buffers.inputs, buffers.outputs, options);
  EXPECT_TRUE(run.ok()) << run.message();
  return buffers.output_bytes;
}

void ExpectClose(const Bytes& got, const Bytes& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), want[i].size());
    for (size_t k = 0; k + 4 <= got[i].size(); k += 4) {
      float a, b;
      std::memcpy(&a, &got[i][k], 4);
      std::memcpy(&b, &want[i][k], 4);
      ASSERT_NEAR(a, b, 2e-5f + 2e-5f * std::abs(b)) << what << ": output " << i << ", element " << k / 4;
    }
  }
}

// Compares the model at `path` compiled with loops with the unrolled model and with the evaluator.
void ExpectSame(const std::string& path, int64_t steps) {
  CompileOptions loops, straight;
  loops.models = straight.models = {{"main", path}};
  loops.longest_unrolled = 0;
  straight.longest_unrolled = 4096;
  LiveModel looped(loops, HostOptions()), unrolled(straight, HostOptions());
  EXPECT_EQ(unrolled.data().programs[0].loops.size(), 0u);
  if (steps > 5) {
    EXPECT_EQ(looped.data().programs[0].loops.size(), 1u);
  }
  auto model = onnx::Model::Open(path);
  ASSERT_TRUE(model.ok());
  ImportOptions options;
  options.longest_unrolled = 0;
  auto graph = ImportModel(*model, options, nullptr);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(ir::Validate(*graph), "");
  for (uint32_t seed : {1u, 2u}) {
    const Bytes inputs = InputsOf(looped, steps, seed), got = RunOn(looped, inputs, false);
    ExpectClose(got, RunOn(unrolled, inputs, false), "written out");
    EXPECT_EQ(got, RunOn(looped, inputs, true)) << "step by step";
    ir::Values values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Node& node = graph->node(graph->inputs[i].node);
      values.push_back(ir::ConstantData::Own(node.dtype, node.shape, inputs[i]));
    }
    Result<ir::Values> evaluated = ir::EvaluateGraph(*graph, values);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status().message();
    Bytes want;
    for (const auto& value : *evaluated) want.emplace_back(value->bytes.begin(), value->bytes.end());
    ExpectClose(got, want, "evaluated");
  }
}

class RecurrentLoops : public testing::TestWithParam<Recurrent> {};
TEST_P(RecurrentLoops, GiveWhatWrittenOutOnesDo) { ExpectSame(Make(GetParam()), GetParam().steps); }

const Recurrent kCases[] = {
    {"Lstm", "LSTM", 9, 2, 4},
    {"LstmEven", "LSTM", 10, 1, 5},
    {"LstmOfTwoSteps", "LSTM", 2, 2, 4},
    {"LstmOfOneStep", "LSTM", 1, 2, 4},
    {"LstmReverse", "LSTM", 9, 2, 4, "reverse", false, true},
    {"LstmBothWays", "LSTM", 9, 2, 4, "bidirectional", false, true},
    {"LstmLengths", "LSTM", 9, 3, 4, "forward", true},
    {"LstmLengthsBothWays", "LSTM", 10, 3, 4, "bidirectional", true, true},
    {"LstmPeepholes", "LSTM", 9, 2, 4, "forward", false, true, true},
    {"LstmBatchFirst", "LSTM", 9, 2, 4, "bidirectional", false, true, false, true},
    {"LstmCoupled", "LSTM", 9, 2, 4, "forward", false, false, false, false, "input_forget"},
    {"LstmClipped", "LSTM", 9, 2, 4, "forward", false, false, false, false, nullptr, "YC"},
    {"LstmLastStateOnly", "LSTM", 9, 2, 4, "forward", false, true, false, false, nullptr, "H"},
    {"LstmLastStateOnlyEven", "LSTM", 8, 2, 4, "bidirectional", false, true, false, false, nullptr, "H"},
    {"LstmLastCellOnly", "LSTM", 8, 2, 4, "forward", false, false, false, false, nullptr, "C"},
    {"Gru", "GRU", 9, 2, 4, "forward", false, true},
    {"GruLinear", "GRU", 10, 2, 4, "bidirectional", true, true, false, false, "linear_before_reset"},
    {"GruLastStateOnly", "GRU", 9, 1, 4, "reverse", false, false, false, false, nullptr, "H"},
    {"Rnn", "RNN", 9, 2, 4, "bidirectional", true, true},
    {"RnnLong", "RNN", 500, 1, 4, "reverse"},
};
INSTANTIATE_TEST_SUITE_P(All, RecurrentLoops, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// The body sum[r] = 0.9 * sum[r - 1] + x[r] * scale, which also gives each sum as a row.
onnx::GraphProto* DecayingSum(onnx::NodeProto* node, bool counted) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto* body = a->mutable_g();
  body->set_name("body");
  for (const char* name : {"round", "go", "sum", "row"}) {
    const bool control = *name == 'r' && name[1] == 'o' && name[2] == 'u';
    if ((control || *name == 'g') && !counted) continue;
    if (std::string(name) == "row" && counted) continue;
    body->add_input()->set_name(name);
  }
  return body;
}

TEST(ScanLoops, CarryAndStackAlongAnyAxis) {
  ModelMaker m(14);
  m.Input("first", {4});
  m.Input("x", {4, 11});
  m.Floats("decay", {}, {0.9f});
  m.Floats("scale", {4}, {1, 2, -1, 0.5f});
  onnx::NodeProto* scan = m.Node("Scan", {"first", "x"}, {"last", "all"});
  SetInt(scan, "num_scan_inputs", 1);
  for (const auto& [name, value] : {std::pair{"scan_input_axes", 1}, std::pair{"scan_output_axes", 1},
                                    std::pair{"scan_input_directions", 1}}) {
    onnx::AttributeProto* a = scan->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::INTS);
    a->add_ints(value);
  }
  onnx::GraphProto* body = DecayingSum(scan, false);
  ModelMaker::Node(body, "Mul", {"sum", "decay"}, {"less"});
  ModelMaker::Node(body, "Mul", {"row", "scale"}, {"scaled"});
  ModelMaker::Node(body, "Add", {"less", "scaled"}, {"next"});
  ModelMaker::Node(body, "Tanh", {"next"}, {"shown"});
  body->add_output()->set_name("next");
  body->add_output()->set_name("shown");
  m.Output("last");
  m.Output("all");
  ExpectSame(Save(m, "scan"), 11);
}

TEST(LoopLoops, CountTheirRounds) {
  for (int64_t trips : {11, 12}) {
    ModelMaker m(14);
    m.Input("first", {4});
    m.Ints("trips", {trips});
    m.Bool("yes", true);
    m.Floats("decay", {}, {0.9f});
    onnx::NodeProto* loop = m.Node("Loop", {"trips", "yes", "first"}, {"last", "all"});
    onnx::GraphProto* body = DecayingSum(loop, true);
    onnx::AttributeProto* to = ModelMaker::Node(body, "Cast", {"round"}, {"number"})->add_attribute();
    to->set_name("to");
    to->set_type(onnx::AttributeProto::INT);
    to->set_i(onnx::TensorProto::FLOAT);
    ModelMaker::Node(body, "Mul", {"sum", "decay"}, {"less"});
    ModelMaker::Node(body, "Add", {"less", "number"}, {"next"});
    ModelMaker::Node(body, "Identity", {"go"}, {"again"});
    ModelMaker::Node(body, "Neg", {"next"}, {"shown"});
    for (const char* name : {"again", "next", "shown"}) body->add_output()->set_name(name);
    m.Output("last");
    m.Output("all");
    ExpectSame(Save(m, "loop"), trips);
  }
}

// A body that differs from round to round (its slice grows) is unrolled as before.
TEST(LoopLoops, BodiesThatDifferAreWrittenOut) {
  ModelMaker m(14);
  m.Input("first", {4});
  m.Input("x", {8, 4});
  m.Ints("trips", {7});
  m.Ints("zero", {0});
  m.Bool("yes", true);
  onnx::NodeProto* loop = m.Node("Loop", {"trips", "yes", "first"}, {"last"});
  onnx::GraphProto* body = DecayingSum(loop, true);
  m.Ints("one", {1});
  ModelMaker::Node(body, "Add", {"round", "one"}, {"end"});
  ModelMaker::Node(body, "Slice", {"x", "zero", "end", "zero"}, {"some"});
  onnx::AttributeProto* axes = ModelMaker::Node(body, "ReduceMax", {"some"}, {"most"})->add_attribute();
  axes->set_name("axes");
  axes->set_type(onnx::AttributeProto::INTS);
  axes->add_ints(0);
  onnx::AttributeProto* keep = body->mutable_node(2)->add_attribute();
  keep->set_name("keepdims");
  keep->set_type(onnx::AttributeProto::INT);
  keep->set_i(0);
  ModelMaker::Node(body, "Add", {"sum", "most"}, {"next"});
  ModelMaker::Node(body, "Identity", {"go"}, {"again"});
  for (const char* name : {"again", "next"}) body->add_output()->set_name(name);
  m.Output("last");
  ExpectSame(Save(m, "differs"), 1);
}

}  // namespace
}  // namespace rondo
