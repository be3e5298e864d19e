// Runs of 2, 4 and 8 ranks through the cuda driver, with NCCL and with small collectives. Each rank has its
// own GPU or, if there are fewer, shares one. There are many runs with random delays, from two threads,
// beside sessions that are made and destroyed; and late ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "tests/collectives/mesh.h"
#include "tests/cuda/machine_code.h"
#include "tests/cuda/rank_devices.h"
#include "tests/says.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// RONDO_GPU_RUNS and RONDO_GPU_SECONDS: the most runs and the most seconds of the long test.
double Asked(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

constexpr int kLayers = 2;
constexpr int64_t kElements = 512;

// The plan for a number of ranks with its machine code, made once.
struct Model {
  explicit Model(uint32_t ranks) : layers(ranks, kLayers, kElements, /*split=*/true) {
    data = layers.mesh.data;
    code = std::make_unique<MachineCode>(&data);
  }
  static const PlanData& Of(uint32_t ranks) {
    static auto* const models = new std::map<uint32_t, std::unique_ptr<Model>>;
    std::unique_ptr<Model>& model = (*models)[ranks];
    if (model == nullptr) model = std::make_unique<Model>(ranks);
    return model->data;
  }

  Layers layers;
  PlanData data;
  std::unique_ptr<MachineCode> code;
};

class Ranks : public testing::TestWithParam<RankCase> {
 protected:
  void SetUp() override {
    BeginCudaAgain();
    Result<Driver*> driver = CreateCudaDriverFor(GetParam().kernels);
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    const uint32_t gpus = std::min((*driver)->DeviceCount(), Count());
    if (const std::string lack = LackFor(*driver, GetParam(), gpus); !lack.empty()) {
      DestroyCudaDriver(*driver);
      GTEST_SKIP() << lack;
    }
    ranks_ = std::make_unique<RankDevices>(*driver, Count(), gpus);
    Result<Runtime> runtime = Runtime::Create(ranks_.get());
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    runtime_ = runtime.Take();
    Result<Plan> plan = Plan::FromData(Model::Of(Count()), {});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    plan_ = plan.Take();
  }
  void TearDown() override {
    plan_ = Plan();
    runtime_ = Runtime();
  }

  static uint32_t Count() { return GetParam().ranks; }
  Session MakeSession(const SessionOptions& options = {}) {
    Result<Session> session = Session::Create(runtime_, plan_, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? session.Take() : Session();
  }
  // Expects results close to the right ones, with the same bits on all ranks. NCCL sums more than two terms
  // in its own order.
  static void ExpectNear(const Layers& layers) {
    const size_t n = layers.expected.size();
    for (size_t i = 0; i < layers.out.size(); ++i) {
      ASSERT_NEAR(layers.out[i], layers.expected[i % n], 1e-5) << "element " << i;
      ASSERT_EQ(layers.out[i], layers.out[i % n]) << "rank " << i / n;
    }
  }
  static void Run(Layers* layers, Session* session) {
    bool ignored = false;
    const Status status = layers->Run(session, &ignored);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // Runs many times and expects the bits of the first run. Returns the number of runs.
  uint64_t RunMany(Session* session, uint64_t most, double seconds) {
    Layers layers(Count(), kLayers, kElements, /*split=*/true);
    Run(&layers, session);
    ExpectNear(layers);
    const std::vector<float> first = layers.out;
    const auto start = Clock::now();
    uint64_t runs = 1;
    for (; runs < most && Since(start) < seconds && !HasFailure(); ++runs) {
      Run(&layers, session);
      EXPECT_EQ(layers.out, first) << "run " << runs;
    }
    return runs;
  }

  Layers layers_{Count(), kLayers, kElements, /*split=*/true};
  std::unique_ptr<RankDevices> ranks_;
  Plan plan_;
  Runtime runtime_;
};

TEST_P(Ranks, ManyRunsOfTwoSessionsWithRandomDelaysGiveTheSameBits) {
  const auto most = static_cast<uint64_t>(Asked("RONDO_GPU_RUNS", 400));
  const double seconds = Asked("RONDO_GPU_SECONDS", 60);
  Session first = MakeSession(), second = MakeSession();
  ASSERT_TRUE(first.valid() && second.valid());
  for (RankDevice& rank : ranks_->ranks) rank.most_random_us = most > 1000 ? 20 : 200;
  uint64_t others = 0;
  const auto start = Clock::now();
  std::thread other([&] { others = RunMany(&second, most / 2, seconds); });
  const uint64_t runs = RunMany(&first, most / 2, seconds);
  other.join();
  std::printf("%u ranks: %llu runs in %.1f s, no hang, no wrong bit\n", Count(),
              static_cast<unsigned long long>(runs + others), Since(start));
}

TEST_P(Ranks, SessionsComeAndGoWhileAnotherRuns) {
  Session session = MakeSession();
  ASSERT_TRUE(session.valid());
  std::atomic<bool> done{false};
  uint64_t runs = 0;
  std::thread running([&] {
    while (!done && !HasFailure()) runs += RunMany(&session, 20, 60);
  });
  const auto start = Clock::now();
  for (int i = 0; i < 8; ++i) {
    Session other = MakeSession();
    if (!other.valid()) break;
    Layers layers(Count(), kLayers, kElements, /*split=*/true);
    Run(&layers, &other);
    ExpectNear(layers);
  }
  const double took = Since(start);
  done = true;
  running.join();
  std::printf("%u ranks: 8 sessions made and destroyed in %.2f s beside %llu runs of another\n", Count(),
              took, static_cast<unsigned long long>(runs));
}

// A program may act beside its sessions without asking the runtime: it allocates and frees device memory
// while ranks wait for each other. CUDA may hang then, so this runs only if RONDO_GPU_RISK is set.
TEST_P(Ranks, OthersTakeMemoryMeanwhile) {
  if (std::getenv("RONDO_GPU_RISK") == nullptr) GTEST_SKIP() << "RONDO_GPU_RISK is not set";
  Session session = MakeSession();
  ASSERT_TRUE(session.valid());
  for (RankDevice& rank : ranks_->ranks) rank.most_random_us = 300;
  std::atomic<bool> done{false};
  std::thread others([&] {
    while (!done) {
      Result<DeviceAddress> block = ranks_->ranks[0].Allocate(8 << 20, 256);
      if (block.ok()) ranks_->ranks[0].Free(*block, 8 << 20);
    }
  });
  const uint64_t runs = RunMany(&session, 2000, 5);
  done = true;
  others.join();
  std::printf("%u ranks: %llu runs while another thread took and gave memory\n", Count(),
              static_cast<unsigned long long>(runs));
}

TEST_P(Ranks, OneThatIsLateIsWaitedFor) {
  Session session = MakeSession();
  ASSERT_TRUE(session.valid());
  RankDevice& last = ranks_->ranks.back();
  for (uint32_t us : {0u, 100000u, 0u}) {
    last.late_us = us;
    const auto start = Clock::now();
    Run(&layers_, &session);
    ExpectNear(layers_);
    EXPECT_GE(Since(start), us / 1e6);
  }
}

TEST_P(Ranks, OneThatIsTooLateEndsTheRunOfAll) {
  Session session = MakeSession();
  ASSERT_TRUE(session.valid());
  ranks_->ranks.back().late_us = 300000;
  RunOptions options;
  options.timeout_ns = 50000000;
  bool ignored = false;
  const auto start = Clock::now();
  const Status late = layers_.Run(&session, &ignored, options);
  const double took = Since(start);
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.message();
  EXPECT_LT(took, 10);
  ranks_->ranks.back().late_us = 0;
  EXPECT_SAYS(layers_.Run(&session, &ignored), "make the session anew");
  std::printf("%u ranks: %.2f s: %s\n", Count(), took, late.message());
  Session again = MakeSession();
  ASSERT_TRUE(again.valid());
  Run(&layers_, &again);
  ExpectNear(layers_);
}

// Holds whether ranks share a GPU or not, and for all kinds of collectives.
TEST_P(Ranks, OneThatStopsIsNamedWithSyncPointAndNodeInTheWatchdogsTime) {
  SessionOptions options;
  options.watchdog_ns = 1'000'000'000;
  for (uint32_t layer : {0u, 1u}) {  // each layer is a graph with two collectives
    Session session = MakeSession(options);
    ASSERT_TRUE(session.valid());
    Run(&layers_, &session);
    RankDevice& last = ranks_->ranks.back();
    last.in_time = layer;
    last.late_us = 1'500'000;
    bool ignored = false;
    const auto start = Clock::now();
    const Status status = layers_.Run(&session, &ignored);
    const double took = Since(start);
    last.late_us = 0;
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_SAYS(status,
                "device " + std::to_string(Count() - 1) + ", sync point " + std::to_string(2 * layer));
    EXPECT_SAYS(status, "the device has not come to this sync point");
    EXPECT_SAYS(status, "Collective \"sum" + std::to_string(layer));
    EXPECT_GE(took, 1);
    EXPECT_LT(took, 5);
    Session again = MakeSession();
    ASSERT_TRUE(again.valid());
    Run(&layers_, &again);
    ExpectNear(layers_);
  }
}

TEST_P(Ranks, AnyThatDoesNotLaunchEndsTheRunOfAll) {
  for (RankDevice& rank : ranks_->ranks) {
    Session session = MakeSession();
    ASSERT_TRUE(session.valid());
    rank.never_launches = true;
    bool ignored = false;
    const auto start = Clock::now();
    EXPECT_SAYS(layers_.Run(&session, &ignored), "this rank does not launch");
    EXPECT_LT(Since(start), 5);
    rank.never_launches = false;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Ranks, testing::ValuesIn(kRankCases), NameOf);

}  // namespace
}  // namespace rondo
