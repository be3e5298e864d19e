// Masked attention on the host driver: fused attention gives the results of its separate operators, also for
// rows that keep no key.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"

namespace rondo {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kRows = 4, kFeatures = 8;

// Saves a model of attention with `mask` ("padded": causal, and keys that an input masks; "reached": keys up
// to positions). The mask adds `value` to the scores of dropped keys, or replaces them by it.
std::string Save(const std::string& mask, bool in_place, float value) {
  ModelMaker m(17);
  for (const char* name : {"q", "k", "v"}) m.Input(name, {kBatch, kHeads, kRows, kFeatures});
  m.Ints("keys", {0, 1, 2, 3});
  m.Floats("value", {}, {value});
  m.Floats("zero", {}, {0});
  if (mask == "padded") {
    m.Input("padding", {kBatch, 1, 1, kRows}, onnx::TensorProto::BOOL);
    m.Ints("column", {1});
    m.Node("Unsqueeze", {"keys", "column"}, {"rows"});
    m.Node("LessOrEqual", {"keys", "rows"}, {"causal"});
    m.Node("And", {"causal", "padding"}, {"keep"});
  } else {
    m.Input("positions", {kBatch, 1, kRows, 1}, onnx::TensorProto::INT64);
    m.Node("LessOrEqual", {"keys", "positions"}, {"keep"});
  }
  onnx::AttributeProto* swap = m.Node("Transpose", {"k"}, {"kt"})->add_attribute();
  swap->set_name("perm");
  swap->set_type(onnx::AttributeProto::INTS);
  for (int d : {0, 1, 3, 2}) swap->add_ints(d);
  m.Node("MatMul", {"q", "kt"}, {"scores"});
  if (in_place) {
    m.Node("Where", {"keep", "scores", "value"}, {"masked"});
  } else {
    m.Node("Where", {"keep", "zero", "value"}, {"added"});
    m.Node("Add", {"scores", "added"}, {"masked"});
  }
  m.Node("Softmax", {"masked"}, {"weights"});
  m.Node("MatMul", {"weights", "v"}, {"y"});
  m.Output("y");
  const std::string path = testing::TempDir() + "/rondo_masks_" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << m.proto.SerializeAsString();
  return path;
}

std::vector<float> ResultOf(const CompileOptions& options) {
  LiveModel model(options, HostOptions());
  LiveModel::Buffers buffers = model.MakeBuffers(0);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t at = 0; at < buffers.input_bytes[i].size(); at += sizeof(float)) {
      const float x = uniform(random);
      std::memcpy(&buffers.input_bytes[i][at], &x, sizeof(x));
    }
  }
  // With padding on the left the first rows keep no key; nor do rows with positions below 0.
  const uint8_t padding[] = {0, 0, 1, 1, 1, 1, 1, 0};
  const int64_t positions[] = {0, 2, -1, 3, 9, -2, 1, 0};
  std::vector<uint8_t>& last = buffers.input_bytes[3];
  std::memcpy(last.data(), last.size() == sizeof(padding) ? static_cast<const void*>(padding) : positions,
              last.size());
  const Status run = model.session().Run(0, buffers.inputs, buffers.outputs, {});
  EXPECT_TRUE(run.ok()) << run.message();
  std::vector<float> y(buffers.output_bytes[0].size() / sizeof(float));
  std::memcpy(y.data(), buffers.output_bytes[0].data(), buffers.output_bytes[0].size());
  return y;
}

TEST(MaskedAttention, GivesOnTheHostWhatItsPiecesGive) {
  for (const char* mask : {"padded", "reached"}) {
    for (const bool in_place : {false, true}) {
      for (const float value : {-1e4f, -65504.0f, -1e9f, -3.4028235e38f, -INFINITY, -50.0f}) {
        SCOPED_TRACE(std::string(mask) + (in_place ? " in place, " : " added, ") + std::to_string(value));
        CompileOptions options;
        options.models = {{"main", Save(mask, in_place, value)}};
        const std::vector<float> got = ResultOf(options);
        options.skip_passes = {"recognise_attention", "recognise_causal"};
        const std::vector<float> want = ResultOf(options);
        std::filesystem::remove(options.models[0].path);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          if (std::isnan(got[i]) && std::isnan(want[i])) continue;
          ASSERT_NEAR(got[i], want[i], 2e-3) << "element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rondo
