// Weights replaced in a session on GPUs: recorded graphs read the new weights.
#include <gtest/gtest.h>

#include <string>

#include "drivers/capi/rondo_cuda.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tests/weights/running.h"
#include "tests/weights/weight_twins.h"
#include "tools/weights/rondo_weights.hpp"

namespace rondo {
namespace {

class GpuWeights : public testing::TestWithParam<const char*> {};

TEST_P(GpuWeights, OfARunningSessionAreThoseOfAFreshPlan) {
  const std::string model = GetParam();
  TemporaryFolder folder;
  const std::string twin = folder.File("twin.onnx");
  WriteTwin(Fixture(model), twin);
  const auto compile = [&](const std::string& from, const char* to) {
    const Outcome compiled =
        Shell(std::string(RONDO_COMMAND) + " compile " + from +
              " --live-weights --target cuda:sm_90a --precision f16 -o " + folder.File(to));
    ASSERT_EQ(compiled.status, 0) << compiled.text;
  };
  compile(Fixture(model), "plan");
  compile(twin, "fresh");
  Running running, fresh;
  if (const Error error = running.Open(folder.File("plan"), rondo_cuda_driver_create(nullptr)))
    GTEST_SKIP() << "compiled, not run: " << error.message();
  ASSERT_FALSE(fresh.Open(folder.File("fresh"), rondo_cuda_driver_create(nullptr)));
  const Bytes before = running.Run();
  const Error error = ReplaceWeights({&running.session()}, twin.c_str());
  ASSERT_FALSE(error) << error.message();
  ASSERT_FALSE(running.session().ResetState());
  const Bytes after = running.Run();
  EXPECT_NE(before, after) << model;
  EXPECT_EQ(after, fresh.Run()) << model;
}

INSTANTIATE_TEST_SUITE_P(Of, GpuWeights, testing::Values("llama_decode_op23", "resnet", "vit_op23"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace rondo
