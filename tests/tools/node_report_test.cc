// `rondo inspect --node`: every ONNX node of every fixture has an answer, and a step names each node that
// computes.
#include "tools/rondo/node_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "formats/onnx/reader.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo::tools {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Models() {
  const std::string data = SourceFolder() + "/tests/data/";
  std::vector<std::string> models;
  for (const auto& entry : fs::directory_iterator(data + "fixtures"))
    models.push_back(entry.path().string() + "/model.onnx");
  models.push_back(data + "pycoder/decode.onnx");
  models.push_back(data + "pycoder/prefill64.onnx");
  return models;
}

// Whether an operator may run nothing: it only rearranges elements or states shapes, and may become a view, a
// constant or its input.
bool MayRunNothing(const std::string& op) {
  static const std::set<std::string> ops = {"Cast",    "Concat",  "Constant",  "ConstantOfShape", "Dropout",
                                            "Expand",  "Flatten", "Gather",    "Identity",        "Range",
                                            "Reshape", "Shape",   "Size",      "Slice",           "Split",
                                            "Squeeze", "Tile",    "Transpose", "Unsqueeze"};
  return ops.count(op) != 0;
}

TEST(NodeReport, AnswersOfEveryNodeOfEveryFixture) {
  size_t nodes = 0;
  for (const std::string& path : Models()) {
    SCOPED_TRACE(path);
    CompileOptions options;
    options.models = {{"main", path}};
    const Result<CompiledPlan> compiled = CompileToMemory(options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    auto model = onnx::Model::Open(path);
    ASSERT_TRUE(model.ok());
    for (const onnx::NodeProto& node : (*model)->proto().graph().node()) {
      ++nodes;
      const std::string name = !node.name().empty() ? node.name() : node.output(0);
      const auto answers = AnswerOf(compiled->plan, node.op_type() + " \"" + name + "\"");
      ASSERT_TRUE(answers.ok()) << node.op_type() << " " << name << ": " << answers.status().message();
      const NodeAnswer& answer = answers->front();
      const std::string text = TextOf(compiled->plan, answer);
      EXPECT_TRUE(!answer.steps.empty() || !answer.sentence.empty()) << text;
      EXPECT_NE(answer.became, "gone") << text;
      if (!MayRunNothing(node.op_type())) {
        EXPECT_TRUE(!answer.steps.empty() || answer.became == "constant" || answer.became == "known") << text;
      }
    }
  }
  EXPECT_GT(nodes, 500u);
}

TEST(NodeReport, SaysWhatBecameOfANode) {
  const TemporaryFolder folder;
  ModelMaker m;
  m.Input("x", {4, 8});
  m.Floats("two", {}, {2});
  m.Node("Mul", {"two", "two"}, {"four"});
  m.Node("Mul", {"x", "four"}, {"scaled"});
  m.Node("Transpose", {"scaled"}, {"turned"});
  m.Node("Softmax", {"turned"}, {"y"});
  m.Node("Neg", {"x"}, {"nobody"});
  m.Output("y");
  std::ofstream(folder.File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  const auto rondo = [&](const std::string& arguments) {
    return Shell(std::string(RONDO_COMMAND) + " " + arguments);
  };
  ASSERT_EQ(rondo("compile " + folder.File("m.onnx") + " -o " + folder.File("m.rondo")).status, 0);
  const auto says = [&](const std::string& node, const std::string& text) {
    const Outcome said = rondo("inspect " + folder.File("m.rondo") + " --node " + node);
    EXPECT_EQ(said.status, 0) << said.text;
    EXPECT_NE(said.text.find(text), std::string::npos) << said.text;
  };
  says("Softmax_y", "step 0");
  says("Mul_scaled", "with ");
  says("Mul_four", "is a constant");
  says("Transpose_turned", "is a view");
  says("Neg_nobody", "no output of the model needs it");
  says("Softmax_y --json", "\"became\": \"steps\"");
  const Outcome unknown = rondo("inspect " + folder.File("m.rondo") + " --node Softmax_z");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_NE(unknown.text.find("nearest: \"Softmax_y\""), std::string::npos) << unknown.text;
}

}  // namespace
}  // namespace rondo::tools
