// Whole models with --weights gather on virtual devices: every device gives one device's results to the bit,
// and holds its share of the weights and at most two units of whole ones.
#include <algorithm>
#include <cstring>
#include <map>

#include "tests/e2e/harness.h"
#include "tests/passes/model_case.h"
#include "tools/rondo/gathered_weights.h"

namespace rondo {
namespace {

using Bytes = std::vector<uint8_t>;

CompileOptions Shared(std::vector<ModelSource> models, uint32_t devices, uint32_t stages = 1) {
  CompileOptions options;
  options.models = std::move(models);
  options.tensor_parallel = devices;
  options.pipeline_parallel = stages;
  if (devices > 1) options.weights = Weights::kGather;
  return options;
}

void ExpectLittle(const PlanData& plan, uint64_t whole, uint32_t devices, const std::string& what) {
  for (const Program& program : plan.programs) {
    const std::vector<tools::DeviceGathers> gathers = tools::GathersOf(plan, program);
    ASSERT_EQ(gathers.size(), plan.requirements.devices.size()) << what;
    for (const tools::DeviceGathers& device : gathers) {
      // Small weights stay whole: 1 %, plus alignment.
      EXPECT_LE(device.held, whole / devices + whole / 100 + 64 * plan.buffers.size()) << what;
      EXPECT_GT(device.gathers, 0u);
      EXPECT_LE(device.at_once, program.arena_bytes);
    }
  }
}

class GatheredFixtures : public testing::TestWithParam<const char*> {};

std::string BaseOf(std::string_view port) { return std::string(port.substr(0, port.find('@'))); }

// Results by name, from every device that gives them.
std::multimap<std::string, Bytes> RunOn(const passes::ModelCase& given, LiveModel* model) {
  LiveModel::Buffers buffers = model->MakeBuffers(0);
  const Program& program = model->data().programs[0];
  for (size_t p = 0; p < program.inputs.size(); ++p) {
    for (size_t i = 0; i < given.inputs.size(); ++i) {
      if (given.graph.inputs[i].name != BaseOf(program.inputs[p].name)) continue;
      const std::span<const uint8_t> bytes = given.inputs[i]->bytes;
      EXPECT_EQ(buffers.input_bytes[p].size(), bytes.size());
      std::copy(bytes.begin(), bytes.end(), buffers.input_bytes[p].begin());
    }
  }
  const Status status = model->session().Run(0, buffers.inputs, buffers.outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  std::multimap<std::string, Bytes> results;
  for (size_t p = 0; p < program.outputs.size(); ++p)
    results.emplace(BaseOf(program.outputs[p].name), buffers.output_bytes[p]);
  return results;
}

TEST_P(GatheredFixtures, GiveTheBitsOfOneDeviceOnEvery) {
  const std::string folder = DataPath(std::string("fixtures/") + GetParam());
  Result<passes::ModelCase> given = passes::LoadCase(folder + "/model.onnx", folder + "/test_data_set_0");
  ASSERT_TRUE(given.ok()) << given.status().message();
  std::multimap<std::string, Bytes> want;
  uint64_t whole = 0;
  for (const auto& [devices, stages] : {std::pair(1u, 1u), {2u, 1u}, {3u, 1u}, {4u, 1u}, {2u, 2u}}) {
    CompileOptions options = Shared({{"main", folder + "/model.onnx"}}, devices, stages);
    options.auto_state = false;
    LiveModel model(options, HostOptions());
    ASSERT_TRUE(model.session().valid());
    std::multimap<std::string, Bytes> got = RunOn(*given, &model);
    const std::string what = std::to_string(devices) + " devices, " + std::to_string(stages) + " stages";
    if (devices == 1) {
      want = std::move(got);
      whole = model.data().requirements.devices[0].weights;
      continue;
    }
    EXPECT_EQ(got.size(), want.size() * devices) << what;
    for (const auto& [name, bytes] : got) {
      ASSERT_EQ(want.count(name), 1u) << name;
      EXPECT_TRUE(bytes == want.find(name)->second) << name << ", " << what;
    }
    if (stages == 1) ExpectLittle(model.data(), whole, devices, what);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GatheredFixtures,
                         testing::Values("bert_ts17", "llama_decode_op23", "mobilenetv2", "resnet",
                                         "unet_op23", "vit_op23"));

// Two programs use the same shares. Two of six layers are whole at once.
TEST(GatheredModels, PycoderHasTwoLayersAtOnce) {
  const std::vector<ModelSource> models = {{"prefill", DataPath("pycoder/prefill64.onnx")},
                                           {"decode", DataPath("pycoder/decode.onnx")}};
  constexpr uint64_t kLayer = 1'572'864;
  const LiveModel one(Shared(models, 1), HostOptions());
  const uint64_t whole = one.data().requirements.devices[0].weights;
  for (uint32_t devices : {2u, 4u}) {
    const LiveModel model(Shared(models, devices), HostOptions());
    ASSERT_TRUE(model.data().programs.size() == 2);
    ExpectLittle(model.data(), whole, devices, std::to_string(devices) + " devices");
    for (const Program& program : model.data().programs) {
      for (const tools::DeviceGathers& device : tools::GathersOf(model.data(), program)) {
        EXPECT_EQ(device.at_once, 2 * kLayer);
        EXPECT_LE(device.peak(), whole / devices + whole / 100 + 2 * kLayer);
      }
    }
  }
}

// Rows of the embedding are read on the device that holds them, also in 16 bits.
TEST(GatheredModels, PycoderReadsItsEmbeddingWhereItIs) {
  constexpr int64_t kTokens[] = {0, 127, 128, 255};
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    std::vector<Bytes> logits;
    for (uint32_t devices : {1u, 2u, 3u}) {
      CompileOptions options = Shared({{"decode", DataPath("pycoder/decode.onnx")}}, devices);
      options.precision = precision;
      LiveModel model(options, HostOptions());
      ASSERT_TRUE(model.session().valid());
      for (size_t t = 0; t < 4; ++t) {
        const int64_t token = kTokens[t];
        LiveModel::Buffers buffers = model.MakeBuffers(0);
        for (Bytes& bytes : buffers.input_bytes) {
          if (bytes.size() == 8) std::memcpy(bytes.data(), &token, 8);
        }
        ASSERT_TRUE(model.session().Run(0, buffers.inputs, buffers.outputs).ok());
        for (const Bytes& bytes : buffers.output_bytes) {
          if (bytes.empty()) continue;
          if (devices == 1) logits.push_back(bytes);
          EXPECT_TRUE(bytes == logits[t]) << token << " on " << devices;
        }
      }
      const uint64_t sums = static_cast<uint64_t>(
          std::ranges::count_if(model.data().programs[0].sync_points,
                                [](const SyncPoint& point) { return point.op == CollectiveOp::kAllReduce; }));
      EXPECT_EQ(sums, devices == 1 ? 0u : 1u);
    }
  }
}

// Layers of a few small weights: each unit is one collective, and nothing is copied behind it.
TEST(GatheredModels, SmallWeightsOfAUnitAreOneCollective) {
  const std::vector<ModelSource> models = {{"main", DataPath("fixtures/bert_ts17/model.onnx")}};
  CompileOptions live = Shared(models, 2);
  live.live_weights = true;
  const auto gathers = [](const PlanData& plan) {
    return std::ranges::count_if(plan.programs[0].sync_points,
                                 [](const SyncPoint& point) { return point.op == CollectiveOp::kAllGather; });
  };
  const auto launches = [](const PlanData& plan) {
    return std::ranges::count_if(plan.programs[0].steps,
                                 [](const Step& step) { return step.kind == StepKind::kLaunch; });
  };
  const Result<CompiledPlan> together = CompileToMemory(Shared(models, 2)), apart = CompileToMemory(live);
  ASSERT_TRUE(together.ok()) << together.status().message();
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(gathers(together->plan), 3);
  EXPECT_EQ(gathers(apart->plan), 17) << "new values of live weights are cut like the old ones";
  EXPECT_EQ(launches(together->plan), launches(apart->plan));
}

TEST(GatheredModels, NeedDevicesThatShareTheWeights) {
  CompileOptions options = Shared({{"main", DataPath("pycoder/decode.onnx")}}, 1, 2);
  options.weights = Weights::kGather;
  const Status status = CompileToMemory(options).status();
  EXPECT_NE(std::string(status.message()).find("give --weights gather with --tp N"), std::string::npos);
}

}  // namespace
}  // namespace rondo
