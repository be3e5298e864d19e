// rondo weights: a plan with other weights is the plan that is compiled of them, and what does not fit is
// refused.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

using Json = nlohmann::json;

Outcome Rondo(const std::string& arguments) { return Shell(std::string(RONDO_COMMAND) + " " + arguments); }

std::string Fixture(const std::string& name) {
  return SourceFolder() + "/tests/data/fixtures/" + name + "/model.onnx";
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

// `header` and data of so many bytes, each of them `byte`.
std::string Safetensors(const std::string& header, size_t bytes, char byte = 0) {
  std::string file(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(file.data(), &size, sizeof(size));
  return file + header + std::string(bytes, byte);
}

std::string Entry(const std::string& name, const std::string& type, const std::string& shape, size_t bytes,
                  size_t begin = 0) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(begin + bytes) + "]}";
}

// The model with every float weight of more than 8 elements changed.
void WriteTwin(const std::string& from, const std::string& to) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(Contents(from)));
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    std::string* raw = tensor.mutable_raw_data();
    if (tensor.data_type() != onnx::TensorProto::FLOAT || raw->size() <= 8 * sizeof(float)) continue;
    for (size_t at = 0; at < raw->size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, raw->data() + at, sizeof(value));
      value = value * 0.875f + 0.001f;
      std::memcpy(raw->data() + at, &value, sizeof(value));
    }
  }
  Write(to, model.SerializeAsString());
}

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

// To the byte, and whatever the weights are rounded to.
TEST_F(Weights, OfATwinGiveThePlanThatIsCompiledOfIt) {
  for (const char* model :
       {"bert_ts17", "llama_decode_op23", "mobilenetv2", "resnet", "unet_op23", "vit_op23"}) {
    for (const char* precision : {"f32", "bf16"}) {
      const std::string options = std::string("--live-weights --precision ") + precision;
      WriteTwin(Fixture(model), In("twin.onnx"));
      Compile(Fixture(model), options, "plan");
      Compile(In("twin.onnx"), options, "fresh");
      ASSERT_NE(Contents(In("plan")), Contents(In("fresh")));
      const Outcome replaced = Replace("plan", "twin.onnx", "replaced");
      ASSERT_EQ(replaced.status, 0) << model << "\n" << replaced.text;
      EXPECT_TRUE(Contents(In("replaced")) == Contents(In("fresh"))) << model << " in " << precision;
    }
  }
}

TEST_F(Weights, ThatAreLiveComputeWhatOthersDo) {
  for (const char* model :
       {"bert_ts17", "llama_decode_op23", "mobilenetv2", "resnet", "unet_op23", "vit_op23"}) {
    Compile(Fixture(model), "", "plan");
    Compile(Fixture(model), "--live-weights", "live");
    const Outcome same = Rondo("compare " + In("plan") + " " + In("live"));
    EXPECT_EQ(same.status, 0) << model << "\n" << same.text;
  }
}

// y = (x + a) * b, where a and b hold the same numbers.
class TwoEqual : public Weights {
 protected:
  void SetUp() override {
    WriteModel("model.onnx", 1, 1, 2);
    Compile(In("model.onnx"), "--live-weights", "plan");
  }
  void WriteModel(const std::string& to, float a, float b, float scale) const {
    ModelMaker m;
    m.Input("x", {16});
    const std::vector<float> as(16, a), bs(16, b);
    for (const auto& [name, values] : {std::pair("a", as), {"b", bs}}) {
      onnx::TensorProto* tensor = m.graph()->add_initializer();
      tensor->set_name(name);
      tensor->set_data_type(onnx::TensorProto::FLOAT);
      tensor->add_dims(16);
      tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    }
    onnx::TensorProto* tensor = m.graph()->add_initializer();
    tensor->set_name("scale");
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->set_raw_data(&scale, sizeof(scale));
    m.Node("Add", {"x", "a"}, {"s"});
    m.Node("Mul", {"s", "b"}, {"p"});
    m.Node("Mul", {"p", "scale"}, {"y"});
    m.Output("y");
    Write(In(to), m.proto.SerializeAsString());
  }
};

