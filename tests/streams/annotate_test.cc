// `--annotate NODE:stream=N` on whole models: several streams give the same bits in every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "tests/defects/effect.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

using defects::EffectRunner;
using defects::Results;

// The names of the nodes from which steps come.
std::set<std::string> NodesOf(const PlanData& plan) {
  std::set<std::string> nodes;
  for (std::string_view source : plan.sources) {
    for (size_t at = 0; (at = source.find('"', at)) != source.npos; ++at) {
      const size_t end = source.find('"', at + 1);
      const std::string_view before = source.substr(0, at);
      const bool other = before.find("Initializer ") != before.npos || before.find("value ") != before.npos ||
                         before.find("overlap ") != before.npos ||
                         before.find("copy in step ") != before.npos;
      if (!other) nodes.insert(std::string(source.substr(at + 1, end - at - 1)));
      at = end;
    }
  }
  return nodes;
}

// Puts three of five nodes on a random one of `streams` streams.
std::vector<NodeAnnotation> Scattered(const std::set<std::string>& nodes, uint32_t streams, uint64_t seed) {
  std::vector<NodeAnnotation> annotations;
  for (const std::string& node : nodes) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t draw = seed >> 33;
    if (draw % 5 < 3) annotations.push_back({node, "stream", std::to_string(draw / 5 % streams)});
  }
  return annotations;
}

// Steps also name nodes that run nothing, which cannot be put on a stream. Removes the node that the compiler
// refused; false if it refused none.
bool DropRefused(const Status& status, std::set<std::string>* nodes) {
  const std::string_view said = status.message();
  const size_t first = said.find("--annotate "), end = said.find(":stream=");
  if (first == said.npos || end == said.npos || said.find("does not hold of") == said.npos) return false;
  const size_t name = first + std::string_view("--annotate ").size();
  return nodes->erase(std::string(said.substr(name, end - name))) == 1;
}

uint32_t StreamsOf(const PlanData& plan) {
  uint32_t streams = 0;
  for (const Program& program : plan.programs) streams = std::max(streams, program.num_streams);
  return streams;
}

std::vector<Results> AllWays(const CompiledPlan& compiled, EffectRunner* runner) {
  const std::vector<uint8_t> weights = AssembleWeights(compiled);
  Result<Plan> plan = Plan::FromData(compiled.plan, weights);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  Result<std::vector<Results>> results = runner->Run(*plan);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? results.Take() : std::vector<Results>();
}

// Compares the plan on several streams, in every order, with the same kernels on one stream.
void ExpectSameOnStreams(CompileOptions options, uint32_t devices) {
  options.check_passes = true;
  Result<CompiledPlan> plain = CompileToMemory(options);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  std::set<std::string> nodes = NodesOf(plain->plan);
  EffectRunner runner(devices);
  for (uint32_t streams = 2; streams <= 4; ++streams) {
    options.skip_passes = {};
    Result<CompiledPlan> several = Result<CompiledPlan>(Status::Error(Code::kInternal, "not compiled"));
    do {
      options.annotations = Scattered(nodes, streams, streams);
      several = CompileToMemory(options);
    } while (!several.ok() && DropRefused(several.status(), &nodes));
    ASSERT_TRUE(several.ok()) << several.status().message();
    EXPECT_EQ(StreamsOf(several->plan), streams);
    EXPECT_GT(several->plan.programs[0].num_events, 0u);
    options.skip_passes = {"streams"};
    Result<CompiledPlan> one = CompileToMemory(options);
    ASSERT_TRUE(one.ok()) << one.status().message();
    EXPECT_EQ(StreamsOf(one->plan), 1u);
    const std::vector<Results> expected = AllWays(*one, &runner);
    for (const Results& results : AllWays(*several, &runner)) {
      EXPECT_EQ(results.error, "");
      EXPECT_EQ(results, expected[0]) << streams << " streams";
    }
  }
}

