// Device memory in whole steps: plans state the blocks taken from CUDA to the byte before they are loaded.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "compiler/compile.h"
#include "formats/plan/device_memory.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/folders.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

uint64_t HeldBytes() { return static_cast<uint64_t>(fake_cuda::Held().bytes); }

class DeviceBlocksTest : public testing::Test {
 protected:
  DeviceBlocksTest() {
    fake_cuda::Heal();
    fake_cuda::SetMachine({});
    driver_ = CreateCudaDriver().Take();
    device_ = driver_->Open(0).Take();
  }
  ~DeviceBlocksTest() override {
    DestroyCudaDriver(driver_);
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
  }
  DeviceAddress Take(uint64_t bytes, uint64_t alignment = 4096) {
    const Result<DeviceAddress> block = device_->Allocate(bytes, alignment);
    EXPECT_TRUE(block.ok()) << block.status().message();
    EXPECT_EQ(*block % alignment, 0u);
    return *block;
  }

  Driver* driver_ = nullptr;
  Device* device_ = nullptr;
};

TEST_F(DeviceBlocksTest, SmallOnesShareSteps) {
  const DeviceAddress a = Take(672 * kKiB), b = Take(672 * kKiB), c = Take(672 * kKiB);
  EXPECT_EQ(HeldBytes(), kDeviceStep);
  const DeviceAddress d = Take(672 * kKiB);
  EXPECT_EQ(HeldBytes(), 2 * kDeviceStep);
  device_->Free(b, 672 * kKiB);
  const DeviceAddress e = Take(600 * kKiB), f = Take(72 * kKiB);  // where b was
  EXPECT_EQ(e, b);
  EXPECT_EQ(f, b + 600 * kKiB);
  EXPECT_EQ(HeldBytes(), 2 * kDeviceStep);
  device_->Free(d, 672 * kKiB);
  EXPECT_EQ(HeldBytes(), kDeviceStep);  // a step is freed with its last block
  for (DeviceAddress block : {a, c, e, f}) device_->Free(block, 0);
  EXPECT_EQ(HeldBytes(), 0u);
}

TEST_F(DeviceBlocksTest, LargeOnesHaveStepsOfTheirOwn) {
  const DeviceAddress a = Take(kMiB + 1), b = Take(2 * kMiB), c = Take(2 * kMiB + 1), d = Take(kMiB);
  EXPECT_EQ(HeldBytes(), (1 + 1 + 2 + 1) * kDeviceStep);
  for (DeviceAddress block : {a, b, c, d}) device_->Free(block, 0);
}

// Memory for rounding an address up is taken only if it is needed.
TEST_F(DeviceBlocksTest, AlignmentsBeyondAPageAreKept) {
  Stream* const stream = device_->CreateStream().Take();
  std::vector<std::pair<DeviceAddress, uint64_t>> blocks;
  for (const auto& [bytes, alignment] : {std::pair<uint64_t, uint64_t>{100, 1},
                                         {3 * kMiB, 4 * kKiB},
                                         {100, 64 * kKiB},
                                         {5000, 2 * kMiB},
                                         {5000, 8 * kMiB},
                                         {5000, 8 * kMiB}}) {
    const uint64_t before = HeldBytes();
    blocks.push_back({Take(bytes, alignment), bytes});
    const uint64_t taken = HeldBytes() - before;
    EXPECT_TRUE(taken == InDeviceSteps(bytes) || taken == InDeviceSteps(bytes) + alignment) << taken;
    EXPECT_TRUE(device_->Fill(blocks.back().first, 1, bytes, stream)
                    .ok());  // the whole block lies in allocated memory
  }
  uint32_t step = 0;
  EXPECT_TRUE(device_->Synchronize(stream, &step).ok());
  for (const auto& [block, bytes] : blocks) device_->Free(block, bytes);
  device_->DestroyStream(stream);
  EXPECT_EQ(HeldBytes(), 0u);
}

