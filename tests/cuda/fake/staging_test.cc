// Copies from and to ordinary memory on streams with page-locked staging: the cuda driver over a libcuda that
// reads page-locked memory as late as CUDA may, so that a buffer overwritten too early shows.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "drivers/cuda/cuda_device.h"
#include "drivers/cuda/cuda_driver.h"
#include "tests/cuda/fake/fake_cuda.h"

namespace rondo {
namespace {

using Bytes = std::vector<uint8_t>;
using fake_cuda::CountHostCopies;

Bytes Pattern(size_t size, uint32_t seed) {
  std::vector<uint64_t> words(size / 8 + 1);
  uint64_t word = seed;
  for (uint64_t& to : words) to = word = word * 6364136223846793005 + 1442695040888963407;
  const auto* first = reinterpret_cast<const uint8_t*>(words.data());
  return Bytes(first, first + size);
}

// A stream, and blocks of device memory for tensors that are copied in and out.
class Copier {
 public:
  Copier(Device* device, const std::vector<size_t>& sizes) : device_(device), sizes_(sizes) {
    stream_ = device_->CreateStream().Take();
    for (size_t size : sizes_) blocks_.push_back(device_->Allocate(size, kCopyAlignment).Take());
  }
  ~Copier() {
    if (stream_ != nullptr) device_->DestroyStream(stream_);
    for (size_t i = 0; i < sizes_.size(); ++i) device_->Free(blocks_[i], sizes_[i]);
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  Stream* stream() const { return stream_; }
  // What copies of these tensors need.
  CopyNeeds Needs() const {
    CopyNeeds needs;
    for (size_t size : sizes_) needs.in += (size + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
    needs.out = needs.in;
    needs.outputs = static_cast<uint32_t>(sizes_.size());
    return needs;
  }
  Status In(const std::vector<Bytes>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i)
      RONDO_RETURN_IF_ERROR(device_->CopyIn(blocks_[i], tensors[i].data(), tensors[i].size(), stream_));
    return Status::Ok();
  }
  Status Out(std::vector<Bytes>* tensors) {
    for (size_t i = 0; i < tensors->size(); ++i)
      RONDO_RETURN_IF_ERROR(
          device_->CopyOut((*tensors)[i].data(), blocks_[i], (*tensors)[i].size(), stream_));
    return Status::Ok();
  }
  Status Wait() {
    uint32_t step = 0;
    return device_->Synchronize(stream_, &step);
  }
  // Copies tensors in and out again. The sources are freed before anybody waits.
  Status RoundTrip(uint32_t seed, std::vector<Bytes>* back) {
    back->clear();
    std::vector<Bytes> sent;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      sent.push_back(Pattern(sizes_[i], seed + static_cast<uint32_t>(i)));
      back->emplace_back(sizes_[i], uint8_t{0});
    }
    Status status = In(sent);
    for (Bytes& bytes : sent) std::fill(bytes.begin(), bytes.end(), uint8_t{0xee});
    if (status.ok()) status = Out(back);
    const Status waited = Wait();
    return status.ok() ? waited : status;
  }
  bool Same(uint32_t seed, const std::vector<Bytes>& back) const {
    for (size_t i = 0; i < sizes_.size(); ++i)
      if (back[i] != Pattern(sizes_[i], seed + static_cast<uint32_t>(i))) return false;
    return true;
  }

 private:
  Device* const device_;
  const std::vector<size_t> sizes_;
  Stream* stream_ = nullptr;
  std::vector<DeviceAddress> blocks_;
};

class StagingTest : public testing::Test {
 protected:
  StagingTest() {
    fake_cuda::SetMachine({});
    driver_ = CreateCudaDriver({}).Take();
    device_ = driver_->Open(0).Take();
  }
  ~StagingTest() override {
    DestroyCudaDriver(driver_);
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
  }
  // Copies tensors of `sizes` in and out a few times; all copies go through page-locked memory.
  void ExpectStaged(const std::vector<size_t>& sizes, const CopyNeeds& needs) {
    Copier copier(device_, sizes);
    ASSERT_TRUE(device_->ReserveStaging(copier.stream(), needs).ok());
    const uint64_t before = CountHostCopies().ordinary;
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      std::vector<Bytes> back;
      const Status status = copier.RoundTrip(seed, &back);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(copier.Same(seed, back)) << "seed " << seed;
    }
    EXPECT_EQ(CountHostCopies().ordinary, before);
  }
  void ExpectStaged(const std::vector<size_t>& sizes) { ExpectStaged(sizes, Copier(device_, sizes).Needs()); }

