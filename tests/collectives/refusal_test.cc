// Plans in which one rank's collectives differ from those that the others expect are refused before anything
// is launched. The sentence names the device, the sync point and the source node. Tested with new
// certificates, so that the rules themselves find the difference, and with the old ones.
#include <cstring>
#include <string>

#include "formats/plan/certificate.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "tests/collectives/damaged_plan.h"
#include "tests/collectives/mesh.h"

namespace rondo {
namespace {

using namespace damaged;  // NOLINT

void ExpectNamed(const Status& status, uint32_t device, uint32_t sync_point, uint32_t source,
                 const char* text) {
  EXPECT_EQ(status.code(), Code::kCorrupt);
  const std::string node = "Collective \"n" + std::to_string(source) + "\"";
  for (const std::string& part :
       {"device " + std::to_string(device), "sync point " + std::to_string(sync_point), node,
        std::string(text), std::string("program \"mesh\"")}) {
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << part << "\n"
                                                                           << status.message();
  }
  EXPECT_EQ(node, status.source_node());
}

TEST(RefusalTest, OneRanksDamagedCollectivesAreNamed) {
  for (uint32_t device = 0; device < 4; ++device) {
    for (const Damage& damage : kDamages) {
      for (bool anew : {true, false}) {
        SCOPED_TRACE(testing::Message()
                     << damage.name << " on device " << device << (anew ? ", certificates made anew" : ""));
        MeshPlan plan(4);
        Build(&plan);
        ASSERT_TRUE(VerifyPlan(plan.data).ok()) << VerifyPlan(plan.data).message();
        damage.apply(plan, device);
        if (anew) plan.Certify();
        Status status = VerifyPlan(plan.data);
        ExpectNamed(status, device, damage.sync_point, damage.source, damage.text);
        // The loader says the same.
        EXPECT_STREQ(Plan::FromData(plan.data, {}).status().message(), status.message());
      }
    }
  }
}

// A sync point changed on all ranks at once is consistent; only the certificate shows the change.
TEST(RefusalTest, AChangeOnAllRanksIsFoundByTheCertificate) {
  for (auto change :
       {+[](SyncPoint* p) { p->op = CollectiveOp::kBroadcast; }, +[](SyncPoint* p) { p->bytes = 8; }}) {
    MeshPlan plan(4);
    Build(&plan);
    change(&Edit(plan.program().sync_points, 0));
    ExpectNamed(VerifyPlan(plan.data), 0, 0, 0, "order certificate");
    plan.Certify();
    EXPECT_TRUE(VerifyPlan(plan.data).ok());
  }
}

// The rules for a send and an all-to-all.
TEST(RefusalTest, SendsAndPartsThatCannotBeAreRefused) {
  struct {
    CollectiveOp op;
    std::vector<uint32_t> participants;
    uint64_t bytes;
    const char* text;
  } cases[] = {{CollectiveOp::kSend, {0, 1, 2}, 16, "a send has 3 participants, not 2"},
               {CollectiveOp::kSend, {1}, 16, "a send has 1 participants, not 2"},
               {CollectiveOp::kSend, {1, 1}, 16, "it sends to itself"},
               {CollectiveOp::kAllToAll, {0, 1, 2}, 16, "16 bytes of f32 are not 3 equal parts"},
               {CollectiveOp::kAllToAll, {1, 0}, 16, "its participants are not ascending"},
               {static_cast<CollectiveOp>(6), {0, 1}, 16, "op 6 is unknown"}};
  for (const auto& c : cases) {
    MeshPlan plan(4);
    Build(&plan);
    SyncPoint& point = Edit(plan.program().sync_points, 0);
    point.op = c.op;
    point.participants = plan.arena.Copy(c.participants);
    point.bytes = c.bytes;
    EXPECT_NE(std::strstr(VerifyPlan(plan.data).message(), c.text), nullptr)
        << VerifyPlan(plan.data).message();
  }
}

// An all-to-all may not write where it reads. The sender of a send may not write at all.
TEST(RefusalTest, AnAllToAllInPlaceIsRefused) {
  MeshPlan plan(2);
  const uint32_t point =
      plan.AddSyncPoint(CollectiveOp::kAllToAll, DType::kF32, 16, 0, plan.AllDevices(), "swap");
  for (uint32_t d = 0; d < 2; ++d) {
    const uint32_t in = plan.Add(BufferKind::kInput, d, "in" + std::to_string(d), 4),
                   work = plan.Add(BufferKind::kTemporary, d, "work" + std::to_string(d), 4),
                   out = plan.Add(BufferKind::kOutput, d, "out" + std::to_string(d), 4);
    plan.Copy(d, {in, 0}, {work, 0}, 16);
    plan.Start(d, point, {work, 0}, {work, 0});
    plan.Wait(d, point);
    plan.Copy(d, {work, 0}, {out, 0}, 16);
  }
  plan.Finish();
  ASSERT_TRUE(VerifyPlan(plan.data).ok()) << VerifyPlan(plan.data).message();
  EXPECT_NE(std::strstr(CheckPlan(plan.data).message(), "and not element by element"), nullptr)
      << CheckPlan(plan.data).message();
}

// Sent data must have been written, and data that no device sends cannot be read.
TEST(RefusalTest, WhatIsReceivedIsWrittenByTheSendAlone) {
  for (const bool read_before : {false, true}) {
    MeshPlan plan(2);
    const uint32_t point =
        plan.AddSyncPoint(CollectiveOp::kSend, DType::kF32, 16, 0, plan.AllDevices(), "send");
    const uint32_t in = plan.Add(BufferKind::kInput, 0, "in", 4),
                   to = plan.Add(BufferKind::kTemporary, 1, "to", 4),
                   out = plan.Add(BufferKind::kOutput, 1, "out", 4);
    plan.Start(0, point, {in, 0}, {in, 0});
    plan.Wait(0, point);
    if (read_before) plan.Copy(1, {to, 0}, {out, 0}, 16);
    plan.Start(1, point, {to, 0}, {to, 0});
    plan.Wait(1, point);
    if (!read_before) plan.Copy(1, {to, 0}, {out, 0}, 16);
    plan.Finish();
    ASSERT_TRUE(VerifyPlan(plan.data).ok()) << VerifyPlan(plan.data).message();
    const Status status = CheckPlan(plan.data);
    EXPECT_EQ(status.ok(), !read_before) << status.message();
  }
}

// A wrong certificate of a single rank is found.
TEST(RefusalTest, EachRanksCertificateIsCompared) {
  for (uint32_t device = 0; device < 4; ++device) {
    MeshPlan plan(4);
    Build(&plan);
    Edit(plan.program().certificates, device) ^= 1;
    ExpectNamed(VerifyPlan(plan.data), device, 0, 0, "order certificate");
  }
}

// Device 1's first step comes after device 0's last, but a collective needs both at the same time.
TEST(RefusalTest, DevicesThatWouldWaitForOneAnotherForEverAreRefused) {
  MeshPlan plan(2);
  const uint32_t point =
      plan.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, 16, 0, plan.AllDevices(), "sum");
  uint32_t in[2], out[2], copy[2];
  for (uint32_t d = 0; d < 2; ++d) {
    in[d] = plan.Add(BufferKind::kInput, d, "in" + std::to_string(d), 4);
    out[d] = plan.Add(BufferKind::kOutput, d, "out" + std::to_string(d), 4);
    copy[d] = plan.Add(BufferKind::kOutput, d, "copy" + std::to_string(d), 4);
  }
  plan.Start(0, point, {in[0], 0}, {out[0], 0});
  plan.Wait(0, point);
  const uint32_t last = plan.Copy(0, {in[0], 0}, {copy[0], 0}, 16);
  const uint32_t first = plan.Copy(1, {in[1], 0}, {copy[1], 0}, 16);
  plan.Start(1, point, {in[1], 0}, {out[1], 0});
  plan.Wait(1, point);
  plan.step(first).after = plan.arena.Copy(std::vector<uint32_t>{last});
  plan.Finish();
  const Status status = VerifyPlan(plan.data);
  EXPECT_NE(std::strstr(status.message(),
                        "device 0, sync point 0 (Collective \"sum\"): step 1: it would wait for ever"),
            nullptr)
      << status.message();
  Edit(plan.program().steps, first).after = {};
  EXPECT_TRUE(VerifyPlan(plan.data).ok()) << VerifyPlan(plan.data).message();
}

}  // namespace
}  // namespace rondo
