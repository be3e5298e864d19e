// A custom operator that runs on the GPU (tools/examples/custom_ops/moe_combine.cc): it is recorded into the
// model's graph and replayed a thousand times, and gives the host's results.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/custom_op.h"
#include "drivers/cuda/cuda_driver.h"
#include "runtime/testing/allocation_watch.h"
#include "tests/cuda/have_nvrtc.h"
#include "tests/e2e/harness.h"
#include "tests/how_many.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr int kTokens = 24, kWidth = 300, kExperts = 40, kChosen = 3;

class GpuCustomOps : public testing::Test {
 protected:
  void SetUp() override {
    if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
    const Status loaded = ops_.Load(RONDO_MOE_COMBINE);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    CudaOptions options;
    options.ops = &ops_;
    const Result<Driver*> driver = CreateCudaDriver(options);
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    driver_ = *driver;
  }
  void TearDown() override {
    if (driver_ != nullptr) DestroyCudaDriver(driver_);
  }

  // total' = MoeCombine(total, Relu(x), slots, scores), y = 2 MoeCombine(x + x, Relu(x), slots, scores)
  CompileOptions Options() {
    ModelMaker m;
    m.proto.add_opset_import()->set_domain("com.example");
    m.proto.mutable_opset_import(1)->set_version(1);
    m.Input("x", {kTokens, kWidth});
    m.Input("rows", {kExperts, kWidth});
    m.Input("slots", {kTokens, kChosen}, onnx::TensorProto::INT64);
    m.Input("scores", {kTokens, kChosen});
    m.Input("total", {kTokens, kWidth});
    m.Node("Relu", {"rows"}, {"expert_rows"});
    m.Node("Add", {"x", "x"}, {"hidden"});
    m.Node("MoeCombine", {"hidden", "expert_rows", "slots", "scores"}, {"combined"})
        ->set_domain("com.example");
    m.Node("MoeCombine", {"total", "expert_rows", "slots", "scores"}, {"total_out"})
        ->set_domain("com.example");
    m.Node("Add", {"combined", "combined"}, {"y"});
    m.Output("y");
    m.Output("total_out");
    CompileOptions options;
    options.models = {{"main", folder_.File("m.onnx")}};
    std::ofstream(options.models[0].path, std::ios::binary) << m.proto.SerializeAsString();
    options.ops = &ops_;
    options.states = {{"total", "total_out"}};
    return options;
  }

  static void Fill(LiveModel::Buffers* buffers, const LiveModel& live) {
    const auto& ports = live.data().programs[0].inputs;
    for (size_t i = 0, given = 0; i < ports.size(); ++i) {
      if (ports[i].is_state) continue;
      std::vector<uint8_t>& bytes = buffers->input_bytes[given++];
      const bool slots = ports[i].name == "slots";
      for (size_t k = 0; k < bytes.size() / (slots ? 8 : 4); ++k) {
        const int64_t slot = static_cast<int64_t>(k * 7 % (kExperts + 2)) - 1;  // some slots name no row
        const float value = static_cast<float>(static_cast<int>(k * 13 % 31) - 15) / 8;
        std::memcpy(&bytes[k * (slots ? 8 : 4)], slots ? static_cast<const void*>(&slot) : &value,
                    slots ? 8 : 4);
      }
    }
  }

  static std::vector<float> Floats(const std::vector<uint8_t>& bytes) {
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  static std::vector<float> Total(LiveModel& live) {
    std::vector<float> total(kTokens * kWidth);
    EXPECT_TRUE(live.session().ReadState("total", total.data(), total.size() * 4).ok());
    return total;
  }
  static void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], wanted[i], 1e-4f * (1 + std::fabs(wanted[i]))) << "element " << i;
  }

  const TemporaryFolder folder_;
  OpRegistry ops_;
  Driver* driver_ = nullptr;
};

TEST_F(GpuCustomOps, AreReplayedInOneGraph) {
  const int runs = HowMany("RONDO_GPU_RUNS", 1000);
  CompileOptions options = Options();
  HostOptions host_options;
  host_options.ops = &ops_;
  LiveModel host(options, host_options);
  LiveModel::Buffers wanted = host.MakeBuffers(0);
  Fill(&wanted, host);
  ASSERT_TRUE(host.session().Run(0, wanted.inputs, wanted.outputs, {}).ok());

  options.targets = *ParseTargets("cuda:sm_90a");
  LiveModel gpu(options, *driver_);
  ASSERT_EQ(gpu.data().programs[0].partitions.size(), 1u);
  LiveModel::Buffers buffers = gpu.MakeBuffers(0);
  Fill(&buffers, gpu);
  Device* device = driver_->Open(0).Take();
  uint64_t free_before = 0, free_after = 0, all = 0;
  Status status = gpu.session().Run(0, buffers.inputs, buffers.outputs, {});
  const std::vector<float> first = Floats(buffers.output_bytes[0]);
  EXPECT_TRUE(device->MemoryInfo(&free_before, &all).ok());
  AllocationWatch watch;
  for (int run = 1; run < runs && status.ok(); ++run) {
    status = gpu.session().Run(0, buffers.inputs, buffers.outputs, {});
    if (std::memcmp(buffers.output_bytes[0].data(), first.data(), 4 * first.size()) != 0)
      status = Status::Error(Code::kInternal, "run %d gave other bits", run);
  }
  watch.Stop();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(device->MemoryInfo(&free_after, &all).ok());
  EXPECT_EQ(free_after, free_before);
  const char* emulated = std::getenv("RONDO_EMULATED_ORDER");  // the emulator's launches allocate
  if (emulated == nullptr) {
    EXPECT_EQ(watch.count(), 0u) << watch.Callers();
  }
  ExpectNear(first, Floats(wanted.output_bytes[0]));
  std::vector<float> total = Total(host);
  for (float& value : total) value *= static_cast<float>(runs);
  ExpectNear(Total(gpu), total);
}

}  // namespace
}  // namespace rondo
