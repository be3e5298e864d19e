// A whole model sharded over devices (--tp) or cut into stages (--pp). Each device holds its share of the
// states. Successive runs agree with those on one device, for stages to the bit. All devices give the same
// bits, and each holds no more than its share.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "core/scalar.h"
#include "core/synthetic.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

CompileOptions Pycoder(uint32_t devices) {
  CompileOptions options;
  options.models = {{"prefill", DataPath("pycoder/prefill64.onnx")},
                    {"decode", DataPath("pycoder/decode.onnx")}};
  options.tensor_parallel = devices;
  return options;
}

// Runs `count` tokens at `position`. Returns the logits, which must be equal on all devices.
std::vector<float> Run(LiveModel& model, const char* program, int64_t count, int64_t position) {
  const uint32_t number = model.Program(program);
  LiveModel::Buffers buffers = model.MakeBuffers(number);
  for (size_t i = 0; i < buffers.inputs.size(); ++i) {
    auto* values = reinterpret_cast<int64_t*>(buffers.input_bytes[i].data());
    for (int64_t t = 0; t < count; ++t)
      values[t] = buffers.inputs[i].name == "tokens" ? (t * 37 + position) % 256 : position + t;
  }
  const Status status =
      model.session().Run(number, Span<const Input>(buffers.inputs), Span<const Output>(buffers.outputs));
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<uint8_t> first;
  for (const auto& bytes : buffers.output_bytes) {
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes.empty() || bytes == first);  // states stay on their devices
  }
  std::vector<float> logits(first.size() / 4);
  std::memcpy(logits.data(), first.data(), first.size());
  return logits;
}

void ExpectAgree(LiveModel& one, LiveModel& shared, bool to_the_bit = false) {
  for (int64_t step = 0; step < 6; ++step) {
    const char* program = step == 0 ? "prefill" : "decode";
    const int64_t count = step == 0 ? 64 : 1, position = step == 0 ? 0 : 63 + step;
    const std::vector<float> want = Run(one, program, count, position);
    const std::vector<float> got = Run(shared, program, count, position);
    ASSERT_EQ(want.size(), got.size());
    EXPECT_TRUE(!to_the_bit || want == got) << "step " << step;
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-3 * std::max(1.0f, std::abs(want[i]))) << "step " << step << ", " << i;
  }
}

class SharedModelTest : public testing::TestWithParam<uint32_t> {};

