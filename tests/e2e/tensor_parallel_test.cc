// A tensor-parallel model of two layers, written by hand with collectives, on 2, 4 and 8 virtual devices:
// from ONNX to results. It agrees with its unsharded twin, all ranks agree to the bit, and delays change
// nothing.
#include "tests/compile/tensor_parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/e2e/harness.h"
#include "tests/how_many.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

class ParallelTest : public testing::TestWithParam<uint32_t> {
 protected:
  CompileOptions Model(Sharing sharing) const {
    const int64_t devices = GetParam();
    CompileOptions options;
    options.devices = sharing == Sharing::kTwin ? 1 : GetParam();
    const std::string path = folder_.File("m");
    for (int64_t rank = 0; rank < (sharing == Sharing::kFiles ? devices : 1); ++rank) {
      TensorParallelModel({sharing, devices, rank}).Write(path + std::to_string(rank) + ".onnx");
    }
    options.models = {{"main", path + "{rank}.onnx"}};
    if (sharing != Sharing::kFiles) options.models[0].path = path + "0.onnx";
    return options;
  }

  TemporaryFolder folder_;
};

void FillInput(LiveModel::Buffers* buffers, uint32_t seed) {
  const std::vector<float> x = Weight(1000 + seed, kRows, kWidth, 0, 0, kRows);
  std::memcpy(buffers->input_bytes[0].data(), x.data(), buffers->input_bytes[0].size());
}

// Runs once. Returns the output, which must be the same on every device.
Bytes RunAll(Session& session, LiveModel::Buffers* buffers, uint32_t seed) {
  FillInput(buffers, seed);
  const Status status =
      session.Run(0, Span<const Input>(buffers->inputs), Span<const Output>(buffers->outputs));
  EXPECT_TRUE(status.ok()) << status.message();
  for (size_t rank = 1; rank < buffers->output_bytes.size(); ++rank) {
    EXPECT_EQ(buffers->output_bytes[rank], buffers->output_bytes[0]) << "rank " << rank;
  }
  return buffers->output_bytes[0];
}

TEST_P(ParallelTest, AgreesWithItsTwinAndAllRanksAgreeToTheBit) {
  LiveModel twin(Model(Sharing::kTwin), {});
  auto expected_buffers = twin.MakeBuffers(0);
  LiveModel one_file(Model(Sharing::kAttributes), {});
  LiveModel files(Model(Sharing::kFiles), {});
  auto buffers = one_file.MakeBuffers(0);
  ASSERT_EQ(buffers.output_bytes.size(), GetParam());
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Bytes expected = RunAll(twin.session(), &expected_buffers, seed);
    const Bytes got = RunAll(one_file.session(), &buffers, seed);
    EXPECT_EQ(got, RunAll(files.session(), &buffers, seed));
    ASSERT_EQ(got.size(), expected.size());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < got.size() / 4; ++i) {
      float a = 0, b = 0;
      std::memcpy(&a, expected.data() + 4 * i, 4);
      std::memcpy(&b, got.data() + 4 * i, 4);
      difference += (a - b) * (a - b);
      norm += a * a;
    }
    EXPECT_GT(norm, 0.01);
    EXPECT_LT(std::sqrt(difference / norm), 1e-6) << "seed " << seed;
  }
}

// Two sessions run from two threads at once.
TEST_P(ParallelTest, ManyRunsWithRandomDelaysAndOrders) {
  HostOptions host;
  host.faults.seed = GetParam();
  host.faults.most_delay_us = 20;
  host.faults.reorder = true;
  LiveModel calm(Model(Sharing::kAttributes), {});
  LiveModel hurried(Model(Sharing::kAttributes), host);
  constexpr uint32_t kInputs = 8;
  std::vector<Bytes> expected;
  auto buffers = calm.MakeBuffers(0);
  for (uint32_t seed = 0; seed < kInputs; ++seed) expected.push_back(RunAll(calm.session(), &buffers, seed));
  Result<Session> second = Session::Create(hurried.runtime(), hurried.plan());
  ASSERT_TRUE(second.ok()) << second.status().message();
  // The total over all device counts and both sessions is RONDO_PARALLEL_RUNS.
  const int runs = HowMany("RONDO_PARALLEL_RUNS", 600) / 6;
  auto drive = [&](Session* session) {
    auto own = hurried.MakeBuffers(0);
    for (int run = 0; run < runs && !testing::Test::HasFailure(); ++run) {
      const uint32_t input = static_cast<uint32_t>(run) % kInputs;
      EXPECT_EQ(RunAll(*session, &own, input), expected[input]) << "run " << run;
    }
  };
  std::thread other(drive, &*second);
  drive(&hurried.session());
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Devices, ParallelTest, testing::Values(2u, 4u, 8u));

}  // namespace
}  // namespace rondo
