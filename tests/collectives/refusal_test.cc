// Plans in which one rank's collectives are not what the others expect are refused before anything is
// launched, by a sentence that names the device, the sync point and the source node. With certificates made
// anew, so that the rules themselves find it, and with the old ones.
#include <cstring>
#include <functional>
#include <string>

#include "formats/plan/certificate.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "tests/collectives/mesh.h"
#include "tests/plan/sample_plan.h"

namespace rondo {
namespace {

constexpr uint32_t kPoints = 3;

// On each of 4 devices: y = x, then three all-reduces, one after the other, each of f32 [4].
void Build(MeshPlan* plan) {
  for (uint32_t i = 0; i < kPoints; ++i) {
    plan->AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, 16, 0, plan->AllDevices(),
                       "n" + std::to_string(i));
  }
  for (uint32_t d = 0; d < 4; ++d) {
    const std::string number = std::to_string(d);
    uint32_t now = plan->Add(BufferKind::kInput, d, "in" + number, 4);
    for (uint32_t i = 0; i < kPoints; ++i) {
      const BufferKind kind = i + 1 == kPoints ? BufferKind::kOutput : BufferKind::kTemporary;
      const uint32_t next = plan->Add(kind, d, "t" + number + "_" + std::to_string(i), 4);
      plan->Start(d, i, {now, 0}, {next, 0});
      plan->Wait(d, i);
      now = next;
    }
  }
  plan->Finish();
}

Step& StepAt(MeshPlan& plan, uint32_t device, uint32_t i) {
  return Edit(plan.program().steps, device * 2 * kPoints + i);
}

// Gives the last sync point's steps on one device a SyncPoint of their own, made from the last, after it.
void Replace(MeshPlan& plan, uint32_t device, const std::function<void(SyncPoint*)>& change) {
  std::vector<SyncPoint> points(plan.program().sync_points.begin(), plan.program().sync_points.end());
  points.push_back(points.back());
  change(&points.back());
  plan.program().sync_points = ListOf(plan.arena, points);
  for (uint32_t i : {4u, 5u}) StepAt(plan, device, i).sync_point = kPoints;
}

struct Damage {
  const char* name;
  void (*apply)(MeshPlan& plan, uint32_t device);
  uint32_t sync_point;  // named
  uint32_t source;
  const char* text;  // said
};

const Damage kDamages[] = {
    {"swapped",
     [](MeshPlan& plan, uint32_t device) {
       for (uint32_t i : {0u, 1u}) std::swap(StepAt(plan, device, i), StepAt(plan, device, i + 2));
     },
     0, 0, "collectives must keep their order"},
    {"dropped",
     [](MeshPlan& plan, uint32_t device) {
       // The two steps become copies, so that all others keep their numbers.
       for (uint32_t i : {2u, 3u}) {
         Step& step = StepAt(plan, device, i);
         step.kind = StepKind::kCopy;
         step.bytes = 16;
         step.sync_point = kNone;
         step.bindings = StepAt(plan, device, 2).bindings;
       }
     },
     1, 1, "the device takes part in it, but never starts it"},
    {"made smaller",
     [](MeshPlan& plan, uint32_t device) {
       Replace(plan, device, [](SyncPoint* point) { point->bytes = 8; });
     },
     2, 2, "the device takes part in it, but never starts it"},
    {"made larger",
     [](MeshPlan& plan, uint32_t device) {
       Replace(plan, device, [](SyncPoint* point) { point->bytes = 32; });
     },
     3, 2, "touches bytes [0, 32)"},
    {"in a smaller buffer",
     [](MeshPlan& plan, uint32_t device) {
       Edit(plan.data.buffers, StepAt(plan, device, 2).bindings[1].buffer).bytes = 12;
       Edit(plan.data.buffers, StepAt(plan, device, 2).bindings[1].buffer).shape = {3};
     },
     1, 1, "touches bytes [0, 16)"},
    {"retyped",
     [](MeshPlan& plan, uint32_t device) {
       Replace(plan, device, [](SyncPoint* point) { point->dtype = DType::kI32; });
     },
     3, 2, "of f32, but the collective is of i32"},
    {"in a buffer of another type",
     [](MeshPlan& plan, uint32_t device) {
       Edit(plan.data.buffers, StepAt(plan, device, 2).bindings[1].buffer).dtype = DType::kU32;
     },
     1, 1, "of u32, but the collective is of f32"},
    {"another op",
     [](MeshPlan& plan, uint32_t device) {
       Replace(plan, device, [](SyncPoint* point) { point->op = CollectiveOp::kBroadcast; });
     },
     2, 2, "the device takes part in it, but never starts it"},
};

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

// Changed on all ranks at once, a sync point is what it is; then only the certificate tells.
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

// What a send and an all-to-all must be.
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

// An all-to-all may not write where it reads; of a send, who sends may not write anything.
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

// What is sent must have been written, and what nobody sends cannot be read.
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

// One rank's certificate alone.
TEST(RefusalTest, EachRanksCertificateIsCompared) {
  for (uint32_t device = 0; device < 4; ++device) {
    MeshPlan plan(4);
    Build(&plan);
    Edit(plan.program().certificates, device) ^= 1;
    ExpectNamed(VerifyPlan(plan.data), device, 0, 0, "order certificate");
  }
}

// Device 1's first step comes after device 0's last, but the collective between them needs both.
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
