// rondo weights: a plan with replaced weights equals the plan compiled from the new weights. Files that do
// not fit are refused.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tests/weights/weight_twins.h"

namespace rondo {
namespace {

using Json = nlohmann::json;

Outcome Rondo(const std::string& arguments) { return Shell(std::string(RONDO_COMMAND) + " " + arguments); }

class Weights : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }
  void Compile(const std::string& model, const std::string& options, const std::string& to) const {
    const Outcome compiled = Rondo("compile " + model + " " + options + " -o " + In(to));
    ASSERT_EQ(compiled.status, 0) << compiled.text;
  }
  Outcome Replace(const std::string& plan, const std::string& file, const std::string& to) const {
    return Rondo("weights replace " + In(plan) + " " + In(file) + " -o " + In(to));
  }
  TemporaryFolder folder_;
};

constexpr const char* kModels[] = {"bert_ts17", "llama_decode_op23", "mobilenetv2",
                                   "resnet",    "unet_op23",         "vit_op23"};

// Equal to the byte, for any rounding and number of bits of the weights, and for any sharding.
TEST_F(Weights, OfATwinGiveThePlanThatIsCompiledOfIt) {
  for (const char* model : kModels) {
    for (const char* how : {"", "--tp 2 --precision bf16", "--pp 2", "--quantize-weights int4",
                            "--quantize-weights fp8:32 --precision f16"}) {
      const std::string options = std::string("--live-weights ") + how;
      WriteTwin(Fixture(model), In("twin.onnx"));
      Compile(Fixture(model), options, "plan");
      Compile(In("twin.onnx"), options, "fresh");
      ASSERT_NE(Contents(In("plan")), Contents(In("fresh")));
      const Outcome replaced = Replace("plan", "twin.onnx", "replaced");
      ASSERT_EQ(replaced.status, 0) << model << "\n" << replaced.text;
      EXPECT_TRUE(Contents(In("replaced")) == Contents(In("fresh"))) << model << " " << how;
    }
  }
}

TEST_F(Weights, ThatAreLiveComputeWhatOthersDo) {
  for (const char* model : kModels) {
    for (const char* how : {"", "--tp 2", "--quantize-weights int4:32 --precision bf16"}) {
      Compile(Fixture(model), how, "plan");
      Compile(Fixture(model), std::string("--live-weights ") + how, "live");
      const Outcome same = Rondo("compare " + In("plan") + " " + In("live"));
      EXPECT_EQ(same.status, 0) << model << " " << how << "\n" << same.text;
    }
  }
}

// The model of WriteTwoWeights, with the same numbers in a and b.
class TwoEqual : public Weights {
 protected:
  void SetUp() override {
    WriteModel("model.onnx", 1, 1, 2);
    Compile(In("model.onnx"), "--live-weights", "plan");
  }
  void WriteModel(const std::string& to, float a, float b, float scale) const {
    WriteTwoWeights(In(to), a, b, scale);
  }
};

TEST_F(TwoEqual, MayDifferAfterwards) {
  WriteModel("twin.onnx", 1, 3, 2);
  Compile(In("twin.onnx"), "--live-weights", "fresh");
  ASSERT_EQ(Replace("plan", "twin.onnx", "replaced").status, 0);
  EXPECT_TRUE(Contents(In("replaced")) == Contents(In("fresh")));
  // The same with a file that has only one weight.
  std::string bytes;
  const float three = 3;
  for (int i = 0; i < 16; ++i) bytes.append(reinterpret_cast<const char*>(&three), sizeof(three));
  Write(In("b.safetensors"), Safetensors("{" + Entry("b", "F32", "[16]", 64) + "}", 0) + bytes);
  const Outcome one = Replace("plan", "b.safetensors", "one");
  ASSERT_EQ(one.status, 0) << one.text;
  EXPECT_PRINTS(one, "1 weights of");
  EXPECT_TRUE(Contents(In("one")) == Contents(In("fresh")));
}

// Packed for two devices in shares that are no parts of one device's packing: refused with the weight's name,
// or replayed.
TEST_F(Weights, ThatCannotBeReplayedAreRefusedWithTheirNode) {
  const Outcome refused = Rondo("compile " + Fixture("bert_ts17") +
                                " --live-weights --quantize-weights int4:32 --tp 2 -o " + In("plan"));
  EXPECT_EQ(refused.status, 1);
  EXPECT_PRINTS(refused, "of Initializer \"onnx::MatMul_");
  EXPECT_PRINTS(refused, "leave out --live-weights");
}

// For weight types that plans do not have (FP8 here), the plan keeps a digest.
TEST_F(Weights, OfOtherTypesAreFixed) {
  Compile(SourceFolder() + "/tests/data/attributes/QuantizeLinear_23.onnx", "--live-weights", "plan");
  EXPECT_EQ(Rondo("weights list " + In("plan")).status, 0);
}

// Packed weights that cannot be rounded are refused before anything is written.
TEST_F(Weights, ThatAreNotFiniteAreNotPacked) {
  Compile(Fixture("vit_op23"), "--live-weights --quantize-weights int4", "plan");
  const Json list = Json::parse(Rondo("weights list " + In("plan") + " --json").text);
  for (const Json& weight : list["weights"]) {
    if (weight["packing"] != "int4") continue;
    const std::string source = weight["source"];
    const std::string shape = source.substr(source.rfind(" [") + 1);
    const size_t comma = shape.find(", ");
    const size_t bytes = 4 * std::stoul(shape.substr(1)) * std::stoul(shape.substr(comma + 2));
    Write(In("nan.safetensors"),
          Safetensors("{" + Entry(weight["name"], "F32", shape, bytes) + "}", bytes, '\xff'));
    const Outcome refused = Replace("plan", "nan.safetensors", "out");
    EXPECT_EQ(refused.status, 1);
    EXPECT_PRINTS(refused, "not finite, and the plan has it as int4");
    return;
  }
  ADD_FAILURE() << "no weight is packed";
}

TEST_F(TwoEqual, AreListed) {
  const Json list = Json::parse(Rondo("weights list " + In("plan") + " --json").text);
  std::map<std::string, bool> replaceable;
  for (const Json& weight : list["weights"]) replaceable[weight["name"]] = weight["replaceable"];
  EXPECT_TRUE(replaceable["a"]);
  EXPECT_TRUE(replaceable["b"]);
}

// Twenty files that do not fit: each is refused with a sentence that has the words, and nothing is written.
TEST_F(TwoEqual, RefuseWhatDoesNotFit) {
  WriteModel("other_scale.onnx", 1, 3, 2.5f);
  const std::vector<Misfit> bad = Misfits();
  ASSERT_EQ(bad.size(), 20u);
  const std::string before = Contents(In("plan"));
  for (const Misfit& file : bad) {
    Write(In(file.name), file.contents);
    const Outcome refused = Rondo("weights replace " + In("plan") + " " + In(file.name));
    EXPECT_EQ(refused.status, 1) << file.name << "\n" << refused.text;
    EXPECT_PRINTS(refused, file.says);
    EXPECT_TRUE(Contents(In("plan")) == before) << file.name;
  }
  const Outcome scale = Replace("plan", "other_scale.onnx", "out");
  EXPECT_EQ(scale.status, 1);
  EXPECT_PRINTS(scale, "weight \"scale\" (read by Mul \"Mul_y\") is another than");
  Compile(In("model.onnx"), "", "closed");
  const Outcome closed = Replace("closed", "model.onnx", "out");
  EXPECT_EQ(closed.status, 1);
  EXPECT_PRINTS(closed, "compile the model with --live-weights");
}

}  // namespace
}  // namespace rondo