TEST_P(SharedModelTest, PycoderAgreesWithOneDevice) {
  HostOptions host;
  host.faults.seed = GetParam();
  host.faults.most_delay_us = 20;
  host.faults.reorder = true;
  LiveModel one(Pycoder(1), {}), shared(Pycoder(GetParam()), host);
  ASSERT_EQ(shared.data().requirements.devices.size(), GetParam());
  const DeviceBytes& whole = one.data().requirements.devices[0];
  for (const DeviceBytes& share : shared.data().requirements.devices) {
    // Norms and positions are on every device, and alignment takes a page a weight. The model has two key
    // heads with three query heads each. With three or four devices, key heads are padded to one a device,
    // which is half of all heads.
    const uint64_t attention = 6 * (2 * 192 * 192 + 2 * 192 * 64) * 4;
    const uint64_t padded = GetParam() == 2 ? 0 : attention / 2 - attention / GetParam();
    EXPECT_LT(share.weights, whole.weights / GetParam() + padded + 500'000);
    EXPECT_EQ(share.state, whole.state / 2);
  }
  ExpectAgree(one, shared);
}

INSTANTIATE_TEST_SUITE_P(Devices, SharedModelTest, testing::Values(2u, 3u, 4u));

double ExposedOf(const CompiledPlan& plan) {
  double exposed = 0;
  for (const OverlapNote& note : plan.report.programs[0].overlap.collectives) exposed += note.exposed_after;
  return exposed;
}

// Options with a profile in which collectives do not slow compute down.
CompileOptions PycoderByProfile(uint32_t devices) {
  CompileOptions options = Pycoder(devices);
  options.profile.times = std::make_shared<const MeasuredTimes>(MeasuredTimes{"idle", {}, {}, 0.0});
  return options;
}

TEST(ChunkedModelTest, PycoderAgreesWithOneDevice) {
  LiveModel one(Pycoder(1), {});
  for (const uint32_t chunks : {0u, 2u, 4u, 8u}) {
    CompileOptions options = PycoderByProfile(2);
    options.chunks = chunks;
    HostOptions host;
    host.faults.seed = chunks;
    host.faults.most_delay_us = 20;
    host.faults.reorder = true;
    LiveModel shared(options, host);
    ExpectAgree(one, shared);
  }
}

// In a prefill everything waits for the all-reduces. Chunks of its rows do not wait for one another.
TEST(ChunkedModelTest, APrefillHidesWhatItWouldWaitForWithinItsArena) {
  CompileOptions options = PycoderByProfile(2);
  options.models.pop_back();
  options.chunks = 1;
  const Result<CompiledPlan> whole = CompileToMemory(options);
  options.chunks = 0;
  const Result<CompiledPlan> cut = CompileToMemory(options);
  ASSERT_TRUE(whole.ok() && cut.ok()) << cut.status().message();
  const OverlapReport &before = whole->report.programs[0].overlap, &after = cut->report.programs[0].overlap;
  EXPECT_GT(ExposedOf(*whole), 0.95 * 418);
  EXPECT_LT(ExposedOf(*cut), 0.35 * ExposedOf(*whole));
  EXPECT_LT(after.end_after, before.end_after);
  EXPECT_LE(static_cast<double>(cut->report.arena_bytes),
            1.1 * static_cast<double>(whole->report.arena_bytes));
  EXPECT_EQ(after.collectives[0].chunks, 2u);
}

class StagedModelTest : public testing::TestWithParam<std::pair<uint32_t, uint32_t>> {};

// The caches of all layers are one state. Each stage holds the rows of its layers.
TEST_P(StagedModelTest, PycoderIsEqualToOneDevice) {
  const auto [stages, devices] = GetParam();
  HostOptions host;
  host.faults.seed = stages;
  host.faults.most_delay_us = 20;
  host.faults.reorder = true;
  CompileOptions options = Pycoder(devices);
  options.pipeline_parallel = stages;
  LiveModel one(Pycoder(1), {}), staged(options, host);
  ASSERT_EQ(staged.data().requirements.devices.size(), stages * devices);
  const DeviceBytes& whole = one.data().requirements.devices[0];
  uint64_t state = 0;
  for (const DeviceBytes& share : staged.data().requirements.devices) {
    EXPECT_LT(share.weights, 1.3 * static_cast<double>(whole.weights) / (stages * devices) + 500'000);
    state += share.state;
  }
  EXPECT_EQ(state, whole.state);
  ExpectAgree(one, staged, devices == 1);
}

INSTANTIATE_TEST_SUITE_P(Stages, StagedModelTest,
                         testing::Values(std::pair(2u, 1u), std::pair(3u, 1u), std::pair(6u, 1u),
                                         std::pair(2u, 2u), std::pair(4u, 2u)));

// Encoders, decoders, vision: every output of a model of stages is that of one device.
TEST(StagedModelTest, ModelsAreEqualToOneDeviceToTheBit) {
  for (const char* name :
       {"bert_ts17", "llama_decode_op23", "mobilenetv2", "resnet", "unet_op23", "vit_op23"}) {
    std::map<std::string, std::vector<uint8_t>> want;
    for (const uint32_t stages : {1u, 2u, 4u}) {
      CompileOptions options;
      options.models = {{"main", DataPath(std::string("fixtures/") + name + "/model.onnx")}};
      options.auto_state = false;
      options.pipeline_parallel = stages;
      LiveModel model(options, {});
      LiveModel::Buffers buffers = model.MakeBuffers(0);
      for (size_t i = 0; i < buffers.inputs.size(); ++i) {
        const Input& input = buffers.inputs[i];
        for (int64_t k = 0; k < input.shape.elements(); ++k) {
          const double value =
              IsFloat(input.dtype) ? static_cast<double>(k % 97) / 97 - 0.4 : static_cast<double>(k % 3);
          scalar::Store<double>(input.dtype, buffers.input_bytes[i].data(), k, value);
        }
      }
      const Status status =
          model.session().Run(0, Span<const Input>(buffers.inputs), Span<const Output>(buffers.outputs));
      ASSERT_TRUE(status.ok()) << status.message();
      std::map<std::string, std::vector<uint8_t>> got;
      for (size_t o = 0; o < buffers.outputs.size(); ++o)
        got[std::string(buffers.outputs[o].name)] = buffers.output_bytes[o];
      if (stages == 1) want = got;
      EXPECT_EQ(got.size(), want.size()) << name;
      for (const auto& [port, bytes] : want)
        EXPECT_TRUE(got[port] == bytes) << name << ", " << stages << " stages, " << port;
    }
  }
}

TEST(SharedModelTest, SyntheticWeightsAreSharesOfTheSame) {
  const fs::path folder = fs::temp_directory_path() / "rondo_shared_synthetic";
  fs::create_directories(folder);
  for (const char* name : {"prefill64.onnx", "decode.onnx"}) {
    fs::copy_file(DataPath(std::string("pycoder/") + name), folder / name,
                  fs::copy_options::overwrite_existing);
  }
  const auto options = [&](uint32_t devices) {
    CompileOptions out = Pycoder(devices);
    out.models[0].path = (folder / "prefill64.onnx").string();
    out.models[1].path = (folder / "decode.onnx").string();
    out.synthetic_seed = 5;
    return out;
  };
  LiveModel one(options(1), {}), shared(options(2), {});
  uint64_t runs = 0;
  for (const Buffer& buffer : shared.data().buffers) runs += buffer.synthetic_run != 0;
  EXPECT_GT(runs, 20u);  // each device makes only its columns of a synthetic weight
  ExpectAgree(one, shared);
  fs::remove_all(folder);
}

TEST(SharedModelTest, OptionsThatDoNotGoTogetherAreRefused) {
  CompileOptions options = Pycoder(2);
  options.devices = 2;
  EXPECT_NE(std::string(CompileToMemory(options).status().message()).find("give one of them"),
            std::string::npos);
  options.devices = 0;
  options.models[0].path = "model_{rank}.onnx";
  EXPECT_NE(std::string(CompileToMemory(options).status().message()).find("names a file for each device"),
            std::string::npos);
  options.tensor_parallel = 9;
  options.pipeline_parallel = 8;
  EXPECT_NE(
      std::string(CompileToMemory(options).status().message()).find("72 devices; a plan is for at most 64"),
      std::string::npos);
  options.pipeline_parallel = 0;
  options.tensor_parallel = 65;
  EXPECT_NE(std::string(CompileToMemory(options).status().message()).find("at most 64"), std::string::npos);
}

}  // namespace
}  // namespace rondo
