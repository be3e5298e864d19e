// The caches of a decoder of two layers on a GPU, filled with canaries: each run of prefill and decode writes
// the rows of its positions and leaves every other byte as it was. Skipped where there is no GPU or libnvrtc.
#include "compiler/codegen/cuda/nvrtc.h"
#include "drivers/cuda/cuda_driver.h"
#include "tests/e2e/cache_rows.h"

namespace rondo {
namespace {

class GpuState : public testing::TestWithParam<int64_t> {};

TEST_P(GpuState, RunsChangeTheRowsOfTheirPositionsOnly) {
  const Result<std::vector<uint8_t>> code = CompileCuda("extern \"C\" __global__ void k() {}", "sm_90a", "");
  if (code.status().code() == Code::kUnsupported) GTEST_SKIP() << "libnvrtc is not on this machine";
  const Result<Driver*> driver = CreateCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  {
    LlamaShape shape;
    shape.batch = GetParam();
    CachedLlama llama(shape, 48, *driver, "cuda:sm_90a");
    if (llama.valid()) {
      std::vector<CachedLlama::Run> runs = {{"prefill", 0, 48}};
      for (int64_t position = 48; position < 80; ++position) runs.push_back({"decode", position, 1});
      for (const CachedLlama::Run& run : {CachedLlama::Run{"prefill", 63, 48},
                                          {"decode", 0, 1},
                                          {"decode", 2047, 1},
                                          {"decode", 1, 1},
                                          {"prefill", 2000, 48},
                                          {"decode", 1023, 1},
                                          {"decode", 1024, 1}})
        runs.push_back(run);
      llama.ExpectRowsOfTheirPositionsOnly(runs);
    }
  }
  DestroyCudaDriver(*driver);
}

INSTANTIATE_TEST_SUITE_P(Batches, GpuState, testing::Values(1, 2, 16));

}  // namespace
}  // namespace rondo
