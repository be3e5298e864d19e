// Fusions that would delay work that can run beside a collective, or keep more memory alive than their
// pieces, are not formed, also without `fuse: off`.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

class FusionChoices : public testing::Test {
 protected:
  CompiledPlan Compiled(const ModelMaker& model, uint32_t devices, bool weigh) {
    CompileOptions options;
    options.check_passes = true;
    options.models = {{"main", folder_.File("m.onnx")}};
    std::ofstream(options.models[0].path, std::ios::binary) << model.proto.SerializeAsString();
    options.devices = devices;
    if (!weigh) options.skip_passes = {"weigh_fusions"};
    Result<CompiledPlan> compiled = CompileToMemory(options);
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return compiled.Take();
  }
  static double Exposed(const CompiledPlan& compiled) {
    double exposed = 0;
    for (const OverlapNote& note : compiled.report.programs[0].overlap.collectives)
      exposed += note.exposed_after;
    return exposed;
  }
  static std::string Weighed(const CompiledPlan& compiled) {
    for (const PassReport& pass : compiled.report.passes) {
      if (pass.pass == "weigh_fusions") return pass.text;
    }
    return "";
  }
  static size_t Launches(const CompiledPlan& compiled, uint32_t device) {
    size_t launches = 0;
    for (const Step& step : compiled.plan.programs[0].steps)
      launches += step.kind == StepKind::kLaunch && step.device == device;
    return launches;
  }

  TemporaryFolder folder_;
};

// y = AllReduce(a b) + c d: the second matmul does not wait for the first's sum.
TEST_F(FusionChoices, AMatmulDoesNotWaitForWhatIsAddedToIt) {
  ModelMaker m;
  auto* domain = m.proto.add_opset_import();
  domain->set_domain("com.microsoft");
  domain->set_version(1);
  for (const char* name : {"a", "b", "c", "d"}) m.Input(name, {512, 512});
  m.Node("MatMul", {"a", "b"}, {"part"});
  onnx::NodeProto* reduce = m.Node("AllReduce", {"part"}, {"sum"});
  reduce->set_domain("com.microsoft");
  onnx::AttributeProto* size = reduce->add_attribute();
  size->set_name("group_size");
  size->set_type(onnx::AttributeProto::INT);
  size->set_i(2);
  m.Node("MatMul", {"c", "d"}, {"own"});
  m.Node("Add", {"sum", "own"}, {"added"});
  m.Node("Relu", {"added"}, {"y"});
  m.Output("y");
  const CompiledPlan blind = Compiled(m, 2, false), seeing = Compiled(m, 2, true);
  EXPECT_GT(Exposed(blind), 1);
  EXPECT_EQ(Launches(blind, 0), 2u);
  EXPECT_EQ(Exposed(seeing), 0) << Weighed(seeing);
  EXPECT_EQ(Launches(seeing, 0), 3u) << "two matmuls, and one kernel for Add and Relu";
}

// p = a + b is read at the end. Computed there, it would keep a and b alive over the widest part.
TEST_F(FusionChoices, ASumIsTakenBeforeTheWidestPart) {
  constexpr int64_t kMegabyte = 1 << 20, kN = 512;  // a matrix of f32 is 1 MiB
  ModelMaker m;
  m.Input("x", {kN, kN});
  m.Input("wide", {kN, 4 * kN});
  m.Input("narrow", {4 * kN, kN});
  m.Node("MatMul", {"x", "x"}, {"a"});
  m.Node("MatMul", {"a", "x"}, {"b"});
  m.Node("MatMul", {"b", "a"}, {"c"});
  m.Node("Add", {"a", "b"}, {"p"});
  m.Node("MatMul", {"c", "wide"}, {"w1"});
  m.Node("Relu", {"w1"}, {"w2"});
  m.Node("MatMul", {"w2", "narrow"}, {"n"});
  m.Node("Mul", {"n", "p"}, {"y"});
  m.Output("y");
  const CompiledPlan blind = Compiled(m, 1, false), seeing = Compiled(m, 1, true);
  const auto arena = [](const CompiledPlan& compiled) {
    return static_cast<int64_t>(compiled.plan.programs[0].arena_bytes);
  };
  EXPECT_EQ(arena(blind) - arena(seeing), kMegabyte) << Weighed(seeing);
  EXPECT_EQ(Launches(seeing, 0), Launches(blind, 0) + 1);
  EXPECT_NE(seeing.report.programs[0].fusions.find("choices of fusion the least keeps"), std::string::npos)
      << seeing.report.programs[0].fusions;
  EXPECT_EQ(blind.report.programs[0].fusions, "");
}

// Splitting off a sum of values of the same size saves nothing, so all stays one kernel.
TEST_F(FusionChoices, WhatSavesNothingStaysFused) {
  ModelMaker m;
  m.Input("x", {64, 64});
  m.Node("Exp", {"x"}, {"a"});
  m.Node("Neg", {"a"}, {"b"});
  m.Node("Add", {"a", "b"}, {"y"});
  m.Output("y");
  const CompiledPlan seeing = Compiled(m, 1, true);
  EXPECT_EQ(Launches(seeing, 0), 1u);
  EXPECT_EQ(seeing.report.programs[0].fusions, "no fusion keeps alive more than its pieces would");
}

}  // namespace
}  // namespace rondo
