// Models with packed weights, sharded over virtual devices. Every device holds its share packed, and the
// results are those of one device.
#include <cmath>
#include <cstring>

#include "tests/e2e/harness.h"

namespace rondo {
namespace {

constexpr int64_t kPrompt = 64;  // tokens in the prompt's program

constexpr uint64_t kOnEveryDevice = 73728;

struct Way {
  uint32_t tensor = 1, stages = 1;
  Weights weights = Weights::kDivide;
};

CompileOptions Pycoder(const char* bits, const Way& way) {
  CompileOptions options;
  options.models = {{"prefill", DataPath("pycoder/prefill64.onnx")},
                    {"decode", DataPath("pycoder/decode.onnx")}};
  options.quantize = *ParseWeightBits(bits);
  options.tensor_parallel = way.tensor;
  options.pipeline_parallel = way.stages;
  options.weights = way.weights;
  return options;
}

// The logits of the prompt and of one token after it. Every device that gives logits gives the same bits.
std::vector<float> LogitsOf(LiveModel* model) {
  std::vector<float> logits;
  for (const char* name : {"prefill", "decode"}) {
    const uint32_t number = model->Program(name);
    LiveModel::Buffers buffers = model->MakeBuffers(number);
    for (std::vector<uint8_t>& bytes : buffers.input_bytes) {
      const auto numbers = static_cast<int64_t>(bytes.size() / 8);
      for (int64_t i = 0; i < numbers; ++i) {
        // A single number is a token or its position; this value serves for both.
        const int64_t number = numbers == kPrompt ? 97 + i % 26 : kPrompt;
        std::memcpy(bytes.data() + 8 * i, &number, 8);
      }
    }
    const Status status = model->session().Run(number, buffers.inputs, buffers.outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    const std::vector<uint8_t>* first = nullptr;
    for (const std::vector<uint8_t>& bytes : buffers.output_bytes) {
      if (bytes.empty()) continue;
      if (first == nullptr) first = &bytes;
      EXPECT_EQ(bytes, *first) << name;
    }
    const size_t before = logits.size();
    logits.resize(before + first->size() / 4);
    std::memcpy(logits.data() + before, first->data(), first->size());
  }
  return logits;
}

uint64_t MostWeights(const PlanData& plan) {
  uint64_t most = 0;
  for (const auto& device : plan.requirements.devices) most = std::max(most, device.weights);
  return most;
}

class PackedShares : public testing::TestWithParam<const char*> {};

TEST_P(PackedShares, GiveWhatOneDeviceGivesAndTakeTheirShareOfItsBytes) {
  LiveModel one(Pycoder(GetParam(), {}), HostOptions());
  ASSERT_TRUE(one.session().valid());
  const std::vector<float> want = LogitsOf(&one);
  const uint64_t whole = MostWeights(one.data());
  double norm = 0;
  for (float x : want) norm += double{x} * x;
  const Way ways[] = {{2}, {4}, {2, 2}, {2, 1, Weights::kGather}, {1, 2}};
  for (const Way& way : ways) {
    const uint32_t devices = way.tensor * way.stages;
    const bool exact = way.tensor == 1 || way.weights == Weights::kGather;
    const std::string what = std::to_string(way.tensor) + " x " + std::to_string(way.stages);
    LiveModel model(Pycoder(GetParam(), way), HostOptions());
    ASSERT_TRUE(model.session().valid()) << what;
    const std::vector<float> got = LogitsOf(&model);
    ASSERT_EQ(got.size(), want.size());
    double error = 0;
    for (size_t i = 0; i < got.size(); ++i) error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    EXPECT_LE(std::sqrt(error / norm), exact ? 0 : 1e-5) << what;
    // Norms and tables of angles lie on every device, and a stage may have one more layer.
    const uint64_t share = whole / devices + kOnEveryDevice;
    EXPECT_LE(MostWeights(model.data()), way.stages > 1 ? share + share / 4 : share) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, PackedShares, testing::Values("int4:32", "fp8"));

}  // namespace
}  // namespace rondo
