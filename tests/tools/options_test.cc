// The command line: errors name the wrong argument; --json, --quiet, help, shapes of models.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/tensor/tensor.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

using Json = nlohmann::json;

const std::string kData = SourceFolder() + "/tests/data";
const std::string kLlama = kData + "/fixtures/llama_decode_op23/model.onnx";

Outcome Rondo(const std::string& arguments) { return Shell(std::string(RONDO_COMMAND) + " " + arguments); }

class CommandLine : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }

  // A model y = x + z with the given dims, which are numbers or names.
  std::string Sum(const std::vector<std::string>& x, const std::vector<std::string>& z) const {
    ModelMaker m;
    DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, x);
    DescribePort(m.graph()->add_input(), "z", onnx::TensorProto::FLOAT, z);
    m.Ints("rows", {0});
    m.Node("ReduceSum", {"x", "rows"}, {"sum"});
    m.Node("Add", {"sum", "z"}, {"y"});
    m.Output("y");
    std::ofstream(In("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
    return "compile " + In("m.onnx") + " -o " + In("p");
  }

  // The shape of input `name` of the plan.
  std::string ShapeIn(const std::string& name) const {
    const Json json = Json::parse(Rondo("inspect --json " + In("p")).text, nullptr, false);
    for (const auto& input : json["programs"][0]["inputs"]) {
      if (input["name"] == name) return input["shape"].dump();
    }
    return "none";
  }
  TemporaryFolder folder_;
};

TEST_F(CommandLine, AnUnknownOptionIsNamedWithTheCommandAndTheNearestOption) {
  struct Case {
    const char *arguments, *says;
  };
  for (const Case& c :
       {Case{"bench p --iterations 4",
             "rondo bench: there is no option --iterations of rondo bench; the nearest is --"},
        Case{"run p --imput x=x.npy",
             "rondo run: there is no option --imput of rondo run; the nearest is --input\n"},
        Case{"inspect --step p", "no option --step of rondo inspect; the nearest is --steps"},
        Case{"compile m.onnx -o p -z", "there is no option -z of rondo compile; the nearest is -"},
        Case{"compile m.onnx -vx -o p", "there is no option -x of rondo compile"},
        Case{"run p --trase=f", "no option --trase of rondo run; the nearest is --trace"},
        Case{"help --all", "there is no option --all of rondo help"}}) {
    const Outcome outcome = Rondo(c.arguments);
    EXPECT_EQ(outcome.status, 2) << c.arguments;
    EXPECT_PRINTS(outcome, c.says);
  }
  // A value that begins with "-" is not taken for an option.
  EXPECT_PRINTS(Rondo("test " + In("none") + " --atol -1e-5"), "--atol -1e-05 is not a finite number");
  EXPECT_PRINTS(Rondo("inspect a b"), "rondo inspect: at most 1 PLAN can be given, and here are 2: a, b");
  EXPECT_PRINTS(Rondo("run p --format txt"), "--format: txt is none of npy, pb");
  EXPECT_PRINTS(Rondo("run p --driver gpu"), "--driver: gpu is none of host, cuda");
}

TEST_F(CommandLine, AnErrorWithJsonIsAnObjectOnStandardOutput) {
  const std::string none = In("none");
  for (const char* command :
       {"compile", "inspect", "run", "generate", "bench", "check", "test", "pack", "tune", "profile"}) {
    const std::string name(command);
    std::string fails = name + " " + none + " --json";
    if (name == "compile" || name == "tune" || name == "profile") fails += " -o " + In("out");
    if (name == "generate") fails += " --prompt a";
    for (const auto& [arguments, status] : {std::pair(fails, 1), {name + " x --json --no-such-option", 2}}) {
      const Outcome outcome = Shell("(" RONDO_COMMAND " " + arguments + " 2>/dev/null)");
      EXPECT_EQ(outcome.status, status) << arguments << outcome.text;
      const Json json = Json::parse(outcome.text, nullptr, false);
      ASSERT_TRUE(json.is_object() && json.contains("error")) << arguments << ":\n" << outcome.text;
      EXPECT_EQ(json["error"]["command"], name);
      EXPECT_EQ(json["error"]["exit_status"], status);
      EXPECT_FALSE(json["error"]["message"].get<std::string>().empty());
      const Outcome both = Rondo(arguments);
      EXPECT_PRINTS(both, "rondo " + name + ": ");
    }
  }
  const Outcome nothing = Shell("(" RONDO_COMMAND " nothing --json 2>/dev/null)");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_TRUE(Json::parse(nothing.text, nullptr, false).contains("error")) << nothing.text;
}

TEST_F(CommandLine, HelpSaysWhatHelpOfTheCommandSays) {
  EXPECT_EQ(Rondo("help").text, Rondo("--help").text);
  EXPECT_EQ(Rondo("help compile").text, Rondo("compile --help").text);
  EXPECT_EQ(Rondo("help").status, 0);
  const Outcome none = Rondo("help nothing");
  EXPECT_EQ(none.status, 2);
  EXPECT_PRINTS(none, "there is no command \"nothing\"; there are: compile inspect");
}

