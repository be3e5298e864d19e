// Devices and their memory, and the driver's DriverInfo.
#include <cstring>

#include "core/synthetic.h"
#include "tests/conformance/conformance.h"

namespace rondo::test {
namespace {

using Bytes = std::vector<uint8_t>;

class Memory : public Conformance {};
CONFORMANCE_SUITE(Memory);

TEST_P(Memory, DevicesAreOpenedOnceAndNoMoreThanThereAre) {
  EXPECT_STRNE(driver_->Info().name, "");
  EXPECT_GE(driver_->Info().max_streams, 1u);
  ASSERT_GE(driver_->DeviceCount(), 1u);
  Result<Device*> again = driver_->Open(0);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, device_);
  const Result<Device*> none = driver_->Open(driver_->DeviceCount());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(none.status().message()).find(std::to_string(driver_->DeviceCount())),
            std::string::npos)
      << none.status().message();
}

TEST_P(Memory, BytesComeBackWhateverTheirNumber) {
  for (uint64_t bytes : {1ull, 3ull, 256ull, 70'001ull, (5ull << 20) + 7}) {
    Bytes data(bytes);
    for (uint64_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 251);
    const DeviceAddress from = Put(data), to = Take(bytes + 1);
    ExpectOk(device_->Copy(to + 1, from, bytes, stream_));
    EXPECT_TRUE(Get<uint8_t>(to + 1, bytes) == data) << bytes << " bytes";
  }
}

TEST_P(Memory, WritesStayWithinTheirBytes) {
  Bytes want(1000, 0xaa);
  const DeviceAddress block = Take(want.size()), other = Put(Bytes(40, 0x77));
  ExpectOk(device_->Fill(block, 0xaa, want.size(), stream_));
  const Bytes data(33, 0x11);
  ExpectOk(device_->Fill(block + 3, 0x55, 21, stream_));
  ExpectOk(device_->CopyIn(block + 101, data.data(), data.size(), stream_));
  ExpectOk(device_->Copy(block + 301, other + 1, 35, stream_));
  std::memset(want.data() + 3, 0x55, 21);
  std::memset(want.data() + 101, 0x11, 33);
  std::memset(want.data() + 301, 0x77, 35);
  EXPECT_EQ(Get<uint8_t>(block, want.size()), want);
}

TEST_P(Memory, NoBytesAreNoWork) {
  const DeviceAddress none = Take(0), block = Put(Bytes(8, 5));
  EXPECT_NE(none, 0u);
  Bytes host(1, 9);
  ExpectOk(device_->CopyIn(block, host.data(), 0, stream_));
  ExpectOk(device_->CopyOut(host.data(), block, 0, stream_));
  ExpectOk(device_->Copy(block, none, 0, stream_));
  ExpectOk(device_->Copy(none, block, 0, stream_));
  ExpectOk(device_->Fill(block, 0xff, 0, stream_));
  ExpectOk(device_->FillSynthetic(block, DType::kF32, 0, 1, 1, stream_));
  EXPECT_EQ(Get<uint8_t>(block, 8), Bytes(8, 5));
  EXPECT_EQ(host[0], 9);
}

TEST_P(Memory, BeginsWhereItsAlignmentAsks) {
  for (uint64_t alignment : {8ull, 64ull, 256ull, 4096ull, 65536ull}) {
    for (uint64_t bytes : {0ull, 1ull, 1000ull, 3ull << 20})
      EXPECT_EQ(Take(bytes, alignment) % alignment, 0u) << bytes << " bytes";
  }
}

TEST_P(Memory, BlocksDoNotOverlap) {
  std::vector<DeviceAddress> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(Put(Floats(100, static_cast<float>(i))));
  for (size_t i = 0; i < blocks.size(); ++i)
    EXPECT_EQ(Get(blocks[i], 100), Floats(100, static_cast<float>(i)));
}

TEST_P(Memory, ThatCannotBeHadIsAnErrorAndTheDeviceLivesOn) {
  NEEDS(kOutOfMemory);
  for (uint64_t bytes : {1ull << 60, ~0ull - 100}) {
    const Result<DeviceAddress> much = device_->Allocate(bytes, 4096);
    ASSERT_FALSE(much.ok());
    EXPECT_EQ(much.status().code(), Code::kOutOfMemory) << much.status().message();
  }
  EXPECT_EQ(Get(Put(Counting(2))), Counting(2));
}

TEST_P(Memory, InfoSaysHowMuchIsFree) {
  uint64_t free_bytes = 0, total_bytes = 0;
  ExpectOk(device_->MemoryInfo(&free_bytes, &total_bytes));
  EXPECT_GT(total_bytes, 0u);
  EXPECT_LE(free_bytes, total_bytes);
}

TEST_P(Memory, SyntheticWeightsAreThoseOfTheGeneratorToTheBit) {
  auto same = [&](DType dtype, uint64_t elements, float scale) {
    const uint64_t bytes = elements * static_cast<uint64_t>(ByteSize(dtype)), key = 77 * elements;
    Bytes want(bytes);
    FillSyntheticRange(dtype, key, scale, 0, elements, want.data());
    const DeviceAddress to = Take(bytes);
    ExpectOk(device_->FillSynthetic(to, dtype, elements, key, scale, stream_));
    return Get<uint8_t>(to, bytes) == want;
  };
  for (int type = 0; type < kNumDTypes; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (float scale : {0.02f, 1.0f, 3e-9f, 1e6f, 251.0f, -2.0f}) {
      for (uint64_t elements : {1ull, 1001ull})
        EXPECT_TRUE(same(dtype, elements, scale)) << Name(dtype) << ", scale " << scale << ", " << elements;
    }
    EXPECT_TRUE(same(dtype, 3'000'003, 0.5f)) << Name(dtype) << ", many";
  }
}

TEST_P(Memory, CopiesThroughStagingAreNotLimitedByIt) {
  CopyNeeds needs;
  needs.in = needs.out = 4096;
  needs.outputs = 1;
  Stream* stream = MakeStream();
  const Result<uint64_t> reserved = device_->ReserveStaging(stream, needs);
  ASSERT_TRUE(reserved.ok()) << reserved.status().message();
  for (size_t elements : {100u, 1'000'000u}) {
    const Floats data = Counting(0.5f, elements);
    Floats back(elements);
    const DeviceAddress block = Take(elements * sizeof(float));
    for (int round = 0; round < 3; ++round) {
      ExpectOk(device_->CopyIn(block, data.data(), elements * sizeof(float), stream));
      ExpectOk(device_->CopyOut(back.data(), block, elements * sizeof(float), stream));
      Sync(stream);
      EXPECT_TRUE(back == data) << elements << " floats, round " << round;
      back.assign(elements, 0);
    }
  }
}

}  // namespace
}  // namespace rondo::test
