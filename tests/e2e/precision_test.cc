// Models compiled with --precision, on the host: their distance from f32.
#include <cmath>
#include <cstring>

#include "tests/e2e/harness.h"
#include "tests/passes/model_case.h"

namespace rondo {
namespace {

CompileOptions OptionsOf(std::vector<ModelSource> models, Precision precision) {
  CompileOptions options;
  options.models = std::move(models);
  options.precision = precision;
  return options;
}

// Adds the squares of a's values, and of their differences from b's.
void Add(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, double* norm, double* error) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i + 4 <= a.size(); i += 4) {
    float x, y;
    std::memcpy(&x, a.data() + i, 4);
    std::memcpy(&y, b.data() + i, 4);
    ASSERT_TRUE(std::isfinite(y));
    *norm += double{x} * x;
    *error += (double{x} - y) * (double{x} - y);
  }
}

// The relative error in norm of all outputs, given the inputs that come with the model.
double ErrorOf(const std::string& fixture, Precision precision) {
  const std::string folder = DataPath("fixtures/" + fixture);
  Result<passes::ModelCase> given = passes::LoadCase(folder + "/model.onnx", folder + "/test_data_set_0");
  EXPECT_TRUE(given.ok()) << given.status().message();
  if (!given.ok()) return 1e30;
  std::vector<std::vector<uint8_t>> outputs[2];
  for (int lowered : {0, 1}) {
    CompileOptions options =
        OptionsOf({{"main", folder + "/model.onnx"}}, lowered ? precision : Precision::kF32);
    options.auto_state = false;
    LiveModel model(options, HostOptions());
    if (!model.session().valid()) return 1e30;
    LiveModel::Buffers buffers = model.MakeBuffers(0);
    for (size_t i = 0; i < given->inputs.size(); ++i) {
      const std::span<const uint8_t> bytes = given->inputs[i]->bytes;
      EXPECT_EQ(buffers.input_bytes[i].size(), bytes.size());
      std::memcpy(buffers.input_bytes[i].data(), bytes.data(), bytes.size());
    }
    const Status status = model.session().Run(0, buffers.inputs, buffers.outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    outputs[lowered] = buffers.output_bytes;
  }
  double norm = 0, error = 0;
  for (size_t o = 0; o < outputs[0].size(); ++o) Add(outputs[0][o], outputs[1][o], &norm, &error);
  return std::sqrt(error / norm);
}

TEST(Precision, FixturesStayWithinTwoPercentOfF32) {
  for (const char* fixture : {"bert_ts17", "llama_decode_op23", "mobilenetv2", "resnet", "unet_op23"}) {
    EXPECT_LT(ErrorOf(fixture, Precision::kF16), 2e-3) << fixture;
    EXPECT_LT(ErrorOf(fixture, Precision::kBF16), 2e-2) << fixture;
    EXPECT_LT(ErrorOf(fixture, Precision::kTf32), 2e-3) << fixture;
  }
  // The model's two logits are small differences, so rounding only the weights to bf16 changes them by one
  // percent.
  EXPECT_LT(ErrorOf("vit_op23", Precision::kF16), 4e-3);
  EXPECT_LT(ErrorOf("vit_op23", Precision::kBF16), 4e-2);
}

// Both programs share the caches, which are stored in the 16-bit type.
TEST(Precision, PycoderReadsBackWhatItWroteInSixteenBits) {
  const std::vector<ModelSource> models = {{"prefill", DataPath("pycoder/prefill64.onnx")},
                                           {"decode", DataPath("pycoder/decode.onnx")}};
  for (Precision precision : {Precision::kF16, Precision::kBF16}) {
    LiveModel exact(OptionsOf(models, Precision::kF32), HostOptions()),
        lowered(OptionsOf(models, precision), HostOptions());
    ASSERT_TRUE(exact.session().valid() && lowered.session().valid());
    EXPECT_EQ(2 * lowered.data().requirements.devices[0].state, exact.data().requirements.devices[0].state);
    double norm = 0, error = 0;
    const uint32_t prefill = exact.Program("prefill"), decode = exact.Program("decode");
    LiveModel::Buffers prompt = exact.MakeBuffers(prefill), step = exact.MakeBuffers(decode);
    LiveModel::Buffers other_prompt = lowered.MakeBuffers(prefill), other_step = lowered.MakeBuffers(decode);
    for (LiveModel::Buffers* buffers : {&prompt, &other_prompt}) {
      for (int64_t i = 0; i < 64; ++i) {
        const int64_t token = 97 + i % 26;
        std::memcpy(buffers->input_bytes[0].data() + 8 * i, &token, 8);
      }
    }
    ASSERT_TRUE(exact.session().Run(prefill, prompt.inputs, prompt.outputs).ok());
    ASSERT_TRUE(lowered.session().Run(prefill, other_prompt.inputs, other_prompt.outputs).ok());
    for (int64_t position = 64; position < 72; ++position) {
      const int64_t token = 100 + position % 7;
      for (LiveModel::Buffers* buffers : {&step, &other_step}) {
        std::memcpy(buffers->input_bytes[0].data(), &token, 8);
        std::memcpy(buffers->input_bytes[1].data(), &position, 8);
      }
      ASSERT_TRUE(exact.session().Run(decode, step.inputs, step.outputs).ok());
      ASSERT_TRUE(lowered.session().Run(decode, other_step.inputs, other_step.outputs).ok());
      Add(step.output_bytes[0], other_step.output_bytes[0], &norm, &error);
    }
    EXPECT_LT(std::sqrt(error / norm), 2e-2);
  }
}

}  // namespace
}  // namespace rondo