TEST_F(CommandLine, HelpHasGroupsAndLeavesWhatFewNeedToHelpAll) {
  const std::string help = Rondo("compile --help").text, all = Rondo("compile --help-all").text;
  size_t at = 0;
  for (const char* group :
       {"Input", "Shapes", "Target", "Precision", "Many devices", "Memory", "Debugging", "Output"}) {
    const size_t found = help.find("\n" + std::string(group) + ":\n");
    ASSERT_NE(found, std::string::npos) << group;
    EXPECT_GT(found, at) << group;
    at = found;
  }
  EXPECT_EQ(help.find("--skip-pass"), std::string::npos);
  EXPECT_NE(help.find("options that few need: rondo compile --help-all"), std::string::npos);
  EXPECT_NE(all.find("--skip-pass"), std::string::npos);
  EXPECT_EQ(all.find("options that few need:"), std::string::npos);
}

TEST_F(CommandLine, OpsListsWhatIsImportedAndNamesTheNearest) {
  const Outcome gelu = Rondo("ops Gelu");
  EXPECT_EQ(gelu.status, 0);
  EXPECT_PRINTS(gelu, "ai.onnx\n");
  EXPECT_PRINTS(gelu, "com.microsoft\n");
  EXPECT_EQ(gelu.text.find("Relu"), std::string::npos);
  const Outcome none = Rondo("ops Gemn");
  EXPECT_EQ(none.status, 1);
  EXPECT_PRINTS(none, "no operator is called \"Gemn\"; nearest: \"Gemm\"");
}

TEST_F(CommandLine, QuietPrintsResultsAndErrorsAlone) {
  EXPECT_EQ(Rondo("compile -q " + kLlama + " -o " + In("p")).text, "");
  EXPECT_EQ(Rondo("check --quiet " + In("p")).text, "");
  EXPECT_EQ(Rondo("bench -q --runs 1 " + In("p")).text, "");
  EXPECT_EQ(Rondo("test -q " + kData + "/fixtures/bert_ts17").text, "");
  EXPECT_PRINTS(Rondo("inspect -q " + In("none")), "rondo inspect: ");
  EXPECT_EQ(Rondo("inspect -q --json " + In("p")).text[0], '{');
  std::ofstream(In("b.csv")) << "id,lower,upper,size\na,0,2,4\n";
  EXPECT_EQ(Rondo("pack -q " + In("b.csv")).text, "id,lower,upper,size,offset\na,0,2,4,0\n");
}

TEST_F(CommandLine, AWrongTargetIsWrongUse) {
  for (const std::string& command :
       {"compile " + kLlama + " -o " + In("p"), "test " + kData + "/fixtures/bert_ts17"}) {
    const Outcome outcome = Rondo(command + " --target cuda:sm_12");
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    EXPECT_PRINTS(outcome, "sm_12");
  }
}

TEST_F(CommandLine, AShapeThatNoInputHasIsNamedThoughOthersAreMissing) {
  const Outcome outcome = Rondo(Sum({"batch", "width"}, {"width"}) + " --shape bacth=2");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_PRINTS(
      outcome,
      "shape \"bacth\": no model has an input or a symbolic dimension of that name; nearest: \"batch\"");
}

TEST_F(CommandLine, OpenDimensionsAreListedOnceWithALineToCopy) {
  const std::string compile = Sum({"batch", "width"}, {"width"});
  const Outcome outcome = Rondo(compile);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_PRINTS(outcome,
                "\"batch\" (input \"x\", axis 0), \"width\" (input \"x\", axis 1); to copy, with your "
                "numbers: --shape batch=1 --shape width=1\n");
  EXPECT_EQ(Rondo(compile + " --shape batch=1 --shape width=1").status, 0);
  // Open dims without names, also written as -1 or "?", are set by input.
  const std::string unnamed = Sum({"?", "3"}, {"?"});
  EXPECT_PRINTS(Rondo(unnamed),
                "axis 0 of input \"x\", axis 0 of input \"z\"; to copy, with your numbers: --shape x=1x3 "
                "--shape z=1\n");
}

TEST_F(CommandLine, AShapeOfAnInputOutranksANameThatIsNone) {
  const std::string compile = Sum({"?", "?"}, {"?"});
  ASSERT_EQ(Rondo(compile + " --shape x=2x3 --shape z=3").status, 0);
  EXPECT_EQ(ShapeIn("x"), "[2,3]");
  ASSERT_EQ(Rondo(compile + " --shape '?=3' --shape x=5x3").status, 0);
  EXPECT_EQ(ShapeIn("x"), "[5,3]");
  EXPECT_EQ(ShapeIn("z"), "[3]");
}

