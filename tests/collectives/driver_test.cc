// The host driver's collectives, without a runtime, beyond the promises of every driver (tests/conformance):
// cases that verified plans never have, and state that several devices share.
#include <cstring>
#include <string>

#include "tests/collectives/mesh.h"

namespace rondo {
namespace {

constexpr uint32_t kDevices[] = {0, 1};

// Two devices, each with a stream and 64 bytes, and the Collectives of a program with two sync points on one
// communicator.
class DriverTest : public testing::Test {
 protected:
  DriverTest() : plan_(2) {}
  void SetUp() override {
    for (uint32_t i = 0; i < 2; ++i) {
      plan_.AddSyncPoint(i == 1 ? CollectiveOp::kBroadcast : CollectiveOp::kAllReduce, DType::kF32, 16, 0,
                         plan_.AllDevices(), "c" + std::to_string(i));
    }
    for (uint32_t d = 0; d < 2; ++d) {
      const uint32_t in = plan_.Add(BufferKind::kInput, d, "in" + std::to_string(d), 4);
      const uint32_t out = plan_.Add(BufferKind::kOutput, d, "out" + std::to_string(d), 4);
      for (uint32_t i = 0; i < 2; ++i) {
        plan_.Start(d, i, {in, 0}, {out, 0});
        plan_.Wait(d, i);
      }
    }
    plan_.Finish();
    Result<Driver*> made = CreateHostDriver(MeshOptions(2));
    ASSERT_TRUE(made.ok());
    driver_ = *made;
    for (uint32_t d = 0; d < 2; ++d) {
      devices_[d] = *driver_->Open(d);
      modules_[d] = *devices_[d]->LoadModule(plan_.data);
      streams_[d] = *devices_[d]->CreateStream();
      memory_[d] = *devices_[d]->Allocate(64, 64);
      std::memset(reinterpret_cast<void*>(memory_[d]), 0, 64);
    }
    collectives_ = Make();
  }
  void TearDown() override {
    driver_->DestroyCollectives(collectives_);
    for (uint32_t d = 0; d < 2; ++d) {
      devices_[d]->Free(memory_[d], 64);
      devices_[d]->DestroyStream(streams_[d]);
      devices_[d]->DestroyModule(modules_[d]);
    }
    DestroyHostDriver(driver_);
  }
  Collectives* Make() {
    Result<Collectives*> made = driver_->CreateCollectives(plan_.program(), kDevices);
    EXPECT_TRUE(made.ok());
    EXPECT_TRUE(driver_->BeginCollectives(*made).ok());
    return *made;
  }
  CollectivePart Part(uint32_t rank, uint32_t sync_point, Collectives* collectives = nullptr) {
    CollectivePart part;
    part.collectives = collectives == nullptr ? collectives_ : collectives;
    part.point = &plan_.program().sync_points[sync_point];
    part.sync_point = sync_point;
    part.rank = rank;
    part.step = 10 * rank + sync_point;
    return part;
  }
  float* Floats(uint32_t device) { return reinterpret_cast<float*>(memory_[device]); }
  void Start(const CollectivePart& part) {
    const uint32_t d = part.rank;
    ASSERT_TRUE(devices_[d]->StartCollective(part, memory_[d], memory_[d] + 32, streams_[d]).ok());
  }
  // Waits for the collective, and returns the status of Synchronize.
  Status Wait(const CollectivePart& part, uint32_t* step = nullptr) {
    uint32_t failed = kNone;
    EXPECT_TRUE(devices_[part.rank]->WaitCollective(part, streams_[part.rank]).ok());
    Status status = devices_[part.rank]->Synchronize(streams_[part.rank], &failed);
    if (step != nullptr) *step = failed;
    return status;
  }
  MeshPlan plan_;
  Driver* driver_ = nullptr;
  Device* devices_[2] = {};
  Module* modules_[2] = {};
  Stream* streams_[2] = {};
  DeviceAddress memory_[2] = {};
  Collectives* collectives_ = nullptr;
};

// Sync point 1 comes second on its communicator. A rank that leaves out the first one meets the wrong one.
TEST_F(DriverTest, ADroppedCollectiveIsAnErrorAndNoHang) {
  Start(Part(0, 0));
  Start(Part(1, 1));
  const Status status = Wait(Part(1, 1));
  EXPECT_NE(std::strstr(status.message(), "sync point 1 (broadcast"), nullptr) << status.message();
  EXPECT_NE(std::strstr(status.message(), "sync point 0 (all-reduce"), nullptr) << status.message();
  EXPECT_FALSE(Wait(Part(0, 0)).ok());
}

TEST_F(DriverTest, StartingMoreThanTheProgramHasOrWaitingForNothingIsAnError) {
  EXPECT_NE(std::strstr(Wait(Part(0, 0)).message(), "which it has not started"), nullptr);
  Start(Part(0, 0));
  Start(Part(0, 1));
  Start(Part(0, 1));
  uint32_t step = kNone;
  const Status status = devices_[0]->Synchronize(streams_[0], &step);
  EXPECT_NE(std::strstr(status.message(), "all 2 collectives of communicator 0"), nullptr)
      << status.message();
  driver_->AbortCollectives(collectives_, Status::Ok(), true);
}

// The order in which sessions start on a device does not matter: they cannot meet each other's ranks.
TEST_F(DriverTest, SessionsMeetOnlyThemselvesInAnyOrder) {
  Collectives* other = Make();
  Floats(0)[0] = 1;
  Floats(1)[0] = 2;
  Start(Part(0, 0));
  Start(Part(0, 0, other));
  Start(Part(1, 0, other));
  Start(Part(1, 0));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(Wait(Part(rank, 0)).ok());
    EXPECT_TRUE(Wait(Part(rank, 0, other)).ok());
  }
  driver_->DestroyCollectives(other);
}

TEST_F(DriverTest, AFailedStreamDoesNothingUntilItsErrorIsTaken) {
  Floats(0)[8] = 5;
  EXPECT_TRUE(devices_[0]->WaitCollective(Part(0, 0), streams_[0]).ok());
  EXPECT_TRUE(devices_[0]->Fill(memory_[0], 0xff, 64, streams_[0]).ok());
  EXPECT_EQ(Floats(0)[8], 5);
  uint32_t step = kNone;
  EXPECT_FALSE(devices_[0]->Synchronize(streams_[0], &step).ok());
  EXPECT_TRUE(devices_[0]->Synchronize(streams_[0], &step).ok());
  EXPECT_TRUE(devices_[0]->Fill(memory_[0], 0, 64, streams_[0]).ok());
  EXPECT_EQ(Floats(0)[8], 0);
}

TEST_F(DriverTest, MemoryOfAnotherDeviceIsRefused) {
  const char* text = "are memory of host device 1";
  Device& zero = *devices_[0];
  for (const Status& status :
       {zero.Copy(memory_[1], memory_[0], 16, streams_[0]), zero.Fill(memory_[1] + 63, 0, 1, streams_[0]),
        zero.CopyIn(memory_[1], this, 8, streams_[0]), zero.CopyOut(this, memory_[1], 8, streams_[0]),
        zero.StartCollective(Part(0, 0), memory_[1], memory_[0], streams_[0])}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(std::strstr(status.message(), text), nullptr) << status.message();
  }
  EXPECT_TRUE(zero.Copy(memory_[0], memory_[1], 16, streams_[0]).ok())
      << "a copy from another device, no graph's";
  ASSERT_TRUE(zero.BeginRecord(streams_[0]).ok());
  EXPECT_EQ(zero.Copy(memory_[0], memory_[1], 16, streams_[0]).code(), Code::kInvalidArgument);
  Result<Graph*> graph = zero.EndRecord(streams_[0]);
  if (graph.ok()) zero.DestroyGraph(*graph);
  float mine[4] = {};
  EXPECT_TRUE(zero.CopyIn(memory_[0], mine, 16, streams_[0]).ok());
}

TEST_F(DriverTest, WhatEachDeviceGaveOutIsInItsOwnBooks) {
  EXPECT_EQ(ReadHostBooks(driver_, 0).bytes, 64u);
  const DeviceAddress more = *devices_[0]->Allocate(1000, 64);
  EXPECT_EQ(ReadHostBooks(driver_, 0).bytes, 1064u);
  EXPECT_EQ(ReadHostBooks(driver_, 0).blocks, 2u);
  EXPECT_EQ(ReadHostBooks(driver_, 1).bytes, 64u);
  devices_[1]->Free(more, 1000);
  EXPECT_EQ(ReadHostBooks(driver_, 0).blocks, 2u) << "another device cannot free it";
  devices_[0]->Free(more, 1000);
  EXPECT_EQ(ReadHostBooks(driver_, 0).bytes, 64u);
  EXPECT_EQ(ReadHostBooks(driver_, 0).most_bytes, 1064u);
}

}  // namespace
}  // namespace rondo
