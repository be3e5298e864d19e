// pycoder sharded over devices with --tp, on the cuda driver over fake_cuda and fake_nccl: the lifecycle
// verifier has no findings, and makes no call that a GPU would answer only after a collective in flight,
// which other ranks would then never start.
#include "drivers/cuda/cuda_driver.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "tests/cuda/fake/fake_gpu.h"
#include "tests/e2e/harness.h"

namespace rondo {
namespace {

class VerifySharedModel : public testing::TestWithParam<uint32_t> {};

TEST_P(VerifySharedModel, HasNoFindings) {
  fake_cuda::Heal();
  fake_cuda::Machine machine;
  machine.devices = static_cast<int>(GetParam());
  fake_cuda::SetMachine(machine);
  CompileOptions options;
  options.models = {{"prefill", DataPath("pycoder/prefill64.onnx")},
                    {"decode", DataPath("pycoder/decode.onnx")}};
  options.tensor_parallel = GetParam();
  const CompiledPlan compiled = CompileToMemory(options).Take();
  const std::vector<uint8_t> weights = AssembleWeights(compiled);
  PlanData data = compiled.plan;
  {
    const FakeGpu gpu(&data);
    Driver* const driver = CreateCudaDriver().Take();
    const Plan plan = Plan::FromData(data, weights).Take();
    const uint64_t stalls = fake_cuda::CountStalls();
    const Result<VerifyReport> report = VerifyLifecycle(plan, driver);
    EXPECT_EQ(fake_cuda::CountStalls(), stalls);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_GT(report->graph_runs, 0u);
    for (const Finding& finding : report->findings) ADD_FAILURE() << finding.Text();
    DestroyCudaDriver(driver);
  }
  fake_cuda::SetMachine({});
}

INSTANTIATE_TEST_SUITE_P(Devices, VerifySharedModel, testing::Values(2u, 4u));

}  // namespace
}  // namespace rondo
