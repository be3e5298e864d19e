// `--annotate NODES:region=NAME`: a region shares no kernels with outside nodes, runs as one unit, and is
// named in the plan. Nodes for which that is impossible are refused.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/streams/annotated_models.h"
#include "tests/streams/annotated_plan.h"

namespace rondo {
namespace {

class Regions : public AnnotatedModels {
 protected:
  // The nodes of each launch, like "a b|c". Expects the plan to have these regions.
  std::string Launches(const ModelMaker& m, const std::vector<std::string>& annotations,
                       const std::map<std::string, std::string>& regions) {
    const Result<CompiledPlan> compiled = Compile(m, annotations);
    if (!compiled.ok()) return compiled.status().message();
    EXPECT_EQ(WhyRegionsDoNotHold(compiled->plan, regions), "");
    std::string text;
    for (const Step& step : compiled->plan.programs[0].steps) {
      text += text.empty() ? "" : "|";
      for (const std::string& node : NodesOf(compiled->plan, step)) text += node;
    }
    return text;
  }
  std::vector<std::string> Places(const CompiledPlan& compiled) {
    std::vector<std::string> places;
    for (const RegionNote& note : RegionsOf(compiled.plan, compiled.plan.programs[0]))
      places.push_back(note.region + " " + std::to_string(note.place));
    return places;
  }
};

// y = e(d(c(b(a(x))))), which becomes one kernel.
ModelMaker Chain() {
  ModelMaker m;
  m.Input("x", {64});
  std::string from = "x";
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    m.Node(*name == 'c'   ? "Tanh"
           : *name == 'e' ? "Neg"
                          : "Sigmoid",
           {from}, {std::string(name) + "_out"})
        ->set_name(name);
    from = std::string(name) + "_out";
  }
  m.Output(from);
  return m;
}

TEST_F(Regions, AreFusedWithNothingOutside) {
  EXPECT_EQ(Launches(Chain(), {}, {}), "abcde");
  EXPECT_EQ(Launches(Chain(), {"b:region=r", "c:region=r"}, {{"b", "r"}, {"c", "r"}}), "a|bc|de");
  EXPECT_EQ(Launches(Chain(), {"b:region=r", "c:region=s"}, {{"b", "r"}, {"c", "s"}}), "a|b|c|de");
}

TEST_F(Regions, Nest) {
  const std::map<std::string, std::string> nested = {{"b", "r"}, {"c", "r/s"}, {"d", "r"}};
  EXPECT_EQ(Launches(Chain(), {"b:region=r", "c:region=r/s", "d:region=r"}, nested), "a|b|c|d|e");
  // A nested region lies in the outer one, whichever annotation gives the whole name.
  const std::map<std::string, std::string> all = {
      {"a", "r"}, {"b", "r"}, {"c", "r/s"}, {"d", "r"}, {"e", "r"}};
  for (const char* inner : {"c:region=s", "c:region=r/s"})
    EXPECT_EQ(Launches(Chain(), {"*:region=r", inner}, all), "ab|c|de");
  ModelMaker m = Chain();
  for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
    auto* entry = node.add_metadata_props();
    entry->set_key("rondo.region");
    entry->set_value(node.name() == "c" ? "r/s" : "r");
  }
  EXPECT_EQ(Launches(m, {}, all), "ab|c|de");
}

// A function F(x) = Tanh(x w), called by "f", and by "g" on f's result.
ModelMaker Layers() {
  ModelMaker m;
  m.proto.add_opset_import()->set_domain("own");
  m.proto.mutable_opset_import(1)->set_version(1);
  onnx::FunctionProto* f = m.proto.add_functions();
  f->set_name("F");
  f->set_domain("own");
  f->add_input("x");
  f->add_input("w");
  f->add_output("y");
  f->add_opset_import()->set_version(20);
  ModelMaker::Node(f, "MatMul", {"x", "w"}, {"r"})->set_name("matmul");
  ModelMaker::Node(f, "Softmax", {"r"}, {"y"})->set_name("softmax");
  m.Input("x", {4, 8});
  for (const char* name : {"f", "g"}) {
    const std::string w = std::string("w_") + name;
    std::vector<float> numbers(64);
    for (size_t i = 0; i < 64; ++i) numbers[i] = static_cast<float>(i * static_cast<size_t>(*name) % 13) / 8;
    m.Floats(w, {8, 8}, numbers);
    onnx::NodeProto* call = m.Node("F", {name[0] == 'f' ? "x" : "of_f", w}, {name[0] == 'f' ? "of_f" : "y"});
    call->set_domain("own");
    call->set_name(name);
  }
  m.Output("y");
  return m;
}

