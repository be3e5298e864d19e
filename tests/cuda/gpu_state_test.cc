// The caches of a decoder of two layers on a GPU, filled with canaries: each run of prefill and decode writes
// the rows of its positions and no other byte. Skipped without a GPU or libnvrtc.
#include "tests/cuda/with_gpu.h"
#include "tests/e2e/cache_rows.h"

namespace rondo {
namespace {

class GpuState : public WithGpu, public testing::WithParamInterface<int64_t> {
 protected:
  void TearDown() override {
    decoder_.reset();
    WithGpu::TearDown();
  }
  // Also decodes 32 steps one after another.
  void ExpectRows() {
    ASSERT_TRUE(decoder_->valid());
    std::vector<CachedDecoder::Run> runs = decoder_->Runs();
    for (int64_t position = 600; position < 632; ++position) runs.push_back({"decode", position, 1});
    decoder_->ExpectRowsOfTheirPositionsOnly(runs);
  }

  static constexpr char kTarget[] = "cuda:sm_90a";
  std::unique_ptr<CachedDecoder> decoder_;
};

TEST_P(GpuState, RunsChangeTheRowsOfTheirPositionsOnly) {
  LlamaShape shape;
  shape.batch = GetParam();
  decoder_ = CachedDecoder::Llama(shape, 48, driver_, kTarget);
  ExpectRows();
}

INSTANTIATE_TEST_SUITE_P(Batches, GpuState, testing::Values(1, 2, 16));

class GpuBenchState : public GpuState {};

TEST_P(GpuBenchState, RunsChangeTheRowsOfTheirPositionsOnly) {
  const std::vector<ModelSource> graphs = CachedDecoder::BenchGraphs();
  if (graphs.empty()) GTEST_SKIP() << "RONDO_LLAMA_GRAPHS does not say where they are";
  decoder_ = std::make_unique<CachedDecoder>(graphs, driver_, kTarget);
  ExpectRows();
}

INSTANTIATE_TEST_SUITE_P(Graphs, GpuBenchState, testing::Values(0));

}  // namespace
}  // namespace rondo
