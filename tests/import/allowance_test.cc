// The limit for unrolling functions and loops depends on the size of the model's file and weights.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/import/imported.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// Function `small` has two nodes and is called once; `large` has `nodes` nodes and is called `calls` times.
ModelMaker Calls(int nodes, int calls) {
  ModelMaker m;
  m.Input("x0", {4});
  for (const char* name : {"small", "large"}) {
    onnx::FunctionProto* function = m.proto.add_functions();
    function->set_name(name);
    function->set_domain("f");
    function->add_input("v0");
    const int count = name[0] == 's' ? 2 : nodes;
    function->add_output("v" + std::to_string(count));
    for (int i = 0; i < count; ++i)
      ModelMaker::Node(function, "Neg", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)});
    *function->mutable_opset_import() = m.proto.opset_import();
  }
  m.Node("small", {"x0"}, {"x1"})->set_domain("f");
  for (int i = 1; i <= calls; ++i) {
    m.Node("large", {"x" + std::to_string(i)}, {"x" + std::to_string(i + 1)})->set_domain("f");
  }
  m.Output("x" + std::to_string(calls + 1));
  return m;
}

TEST(AllowanceTest, NamesTheNodeThatStandsForMost) {
  ModelMaker m = Calls(40, 3);
  m.Node("Exp", {"x0"}, {"e"});
  m.Output("e");
  ImportOptions options;
  options.max_nodes = 60;
  const Status status = Import(m, options).status();
  EXPECT_TRUE(Says(status, {"has more than", "operations", "large \"large_x2\" alone stands for 40"}))
      << status.message();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_STREQ(status.source_node(), "large \"large_x2\"");
}

TEST(AllowanceTest, CountsWhatNobodyNeedsAsItIsGoneThrough) {
  ModelMaker m = Calls(40, 3);
  for (int i = 0; i < 5'000; ++i)
    ModelMaker::Node(m.proto.mutable_functions(1), "Neg", {"v0"}, {"unread" + std::to_string(i)});
  ImportOptions options;
  options.max_nodes = 200;
  EXPECT_TRUE(Says(Import(m, options).status(), {"nodes, inputs and outputs", "large"}));
}

TEST(AllowanceTest, FileAndWeightsRaiseIt) {
  TemporaryFolder folder;
  ModelMaker m = Calls(40, 3);
  m.Floats("w", {}, {});
  onnx::TensorProto* w = m.graph()->mutable_initializer(0);
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  w->add_dims(4);
  w->add_dims(80'000);
  const auto say = [&](const char* key, const char* value) {
    auto* entry = w->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  say("location", "w.bin");
  std::ofstream(folder.File("w.bin"), std::ios::binary) << std::string(4 * 4 * 80'000, '\0');
  m.Node("MatMul", {"x0", "w"}, {"first"});
  m.Output("first");
  // The nodes lie in order: the weight is read before the calls.
  onnx::GraphProto* graph = m.graph();
  for (int i = graph->node_size() - 1; i > 0; --i) graph->mutable_node()->SwapElements(i, i - 1);
  const auto import = [&] {
    const std::string path = folder.File("m.onnx");
    std::ofstream(path, std::ios::binary) << m.proto.SerializeAsString();
    auto model = onnx::Model::Open(path);
    ImportOptions options;
    options.max_nodes = 20;
    return model.ok() ? ImportModel(*model, options, nullptr).status() : model.status();
  };
  EXPECT_TRUE(import().ok()) << import().message();
  // Without the weight the same calls are too many.
  graph->mutable_node()->DeleteSubrange(0, 1);
  graph->clear_initializer();
  graph->mutable_output()->RemoveLast();
  EXPECT_TRUE(Says(import(), {"operations", "large \"large_x2\" alone"})) << import().message();
}

}  // namespace
}  // namespace rondo