  Driver* driver_ = nullptr;
  Device* device_ = nullptr;
};

constexpr size_t kSlot = cuda::Staging::kSlotBytes, kRing = kSlot * cuda::Staging::kMostSlots;

TEST_F(StagingTest, TakesNoMoreThanTheTensorsNeed) {
  Copier copier(device_, {100, 5000});
  const CopyNeeds needs = copier.Needs();
  const int64_t blocks = fake_cuda::Held().host_blocks;
  EXPECT_EQ(device_->ReserveStaging(copier.stream(), {}).Take(), 0u);
  EXPECT_EQ(fake_cuda::Held().host_blocks, blocks);
  EXPECT_EQ(device_->ReserveStaging(copier.stream(), needs).Take(), 8192u);
  Copier large(device_, {size_t{64} << 20});
  EXPECT_EQ(device_->ReserveStaging(large.stream(), large.Needs()).Take(), kRing);
}

TEST_F(StagingTest, SmallTensorsLieInOneSlot) {
  ExpectStaged({1, 255, 256, 257, 4000, 3});
  ExpectStaged({kSlot});
  ExpectStaged({kSlot - 300, 300});
}

TEST_F(StagingTest, LargeTensorsGoAroundTheRing) {
  ExpectStaged({kRing});
  ExpectStaged({kRing + 1});
  ExpectStaged({2 * kRing + 4097, 300 << 10, 1, (700 << 10) + 5, kSlot, kSlot + 1});
  ExpectStaged({300 << 10, 300 << 10, 300 << 10, 300 << 10, 300 << 10, 7, 2 * kRing - 100});
}

TEST_F(StagingTest, MoreThanWasAnnouncedIsCopiedAllTheSame) {
  CopyNeeds few;
  few.in = 256;
  few.out = 256;
  few.outputs = 1;
  ExpectStaged({100, 3 << 20, 17, 9000, 1 << 20}, few);
  few.out = 0;
  few.outputs = 0;
  ExpectStaged({100, 3000, 17}, few);
}

TEST_F(StagingTest, WithoutItOrdinaryMemoryIsCopiedByTheDriver) {
  Copier copier(device_, {1000});
  const uint64_t before = CountHostCopies().ordinary;
  std::vector<Bytes> back;
  ASSERT_TRUE(copier.RoundTrip(1, &back).ok());
  EXPECT_TRUE(copier.Same(1, back));
  EXPECT_EQ(CountHostCopies().ordinary, before + 2);
}

// The fake reads page-locked memory only when a thread waits. Bytes written until then arrive, which shows
// that the copy reads this memory directly.
TEST_F(StagingTest, PageLockedMemoryIsCopiedAsItLies) {
  constexpr size_t kBytes = 3 << 20;
  auto* of = static_cast<cuda::CudaDevice*>(device_);
  Copier copier(device_, {kBytes});
  ASSERT_TRUE(device_->ReserveStaging(copier.stream(), copier.Needs()).ok());
  void* locked = nullptr;
  {
    cuda::CudaDevice::Use use(*of);
    ASSERT_EQ(of->api().host_allocate(&locked, kBytes, 1), 0);
  }
  std::memset(locked, 1, kBytes);
  const DeviceAddress block = device_->Allocate(kBytes, 256).Take();
  const auto before = CountHostCopies();
  ASSERT_TRUE(device_->CopyIn(block, locked, kBytes, copier.stream()).ok());
  std::memset(locked, 2, kBytes);
  ASSERT_TRUE(copier.Wait().ok());
  std::memset(locked, 0, kBytes);
  ASSERT_TRUE(device_->CopyOut(locked, block, kBytes, copier.stream()).ok());
  ASSERT_TRUE(copier.Wait().ok());
  EXPECT_EQ(Bytes(static_cast<uint8_t*>(locked), static_cast<uint8_t*>(locked) + kBytes), Bytes(kBytes, 2));
  EXPECT_EQ(CountHostCopies(), (fake_cuda::HostCopies{before.ordinary, before.page_locked + 2}));
  cuda::CudaDevice::Use use(*of);
  EXPECT_EQ(of->api().host_release(locked), 0);
  device_->Free(block, kBytes);
}

TEST_F(StagingTest, WhatIsCopiedInAfterOutputsKeepsItsOrder) {
  Copier copier(device_, {kRing / 2, 1000});
  ASSERT_TRUE(device_->ReserveStaging(copier.stream(), copier.Needs()).ok());
  const std::vector<Bytes> first = {Pattern(kRing / 2, 1), Pattern(1000, 2)};
  const std::vector<Bytes> second = {Pattern(kRing / 2, 3), Pattern(1000, 4)};
  std::vector<Bytes> back = {Bytes(kRing / 2), Bytes(1000)}, again = back;
  ASSERT_TRUE(copier.In(first).ok());
  ASSERT_TRUE(copier.Out(&back).ok());
  ASSERT_TRUE(copier.In(second).ok());
  ASSERT_TRUE(copier.Out(&again).ok());
  ASSERT_TRUE(copier.Wait().ok());
  EXPECT_EQ(back, first);
  EXPECT_EQ(again, second);
}

// Whichever call fails, the caller's memory is not touched once the waiting call has returned, and nothing is
// left allocated.
TEST_F(StagingTest, EveryFailingCallIsToldAndNothingStays) {
  bool fired = true;
  for (uint64_t fail = 0; fired && fail < 1000; ++fail) {
    Copier copier(device_, {kRing + 100, 5000});
    fake_cuda::Arm(fail, 2);
    Status status = device_->ReserveStaging(copier.stream(), copier.Needs()).status();
    std::vector<Bytes> back;
    if (status.ok()) status = copier.RoundTrip(7, &back);
    fired = fake_cuda::Disarm().fired;
    EXPECT_EQ(status.ok(), !fired) << "call " << fail;
    for (Bytes& bytes : back) std::fill(bytes.begin(), bytes.end(), uint8_t{0xcd});
    EXPECT_TRUE(copier.Wait().ok());
    for (const Bytes& bytes : back) EXPECT_EQ(bytes, Bytes(bytes.size(), 0xcd)) << "call " << fail;
    std::vector<Bytes> after;
    ASSERT_TRUE(copier.RoundTrip(9, &after).ok());
    EXPECT_TRUE(copier.Same(9, after)) << "call " << fail;
  }
  EXPECT_FALSE(fired);
}

TEST_F(StagingTest, ACopyOutThatFailedWritesNothingLater) {
  Copier copier(device_, {2 * kRing});
  ASSERT_TRUE(device_->ReserveStaging(copier.stream(), copier.Needs()).ok());
  bool fired = true;
  for (uint64_t fail = 0; fired; ++fail) {
    std::vector<Bytes> back = {Bytes(2 * kRing, 0xcd)};
    fake_cuda::Arm(fail, 2);
    const Status status = copier.Out(&back);
    fired = fake_cuda::Disarm().fired;
    EXPECT_EQ(status.ok(), !fired) << "call " << fail;
    EXPECT_TRUE(copier.Wait().ok());
    EXPECT_EQ(back[0] == Bytes(2 * kRing, 0xcd), fired) << "call " << fail;
  }
}

TEST_F(StagingTest, ManyStreamsCopyAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Copier copier(device_, {kRing + 5000 * t, 100});
      if (!device_->ReserveStaging(copier.stream(), copier.Needs()).ok()) ++wrong[t];
      for (uint32_t i = 0; i < 3; ++i) {
        std::vector<Bytes> back;
        if (!copier.RoundTrip(10 * t + i, &back).ok() || !copier.Same(10 * t + i, back)) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// The team copies two pieces of each tensor at once. Callers that find it busy try again.
TEST(CopyTeamTest, CopiesWhateverTheNumberOfHelpersAndCallers) {
  static int left;
  for (int helpers : {0, 1, 3}) {
    left = helpers;
    ThreadHooks hooks = DefaultThreadHooks();
    hooks.start = [](void* user, void* (*entry)(void*), void* argument, void** thread) {
      return left-- > 0 ? DefaultThreadHooks().start(user, entry, argument, thread) : 11;
    };
    std::unique_ptr<cuda::CopyTeam> team = cuda::CopyTeam::Create(hooks).Take();
    if (left == helpers || std::thread::hardware_concurrency() == 1 || helpers == 0) {
      EXPECT_FALSE(team->Begin());
      continue;
    }
    std::vector<std::thread> threads;
    std::vector<int> wrong(2, 0);
    for (uint32_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        for (size_t bytes : {size_t{1}, size_t{32768}, size_t{65537}, size_t{300000}, size_t{512} << 10}) {
          for (int i = 0; i < 20; ++i) {
            const Bytes from = Pattern(2 * bytes, t + static_cast<uint32_t>(i));
            alignas(64) static thread_local uint8_t to[2][(512 << 10) + 64];
            while (!team->Begin()) std::this_thread::yield();
            for (int half = 0; half < 2; ++half) {
              to[half][bytes] = 0x77;
              team->Post(to[half], from.data() + static_cast<size_t>(half) * bytes, bytes, i % 2 != 0);
            }
            for (int half = 0; half < 2; ++half) {
              team->Complete();
              wrong[t] += std::memcmp(to[half], from.data() + static_cast<size_t>(half) * bytes, bytes) != 0;
              wrong[t] += to[half][bytes] != 0x77;
            }
            team->End();
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(1));  // lets helpers fall asleep
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(2, 0)) << helpers << " helpers";
  }
}

}  // namespace
}  // namespace rondo