TEST_F(TwoEqual, MayDifferAfterwards) {
  WriteModel("twin.onnx", 1, 3, 2);
  Compile(In("twin.onnx"), "--live-weights", "fresh");
  ASSERT_EQ(Replace("plan", "twin.onnx", "replaced").status, 0);
  EXPECT_TRUE(Contents(In("replaced")) == Contents(In("fresh")));
  // The same by a file that has the one weight.
  std::string bytes;
  const float three = 3;
  for (int i = 0; i < 16; ++i) bytes.append(reinterpret_cast<const char*>(&three), sizeof(three));
  Write(In("b.safetensors"), Safetensors("{" + Entry("b", "F32", "[16]", 64) + "}", 0) + bytes);
  const Outcome one = Replace("plan", "b.safetensors", "one");
  ASSERT_EQ(one.status, 0) << one.text;
  EXPECT_PRINTS(one, "1 weights of");
  EXPECT_TRUE(Contents(In("one")) == Contents(In("fresh")));
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
  const std::string fits = Entry("a", "F32", "[16]", 64);
  struct Bad {
    const char* name;
    std::string contents;
    const char* says;
  };
  const std::vector<Bad> bad = {
      {"unknown.safetensors", Safetensors("{" + Entry("c", "F32", "[16]", 64) + "}", 64), "no weight \"c\""},
      {"module.safetensors", Safetensors("{" + Entry("m.a", "F32", "[16]", 64) + "}", 64),
       "no weight \"m.a\""},
      {"fixed.safetensors", Safetensors("{" + Entry("scale", "F32", "[]", 4) + "}", 4),
       "no weight \"scale\""},
      {"both.safetensors", Safetensors("{" + fits + "," + Entry("c", "F32", "[16]", 64, 64) + "}", 128),
       "\"c\""},
      {"longer.safetensors", Safetensors("{" + Entry("a", "F32", "[17]", 68) + "}", 68), "[17]"},
      {"shorter.safetensors", Safetensors("{" + Entry("a", "F32", "[15]", 60) + "}", 60), "[15]"},
      {"square.safetensors", Safetensors("{" + Entry("a", "F32", "[4,4]", 64) + "}", 64), "[4, 4]"},
      {"ranked.safetensors", Safetensors("{" + Entry("a", "F32", "[1,16]", 64) + "}", 64), "[1, 16]"},
      {"f64.safetensors", Safetensors("{" + Entry("a", "F64", "[16]", 128) + "}", 128), "f64"},
      {"f16.safetensors", Safetensors("{" + Entry("a", "F16", "[16]", 32) + "}", 32), "f16"},
      {"bf16.safetensors", Safetensors("{" + Entry("a", "BF16", "[16]", 32) + "}", 32), "bf16"},
      {"i32.safetensors", Safetensors("{" + Entry("a", "I32", "[16]", 64) + "}", 64), "i32"},
      {"cut.safetensors", Safetensors("{" + fits + "}", 60), ""},
      {"header.safetensors", Safetensors("{" + fits, 64), ""},
      {"overlap.safetensors", Safetensors("{" + fits + "," + Entry("b", "F32", "[16]", 64, 32) + "}", 96),
       ""},
      {"range.safetensors", Safetensors("{" + Entry("a", "F32", "[16]", 60) + "}", 60), ""},
      {"none.safetensors", Safetensors("{}", 0), "none of its weights"},
      {"empty.safetensors", "", ""},
      {"noise.onnx", std::string(100, 'x'), ""},
      {"weights.bin", Safetensors("{" + fits + "}", 64), "neither .safetensors nor .onnx"}};
  ASSERT_EQ(bad.size(), 20u);
  const std::string before = Contents(In("plan"));
  for (const Bad& file : bad) {
    Write(In(file.name), file.contents);
    const Outcome refused = Rondo("weights replace " + In("plan") + " " + In(file.name));
    EXPECT_EQ(refused.status, 1) << file.name << "\n" << refused.text;
    EXPECT_PRINTS(refused, file.says);
    EXPECT_TRUE(Contents(In("plan")) == before) << file.name;
  }
  const Outcome scale = Replace("plan", "other_scale.onnx", "out");
  EXPECT_EQ(scale.status, 1);
  EXPECT_PRINTS(scale, "weight \"scale\" is another than the plan was compiled with");
  Compile(In("model.onnx"), "", "closed");
  const Outcome closed = Replace("closed", "model.onnx", "out");
  EXPECT_EQ(closed.status, 1);
  EXPECT_PRINTS(closed, "compile the model with --live-weights");
}

}  // namespace
}  // namespace rondo
