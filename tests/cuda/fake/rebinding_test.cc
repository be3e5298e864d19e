// Tensors in the memory of GPUs: nodes of instantiated graphs get new addresses, over a libcuda without a
// GPU.
#include <gtest/gtest.h>

#include "tests/cuda/fake/fake_session.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

using Floats = std::vector<float>;

class RebindingOnCuda : public testing::Test {
 protected:
  RebindingOnCuda() : tiny_(/*split=*/true) {
    fake_cuda::SetMachine({});
    gpu_ = std::make_unique<FakeGpu>(&tiny_.data);
    const Status opened = s_.Open(tiny_.data, tiny_.weight_bytes());
    EXPECT_TRUE(opened.ok()) << opened.message();
    device_ = s_.sessions[0].device(0);
    for (DeviceAddress& block : blocks_) block = device_->Allocate(kBytes, 256).Take();
  }
  ~RebindingOnCuda() override {
    fake_cuda::Disarm();
    fake_cuda::Heal();
    for (DeviceAddress block : blocks_) device_->Free(block, kBytes);
    s_.Close();
    gpu_.reset();
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
  }
  Session& session() { return s_.sessions[0]; }
  Stream* stream() { return session().stream(0); }
  void Write(DeviceAddress to, const Floats& values) {
    EXPECT_TRUE(device_->CopyIn(to, values.data(), values.size() * 4, stream()).ok());
    uint32_t step = 0;
    EXPECT_TRUE(device_->Synchronize(stream(), &step).ok());
  }
  Floats Read(DeviceAddress from) {
    Floats values(4);
    EXPECT_TRUE(device_->CopyOut(values.data(), from, 16, stream()).ok());
    uint32_t step = 0;
    EXPECT_TRUE(device_->Synchronize(stream(), &step).ok());
    return values;
  }
  Status Add(DeviceAddress x, DeviceAddress y) {
    const Input input = {"x", kNone, DType::kF32, {4}, reinterpret_cast<void*>(x), 16, MemoryKind::kDevice};
    const Output output = {"y", kNone, DType::kF32, reinterpret_cast<void*>(y), 16, MemoryKind::kDevice};
    return session().Run(TinyPlan::kAdd, {&input, 1}, {&output, 1});
  }
  uint64_t Copied() const { return s_.runtime.metrics().input_bytes + s_.runtime.metrics().output_bytes; }

  static constexpr uint64_t kBytes = 512;
  TinyPlan tiny_;
  std::unique_ptr<FakeGpu> gpu_;
  FakeSession s_;
  Device* device_ = nullptr;
  DeviceAddress blocks_[4] = {};
};

TEST_F(RebindingOnCuda, KernelsUseOtherMemoryEachRun) {
  float total = 0;
  for (uint32_t run = 0; run < 20; ++run) {
    const DeviceAddress x = blocks_[run % 2] + run % 3 / 2 * 256, y = blocks_[2 + run / 2 % 2];
    const float value = static_cast<float>(run + 1);
    Write(x, {value, value, value, value});
    const Status status = Add(x, y);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(Read(y), Floats({value, 2 * value, 3 * value, 4 * value})) << "run " << run;
    total += value;
  }
  EXPECT_EQ(Copied(), 0u);
  Floats state(4);
  EXPECT_TRUE(session().ReadState("total", state.data(), 16).ok());
  EXPECT_EQ(state[0], total);
}

TEST_F(RebindingOnCuda, SoDoCopySteps) {
  Write(blocks_[0], {1, 1, 1, 1});
  ASSERT_TRUE(Add(blocks_[0], blocks_[1]).ok());
  for (DeviceAddress to : {blocks_[2], blocks_[3], blocks_[2] + 256}) {
    const Output output = {"now", kNone, DType::kF32, reinterpret_cast<void*>(to), 16, MemoryKind::kDevice};
    const Status status = session().Run(TinyPlan::kPeek, {}, {&output, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(Read(to), Floats({1, 2, 3, 4}));
  }
  EXPECT_EQ(Copied(), 0u);
}

TEST_F(RebindingOnCuda, EveryFailingCallIsAnErrorThatSticks) {
  Write(blocks_[0], {1, 1, 1, 1});
  fake_cuda::Arm(fake_cuda::kNoCall, 0);
  ASSERT_TRUE(Add(blocks_[0], blocks_[1]).ok());
  const uint64_t calls = fake_cuda::Disarm().calls;
  ASSERT_GT(calls, 3u);
  for (uint64_t call = 0; call < calls; ++call) {
    Result<Session> other = Session::Create(s_.runtime, s_.plan);
    ASSERT_TRUE(other.ok()) << other.status().message();
    std::swap(s_.sessions[0], *other);
    fake_cuda::Arm(call, 1);
    const Status failed = Add(blocks_[0], blocks_[1]);
    EXPECT_TRUE(fake_cuda::Disarm().fired) << "call " << call;
    EXPECT_FALSE(failed.ok()) << "call " << call;
    EXPECT_STREQ(Add(blocks_[0], blocks_[1]).message(), failed.message());
    std::swap(s_.sessions[0], *other);
  }
}

}  // namespace
}  // namespace rondo
