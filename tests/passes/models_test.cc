// All passes over whole models: the outputs stay PyTorch's, and the expected patterns result.
#include <gtest/gtest.h>

#include "tests/folders.h"
#include "tests/passes/all_passes.h"
#include "tests/passes/model_case.h"

namespace rondo::passes {
namespace {

const std::string kData = SourceFolder() + "/tests/data/";

// Runs all passes on a model and compares its outputs. Returns the census.
Census After(const std::string& model, const std::string& data, const PassOptions& options = {}) {
  Result<ModelCase> c = LoadCase(kData + model, kData + data);
  EXPECT_TRUE(c.ok()) << c.status().message();
  if (!c.ok()) return {};
  Status run = RunAllPasses(&c->graph, options, nullptr);
  EXPECT_TRUE(run.ok()) << run.message();
  Status same = CheckCase(*c);
  EXPECT_TRUE(same.ok()) << same.message();
  return Count(c->graph);
}

TEST(ModelsTest, PycoderDecodeWritesTwelveRowsAndCopiesNoCache) {
  Census c = After("pycoder/decode.onnx", "pycoder/decode.test/test_data_set_0");
  EXPECT_EQ(c.states_chained, 2);
  EXPECT_EQ(c.in_place, 12);
  EXPECT_EQ(c.writes, 12);
  EXPECT_EQ(c.concats, 0);
  EXPECT_EQ(c.attentions, 6);
  EXPECT_EQ(c.grouped_attentions, 6);
  EXPECT_EQ(c.with_limit, 6);
  EXPECT_EQ(c.with_mask, 0);
}

TEST(ModelsTest, PycoderPrefillIsTheSameForSixtyFourTokens) {
  Census c = After("pycoder/prefill64.onnx", "pycoder/prefill64.test/test_data_set_0");
  EXPECT_EQ(c.in_place, 12);
  EXPECT_EQ(c.writes, 12);
  EXPECT_EQ(c.concats, 0);
  EXPECT_EQ(c.attentions, 6);
  EXPECT_EQ(c.with_limit, 6);
  EXPECT_EQ(c.with_mask, 0);
}

TEST(ModelsTest, ExplicitStatesAreUpdatedInPlace) {
  PassOptions options;
  options.states = {{"kc", "stack"}, {"vc", "stack_1"}};
  const std::string folder = "fixtures/llama_decode_op23/";
  Census c = After(folder + "model.onnx", folder + "test_data_set_0", options);
  EXPECT_EQ(c.states_chained, 2);
  EXPECT_EQ(c.in_place, 4);
  EXPECT_EQ(c.concats, 0);
  EXPECT_EQ(c.attentions, 2);
  EXPECT_EQ(c.grouped_attentions, 2);
  EXPECT_EQ(c.with_limit, 2);
  EXPECT_EQ(c.with_mask, 0);
}

TEST(ModelsTest, OutputsOfEveryFixtureStay) {
  for (const char* name : {"bert_ts17", "mobilenetv2", "resnet", "unet_op23", "vit_op23"}) {
    std::string folder = std::string("fixtures/") + name + "/";
    Census c = After(folder + "model.onnx", folder + "test_data_set_0");
    bool transformer = std::string(name) == "bert_ts17" || std::string(name) == "vit_op23";
    EXPECT_EQ(c.attentions, transformer ? 2 : std::string(name) == "unet_op23" ? 1 : 0) << name;
  }
}

}  // namespace
}  // namespace rondo::passes