TEST_F(CommandLine, MinusOneIsAnOpenDimension) {
  // -1 in a given shape means the model's dim.
  const std::string compile = Sum({"batch", "3"}, {"3"});
  ASSERT_EQ(Rondo(compile + " --shape x=-1x-1 --shape batch=4").status, 0);
  EXPECT_EQ(ShapeIn("x"), "[4,3]");
  EXPECT_PRINTS(Rondo(compile + " --shape x=-1x3"),
                "shape \"x\": dimension 0 is -1, which leaves it to the model, and the model leaves it open");
  EXPECT_EQ(Rondo(compile + " --shape x=-2x3").status, 2);
  // In the model.
  ModelMaker m;
  m.Input("x", {1, 3});
  m.graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-1);
  m.Node("Relu", {"x"}, {"y"});
  m.Output("y");
  std::ofstream(In("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  EXPECT_PRINTS(Rondo("compile " + In("m.onnx") + " -o " + In("p")),
                "axis 0 of input \"x\"; to copy, with your numbers: --shape x=1x3\n");
  ASSERT_EQ(Rondo("compile " + In("m.onnx") + " -o " + In("p") + " --shape x=7x3").status, 0);
  EXPECT_EQ(ShapeIn("x"), "[7,3]");
}

TEST_F(CommandLine, TestsTakeShapes) {
  const std::string bert = kData + "/fixtures/bert_ts17";
  const Outcome unknown = Rondo("test " + bert + " --shape nothing=3");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_PRINTS(unknown, "shape \"nothing\": no model has an input");
  EXPECT_EQ(Rondo("test " + bert + " --shape nothing").status, 2);
  // An input without data, in a model that leaves its shape open.
  std::filesystem::create_directories(In("case/test_data_set_0"));
  ModelMaker m;
  DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"n"});
  m.Node("Relu", {"x"}, {"y"});
  m.Output("y");
  std::ofstream(In("case/model.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  for (const char* name : {"input_0", "output_0"}) {
    const Tensor tensor{name[0] == 'i' ? "x" : "y", DType::kF32, Shape{2}, std::vector<uint8_t>(8)};
    ASSERT_TRUE(WriteTensor(tensor, In("case/test_data_set_0/") + name + ".pb").ok());
  }
  EXPECT_EQ(Rondo("test " + In("case") + " --shape n=2").status, 0);
  EXPECT_PRINTS(Rondo("test " + In("case") + " --shape x=3"), "1 failed");
}

TEST_F(CommandLine, WhatLiesOnEveryDeviceIsOneLineAndAllOfThemWithV) {
  const auto lines = [](const std::string& text) {
    size_t count = 0;
    for (size_t at = text.find("\non every device: "); at != text.npos;
         at = text.find("\non every device: ", at + 1))
      ++count;
    return count;
  };
  const std::string compile = "compile " + kLlama + " --tp 2 -o " + In("p");
  const Outcome plain = Rondo(compile);
  EXPECT_EQ(lines(plain.text), 1u) << plain.text;
  EXPECT_PRINTS(plain, "on every device: 8 weights and states; the largest: val_0 (2048 bytes): ");
  EXPECT_EQ(lines(Rondo(compile + " -v").text), 8u);
}

TEST_F(CommandLine, APoolIsCalledAPool) {
  ModelMaker m(18);
  m.Input("x", {1, 8, 16, 16});
  onnx::NodeProto* node = m.Node("MaxPool", {"x"}, {"y"});
  onnx::AttributeProto* window = node->add_attribute();
  window->set_name("kernel_shape");
  window->set_type(onnx::AttributeProto::INTS);
  window->add_ints(2);
  window->add_ints(2);
  m.Output("y");
  std::ofstream(In("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  ASSERT_EQ(Rondo("compile " + In("m.onnx") + " -o " + In("p")).status, 0);
  const Outcome shown = Rondo("inspect --steps " + In("p"));
  EXPECT_PRINTS(shown, "k0_pool");
  EXPECT_EQ(shown.text.find("convolution"), std::string::npos)
      << shown.text.substr(shown.text.find("convolution") - 200);
}

TEST_F(CommandLine, ThePlanOfAHostHasNoTimesUnlessTheyWereMeasured) {
  ASSERT_EQ(Rondo("compile " + kLlama + " -o " + In("p")).status, 0);
  const Outcome shown = Rondo("inspect " + In("p"));
  EXPECT_EQ(shown.text.find("a run takes "), shown.text.find("a run takes at most")) << shown.text;
  EXPECT_EQ(shown.text.find("µs by estimate"), std::string::npos);
  EXPECT_PRINTS(shown, "% of a run");
  EXPECT_TRUE(Json::parse(Rondo("inspect --json " + In("p")).text)["programs"][0]["estimated_us"].is_null());
  EXPECT_EQ(Rondo("bench --runs 1 " + In("p")).text.find("by estimate"), std::string::npos);
  ASSERT_EQ(Rondo("profile " + In("p") + " -o " + In("f.json") + " --runs 3").status, 0);
  ASSERT_EQ(Rondo("compile " + kLlama + " -o " + In("q") + " --profile " + In("f.json")).status, 0);
  EXPECT_PRINTS(Rondo("inspect " + In("q")), "µs by estimate");
}

}  // namespace
}  // namespace rondo