TEST_F(DeviceBlocksTest, NeverOverlap) {
  std::mt19937 random(3);
  std::map<DeviceAddress, uint64_t> blocks;
  for (int i = 0; i < 4000; ++i) {
    if (!blocks.empty() && random() % 5 < 2) {
      const auto block = std::next(blocks.begin(), static_cast<long>(random() % blocks.size()));
      device_->Free(block->first, block->second);
      blocks.erase(block);
      continue;
    }
    const uint64_t bytes = random() % (random() % 8 == 0 ? 3 * kMiB : 300 * kKiB);
    const Result<DeviceAddress> taken = device_->Allocate(bytes, uint64_t{1} << random() % 13);
    if (!taken.ok()) continue;  // the machine is full
    const auto after = blocks.upper_bound(*taken);
    ASSERT_TRUE(after == blocks.end() || *taken + bytes <= after->first);
    if (after != blocks.begin()) {
      ASSERT_LE(std::prev(after)->first + std::max<uint64_t>(std::prev(after)->second, 1), *taken);
    }
    blocks[*taken] = bytes;
    ASSERT_EQ(HeldBytes() % kDeviceStep, 0u);
  }
  for (const auto& [address, bytes] : blocks) device_->Free(address, bytes);
  EXPECT_EQ(HeldBytes(), 0u);
}

TEST_F(DeviceBlocksTest, TooManyBytesAreAnError) {
  for (uint64_t bytes : {uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - kDeviceStep})
    EXPECT_EQ(device_->Allocate(bytes, 4096).status().code(), Code::kOutOfMemory);
}

// Opens sessions of `data` one after another. Each time the device has given exactly what is stated.
void ExpectStated(PlanData data, Span<const uint8_t> weights, uint64_t most) {
  fake_cuda::Heal();
  fake_cuda::Machine machine;
  machine.device_bytes = uint64_t{4} << 30;
  fake_cuda::SetMachine(machine);
  {
    const FakeGpu gpu(&data);
    const DeviceMemory stated = EstimateDeviceMemory(data, 0);
    FakeSession s;
    const Status opened = s.Open(data, weights, nullptr, 0);
    ASSERT_TRUE(opened.ok()) << opened.message();
    EXPECT_EQ(HeldBytes(), 0u);
    for (uint64_t sessions = 1; sessions <= most; ++sessions) {
      Result<Session> session = Session::Create(s.runtime, s.plan);
      ASSERT_TRUE(session.ok()) << session.status().message();
      s.sessions.push_back(session.Take());
      ASSERT_EQ(HeldBytes(), BlockBytes(stated, sessions)) << sessions << " sessions";
      // The rule for many sessions: the first session, plus a fixed amount for each further one.
      const uint64_t rest = stated.code + stated.library + stated.communicator;
      const uint64_t summed = stated.first_session + (sessions - 1) * stated.each_session;
      const uint64_t taken =
          HeldBytes() + rest + InDeviceSteps(stated.graphs_once + sessions * stated.graphs);
      EXPECT_LE(summed > taken ? summed - taken : taken - summed, 2 * kDeviceStep) << sessions << " sessions";
    }
  }
  EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
}

struct Sizes {
  uint64_t weights, arena, state;
};

TEST(StatedDeviceMemory, IsWhatSessionsTakeToTheByte) {
  for (const Sizes& more :
       {Sizes{0, 0, 0}, Sizes{kMiB, 0, 0}, Sizes{3 * kMiB, 600 * kKiB, 0}, Sizes{100 * kKiB, 672 * kKiB, 0},
        Sizes{700 * kKiB, 100 * kKiB, 400 * kKiB}, Sizes{900 * kKiB, 1500 * kKiB, 0},
        Sizes{5 * kMiB, 4 * kMiB, kMiB + 1}, Sizes{kMiB - 4 * kKiB, kMiB - 8 * kKiB, 0},
        Sizes{0, 1020 * kKiB, 0}, Sizes{2 * kMiB, 0, 2 * kMiB - 4 * kKiB}}) {
    SCOPED_TRACE(std::to_string(more.weights) + ", " + std::to_string(more.arena) + ", " +
                 std::to_string(more.state));
    TinyPlan tiny;
    tiny.NeedMore(more.weights, more.arena, more.state);
    ExpectStated(tiny.data, tiny.weight_bytes(), 9);
  }
}

TEST(StatedDeviceMemory, OfPycoderToo) {
  CompileOptions options;
  const std::string folder = SourceFolder() + "/tests/data/pycoder/";
  options.models = {{"prefill", folder + "prefill64.onnx"}, {"decode", folder + "decode.onnx"}};
  const CompiledPlan compiled = CompileToMemory(options).Take();
  ExpectStated(compiled.plan, AssembleWeights(compiled), 9);
}

}  // namespace
}  // namespace rondo
