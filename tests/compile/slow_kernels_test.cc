// The warning about kernels that are estimated far below what the GPU could do.
#include "compiler/slow_kernels.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "formats/plan/measured_times.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// The plan of y = -x for a GPU, with an estimate of `microseconds` for its kernel, which moves 8 MB.
std::vector<SlowKernel> SlowWith(double microseconds, const char* target = "cuda:sm_90a") {
  const TemporaryFolder folder;
  ModelMaker m;
  m.Input("x", {1 << 20});
  m.Node("Neg", {"x"}, {"y"});
  m.Output("y");
  std::ofstream(folder.File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  CompileOptions options;
  options.models = {{"main", folder.File("m.onnx")}};
  Result<CompiledPlan> compiled = CompileToMemory(options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  if (!compiled.ok()) return {};
  PlanData& plan = compiled->plan;
  plan.requirements.target = target;
  const std::vector<std::string> notes = TextsOfEstimates({{KernelDigest(plan.kernels[0]), microseconds}});
  std::vector<std::string_view> sources(plan.sources.begin(), plan.sources.end());
  sources.insert(sources.end(), notes.begin(), notes.end());
  plan.sources = {sources.data(), sources.size()};
  return SlowKernelsOf(plan);
}

TEST(SlowKernels, AreNamedWithTheirNodesAndTimes) {
  const std::vector<SlowKernel> slow = SlowWith(500);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].kernel, "k0_map");
  EXPECT_EQ(slow[0].source, "Neg \"Neg_y\"");
  EXPECT_EQ(slow[0].estimated, 500);
  EXPECT_NEAR(slow[0].least, 2, 0.5);
  EXPECT_EQ(slow[0].Text().find("kernel k0_map (Neg \"Neg_y\") takes 500 µs by estimate, where"), 0u)
      << slow[0].Text();
}

TEST(SlowKernels, AreNoneOfWhatUsesTheGpuIsShortOrRunsOnAHost) {
  EXPECT_TRUE(SlowWith(50).empty());
  EXPECT_TRUE(SlowWith(500, "host").empty());
}

}  // namespace
}  // namespace rondo
