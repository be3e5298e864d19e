// The tensor-parallel model of tests/compile on GPUs, through NCCL and small kernels. It is compared with its
// unsharded twin on the host driver, ranks to the bit, from two threads at once, many times. Ranks share GPUs
// if there are fewer (skipped if NCCL is older than 2.30).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "compiler/codegen/cuda/nvrtc.h"
#include "tests/compile/tensor_parallel.h"
#include "tests/cuda/rank_devices.h"
#include "tests/e2e/harness.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

// RONDO_GPU_RUNS: the number of runs of the long loop.
uint32_t Runs() {
  const char* text = std::getenv("RONDO_GPU_RUNS");
  return text == nullptr ? 200 : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

struct GpuDriver {
  Driver* driver = nullptr;
  ~GpuDriver() {
    if (driver != nullptr) DestroyCudaDriver(driver);
  }
};

class GpuCollectives : public testing::TestWithParam<RankCase> {
 protected:
  void SetUp() override {
    Result<Driver*> driver = CreateCudaDriverFor(GetParam().kernels);
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    gpus_.driver = *driver;
    const uint32_t gpus = (*driver)->DeviceCount();
    if (const std::string lack = LackFor(*driver, GetParam(), std::min(gpus, Count())); !lack.empty())
      GTEST_SKIP() << lack;
    std::vector<uint32_t> devices;
    for (uint32_t rank = 0; rank < Count(); ++rank) devices.push_back(rank % gpus);
    TensorParallelModel({Sharing::kAttributes, Count()}).Write(folder_.File("m.onnx"));
    TensorParallelModel({Sharing::kTwin, Count()}).Write(folder_.File("twin.onnx"));
    CompileOptions options;
    options.models = {{"main", folder_.File("m.onnx")}};
    options.devices = Count();
    options.targets = *ParseTargets("cuda:sm_90a");
    model_ = std::make_unique<LiveModel>(options, *gpus_.driver, devices);
    ASSERT_TRUE(model_->session().valid());
  }

  static uint32_t Count() { return GetParam().ranks; }
  static Input InputOf(const std::vector<float>& x) {
    Input input;
    input.name = "x";
    input.dtype = DType::kF32;
    input.shape = Shape({kRows, kWidth});
    input.data = x.data();
    input.bytes = x.size() * 4;
    return input;
  }
  // Runs once. Returns one output a rank.
  std::vector<Bytes> Run(Session& session, uint32_t seed) {
    const std::vector<float> x = Weight(1000 + seed, kRows, kWidth, 0, 0, kRows);
    const Input input = InputOf(x);
    std::vector<Bytes> bytes(Count(), Bytes(x.size() * 4));
    std::vector<Output> outputs(Count());
    for (uint32_t rank = 0; rank < Count(); ++rank) {
      outputs[rank].index = rank;
      outputs[rank].dtype = DType::kF32;
      outputs[rank].data = bytes[rank].data();
      outputs[rank].bytes = bytes[rank].size();
    }
    const Status status = session.Run(0, Span<const Input>(&input, 1), Span<const Output>(outputs));
    EXPECT_TRUE(status.ok()) << status.message();
    for (const Bytes& rank : bytes) EXPECT_EQ(rank, bytes[0]);
    return bytes;
  }

  GpuDriver gpus_;
  TemporaryFolder folder_;
  std::unique_ptr<LiveModel> model_;
};

TEST_P(GpuCollectives, AgreeWithTheTwinAndToTheBit) {
  LiveModel twin({{"main", folder_.File("twin.onnx")}});
  auto buffers = twin.MakeBuffers(0);
  Result<Session> session = Session::Create(model_->runtime(), model_->plan());
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const std::vector<float> x = Weight(1000 + seed, kRows, kWidth, 0, 0, kRows);
    std::memcpy(buffers.input_bytes[0].data(), x.data(), x.size() * 4);
    ASSERT_TRUE(
        twin.session().Run(0, Span<const Input>(buffers.inputs), Span<const Output>(buffers.outputs)).ok());
    const std::vector<Bytes> got = Run(*session, seed);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      float a = 0, b = 0;
      std::memcpy(&a, buffers.output_bytes[0].data() + 4 * i, 4);
      std::memcpy(&b, got[0].data() + 4 * i, 4);
      difference += (a - b) * (a - b);
      norm += a * a;
    }
    EXPECT_LT(std::sqrt(difference / norm), 1e-6) << "seed " << seed;
  }
}

TEST_P(GpuCollectives, TwoSessionsFromTwoThreadsManyTimes) {
  constexpr uint32_t kInputs = 8;
  std::vector<std::vector<Bytes>> expected;
  Result<Session> first = Session::Create(model_->runtime(), model_->plan());
  Result<Session> second = Session::Create(model_->runtime(), model_->plan());
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(second.ok()) << second.status().message();
  for (uint32_t seed = 0; seed < kInputs; ++seed) expected.push_back(Run(*first, seed));
  auto drive = [&](Session* session) {
    for (uint32_t run = 0; run < Runs() / 2 && !HasFailure(); ++run) {
      EXPECT_EQ(Run(*session, run % kInputs), expected[run % kInputs]) << "run " << run;
    }
  };
  std::thread other(drive, &*second);
  drive(&*first);
  other.join();
}

// Step by step, every device's collectives are started before any is waited for.
TEST_P(GpuCollectives, StepwiseGivesTheSame) {
  Result<Session> session = Session::Create(model_->runtime(), model_->plan());
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<Bytes> graphs = Run(*session, 3);
  const std::vector<float> x = Weight(1003, kRows, kWidth, 0, 0, kRows);
  const Input input = InputOf(x);
  Bytes bytes(x.size() * 4);
  Output output;
  output.name = "y";
  output.dtype = DType::kF32;
  output.data = bytes.data();
  output.bytes = bytes.size();
  RunOptions options;
  options.stepwise = true;
  const Status status =
      session->Run(0, Span<const Input>(&input, 1), Span<const Output>(&output, 1), options);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(bytes, graphs[0]);
}

INSTANTIATE_TEST_SUITE_P(Gpus, GpuCollectives, testing::ValuesIn(kRankCases), NameOf);

}  // namespace
}  // namespace rondo