// Two calls, or the nodes of two annotations, are two regions, even if one reads the other. Their kernels are
// equal, and the plan has only one.
TEST_F(Regions, OfOneNameInSeveralPlacesAreCompiledOnce) {
  const std::vector<std::string> cases[] = {{"f:region=layer", "g:region=layer"},
                                            {"f/*:region=layer", "g/*:region=layer"}};
  for (const std::vector<std::string>& annotations : cases) {
    const Result<CompiledPlan> compiled = Compile(Layers(), annotations);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(Places(*compiled), (std::vector<std::string>{"layer 0", "layer 1"}));
    const Program& program = compiled->plan.programs[0];
    const std::vector<RegionNote> notes = RegionsOf(compiled->plan, program);
    const uint32_t steps = notes[0].last_step - notes[0].first_step + 1;
    EXPECT_EQ(steps * 2, program.steps.size());
    EXPECT_EQ(compiled->plan.kernels.size(), steps);
    for (uint32_t s = 0; s < steps; ++s)
      EXPECT_EQ(program.steps[notes[0].first_step + s].kernel, program.steps[notes[1].first_step + s].kernel);
  }
  // One annotation on nodes that exchange values is one region.
  const Result<CompiledPlan> compiled = Compile(Layers(), {"*/*:region=layer"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(Places(*compiled), std::vector<std::string>{"layer 0"});
}

TEST_F(Regions, GiveWhatIsSaidOfThemToTheirNodes) {
  const std::map<std::string, std::string> regions = {{"b", "r"}, {"c", "r/s"}, {"d", "r/s"}};
  const std::vector<std::string> named = {"b:region=r", "c:region=r/s", "d:region=r/s"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> all = named;
    all.push_back(more);
    return all;
  };
  EXPECT_EQ(Launches(Chain(), named, regions), "a|b|cd|e");
  EXPECT_EQ(Launches(Chain(), with("region:r/s:fuse=off"), regions), "a|b|c|d|e");
  EXPECT_EQ(Launches(Chain(), with("region:r:fuse=off"), regions), "a|b|c|d|e");
  EXPECT_EQ(Launches(Chain(), with("region:r*:fuse=off"), regions), "a|b|c|d|e");
  // The inner region has another annotation, and so has a node.
  const Result<CompiledPlan> compiled =
      Compile(Chain(), {"b:region=r", "c:region=r/s", "d:region=r/s", "region:r:stream=1",
                        "region:r/s:stream=2", "d:stream=0"});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->plan.programs[0].num_streams, 3u);
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"b", "stream", "1"}), "");
  EXPECT_EQ(WhyItDoesNotHold(compiled->plan, {"d", "stream", "0"}), "");
}

TEST_F(Regions, AreRefusedInAModelThatIsSharedOut) {
  for (const auto& [tensor_parallel, pipeline_parallel] : {std::pair{2u, 0u}, std::pair{0u, 2u}}) {
    CompileOptions options;
    options.models = {{"main", SourceFolder() + "/tests/data/fixtures/bert_ts17/model.onnx"}};
    options.annotations = {{"/m/encoder/layer.0/*", "region", "layer"}};
    options.tensor_parallel = tensor_parallel;
    options.pipeline_parallel = pipeline_parallel;
    const Result<CompiledPlan> compiled = CompileToMemory(options);
    ASSERT_FALSE(compiled.ok());
    const std::string said = compiled.status().message();
    EXPECT_NE(said.find("region \"layer\" cannot be kept in a model that is shared out"), std::string::npos)
        << said;
  }
}

TEST_F(Regions, ThatCannotBeKeptAreRefusedWithTheReason) {
  ExpectRefused(Chain(), {"b:region=r", "d:region=r", "c:region=s", "e:fuse=off", "region:t:fuse=off"},
                {"region:t:fuse=off", "no node lies in such a region"});
  ExpectRefused(Chain(), {"b:region=r/"}, {"region: r/", "NAME"});
  ExpectRefused(Chain(), {"b:region=r", "b:region=s"}, {"Sigmoid \"b\"", "region: r", "region: s"});
  ExpectRefused(Chain(), {"b:region=r", "b:keep=together", "c:keep=together"},
                {"Sigmoid \"b\" and Tanh \"c\" are to be kept together", "in region r", "in no region"});
  ExpectRefused(Chain(), {"b:region=r", "region:r:region=s"}, {"region:r", "name the nodes"});
  // y = a + c(b(a)): a and y cannot run as one without b and c.
  ModelMaker m;
  m.Input("x", {64});
  m.Node("Sigmoid", {"x"}, {"a_out"})->set_name("a");
  m.Node("Tanh", {"a_out"}, {"b_out"})->set_name("b");
  m.Node("Add", {"a_out", "b_out"}, {"y"})->set_name("c");
  m.Output("y");
  ExpectRefused(m, {"a:region=r", "c:region=r"},
                {"region r cannot run as one", "Tanh \"b\"", "is to run after"});
  EXPECT_EQ(Launches(m, {"*:region=r"}, {{"a", "r"}, {"b", "r"}, {"c", "r"}}), "abc");
}

}  // namespace
}  // namespace rondo