TEST(NodeAnnotation, AStarStandsForAnyCharacters) {
  struct Case {
    const char *pattern, *name;
    bool applies;
  };
  constexpr Case kCases[] = {{"a", "a", true},
                             {"a", "ab", false},
                             {"a*", "ab", true},
                             {"a*", "a", true},
                             {"*b", "ab", true},
                             {"*b", "ba", false},
                             {"*", "", true},
                             {"", "", true},
                             {"", "a", false},
                             {"a*b*c", "axbbc", true},
                             {"a*b*c", "acb", false},
                             {"**", "anything", true},
                             {"*/value/*", "/m/layer.0/value/MatMul", true},
                             {"*aab", "aaaab", true},
                             {"*/value/*", "/m/layer.0/values/MatMul", false},
                             {"a*a", "a", false}};
  for (const Case& c : kCases)
    EXPECT_EQ(AppliesTo(c.pattern, c.name), c.applies) << c.pattern << " and " << c.name;
}

TEST(AnnotatedModels, ComputeTheSameOnSeveralStreams) {
  for (const char* name : {"bert_ts17", "llama_decode_op23", "unet_op23"}) {
    CompileOptions options;
    options.models = {{"main", DataPath("fixtures/" + std::string(name) + "/model.onnx")}};
    ExpectSameOnStreams(options, 1);
  }
}

TEST(AnnotatedModels, ShareStateAndDevices) {
  CompileOptions options;
  options.models = {{"prefill", DataPath("pycoder/prefill64.onnx")},
                    {"decode", DataPath("pycoder/decode.onnx")}};
  ExpectSameOnStreams(options, 1);
  options.models = {{"main", DataPath("fixtures/llama_decode_op23/model.onnx")}};
  options.tensor_parallel = 2;
  ExpectSameOnStreams(options, 2);
}

TEST(AnnotatedModels, PassTheLifecycleVerifier) {
  CompileOptions options;
  options.models = {{"main", DataPath("fixtures/bert_ts17/model.onnx")}};
  options.annotations = {{"*", "stream", "3"}, {"/m/encoder/layer.1/*", "stream", "1"}};
  options.tensor_parallel = 2;
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(StreamsOf(compiled->plan), 3u);  // streams 0, 1 and 3, renumbered without gaps
  const std::vector<uint8_t> weights = AssembleWeights(*compiled);
  Result<Plan> plan = Plan::FromData(compiled->plan, weights);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EffectRunner runner(2);
  VerifyOptions verify;
  verify.reopenings = 1;
  const Result<VerifyReport> report = VerifyLifecycle(*plan, runner.driver(), verify);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->ok()) << report->findings[0].Text();
}

// A recurrent layer runs its loop on its own stream while the rest runs beside it.
TEST(AnnotatedModels, ALoopStaysOnOneStream) {
  ModelMaker m(14);
  const int64_t steps = 40, hidden = 8;
  const auto some = [](int64_t n) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i * 7 % 11) / 11 - 0.4f);
    return values;
  };
  m.Input("x", {steps, 1, 4});
  m.Floats("w", {1, 4 * hidden, 4}, some(16 * hidden));
  m.Floats("r", {1, 4 * hidden, hidden}, some(4 * hidden * hidden));
  m.Node("Tanh", {"x"}, {"t"});
  onnx::AttributeProto* size = m.Node("LSTM", {"t", "w", "r"}, {"y"})->add_attribute();
  size->set_name("hidden_size");
  size->set_type(onnx::AttributeProto::INT);
  size->set_i(hidden);
  m.Node("Sigmoid", {"t"}, {"beside"});
  m.Node("Exp", {"y"}, {"out"});
  m.Output("out");
  m.Output("beside");
  const TemporaryFolder folder;
  std::ofstream file(folder.File("m.onnx"), std::ios::binary);
  m.proto.SerializeToOstream(&file);
  file.close();
  CompileOptions options;
  options.models = {{"main", folder.File("m.onnx")}};
  options.annotations = {{"LSTM_y", "stream", "1"}};
  EffectRunner runner(1);
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const Program& program = compiled->plan.programs[0];
  ASSERT_GE(program.loops.size(), 1u);
  EXPECT_EQ(program.num_streams, 2u);
  for (const Loop& loop : program.loops) EXPECT_EQ(program.steps[loop.first_step].stream, 1u);
  options.skip_passes = {"streams"};
  Result<CompiledPlan> one = CompileToMemory(options);
  ASSERT_TRUE(one.ok());
  const std::vector<Results> expected = AllWays(*one, &runner);
  for (const Results& results : AllWays(*compiled, &runner)) EXPECT_EQ(results, expected[0]);
}

}  // namespace
}  // namespace rondo
