// Collectives of several groups of devices get one order, or are refused in a sentence.
#include "compiler/codegen/sync_points.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rondo {
namespace {

struct Part {
  std::vector<uint32_t> group;
  std::string node;
  int64_t bytes = 16;
};

// A program whose only ops are collectives.
LoweredProgram Only(const std::vector<Part>& parts) {
  LoweredProgram program;
  program.name = "main";
  for (const Part& part : parts) {
    LoweredOp op;
    op.kind = LoweredKind::kCollectiveStart;
    op.collective = static_cast<int>(program.collectives.size());
    op.sources = {part.node};
    program.ops.push_back(op);
    const CollectiveOp kind = part.group.size() == 2 ? CollectiveOp::kSend : CollectiveOp::kAllReduce;
    program.collectives.push_back({kind, DType::kF32, part.bytes, part.group});
  }
  return program;
}

Result<PlannedSyncPoints> Merged(const std::vector<LoweredProgram>& programs) {
  std::vector<DeviceProgram> devices;
  for (const LoweredProgram& program : programs)
    devices.push_back({static_cast<uint32_t>(devices.size()), &program});
  return SyncPointsOf(devices);
}

TEST(SyncPoints, GroupsHaveCommunicatorsOfTheirOwnInOneOrder) {
  // Three stages, one a device: device 1 receives from 0 and sends to 2.
  const auto merged = Merged({Only({{{0, 1}, "a"}, {{0, 2}, "b"}, {{}, "all"}}),
                              Only({{{0, 1}, "a"}, {{1, 2}, "c"}, {{}, "all"}}),
                              Only({{{0, 2}, "b"}, {{1, 2}, "c"}, {{}, "all"}})});
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  ASSERT_EQ(merged->points.size(), 4u);
  std::string order;
  for (const PlannedSyncPoint& point : merged->points) order += point.sources[0] + " ";
  EXPECT_EQ(order, "a b c all ");
  EXPECT_EQ(merged->points[3].collective.group, (std::vector<uint32_t>{0, 1, 2}));
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(merged->points[i].communicator, i);
  EXPECT_EQ(merged->numbers[0], (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(merged->numbers[1], (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(merged->numbers[2], (std::vector<uint32_t>{1, 2, 3}));
}

void ExpectRefused(const std::vector<LoweredProgram>& programs, const std::string& says) {
  const auto merged = Merged(programs);
  EXPECT_EQ(merged.status().code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(merged.status().message()).find(says), std::string::npos)
      << merged.status().message();
}

TEST(SyncPoints, DevicesThatWouldWaitForOneAnotherAreRefused) {
  ExpectRefused(
      {Only({{{0, 1}, "a"}, {{0, 2}, "b"}}), Only({{{1, 2}, "c"}, {{0, 1}, "a"}}),
       Only({{{0, 2}, "b"}, {{1, 2}, "c"}})},
      "the devices would wait for one another: device 0 comes to send of 16 bytes of f32 (a), device 1 to "
      "send of 16 bytes of f32 (c)");
}

TEST(SyncPoints, DevicesThatDisagreeAreNamed) {
  ExpectRefused(
      {Only({{{0, 1}, "a"}}), Only({{{0, 1}, "a", 32}})},
      "devices disagree about sync point 0: it is send of 16 bytes of f32 (a) on device 0, send of 32 "
      "bytes of f32 (a) on device 1");
  ExpectRefused({Only({{{0, 1}, "a"}, {{0, 1}, "b"}}), Only({{{0, 1}, "b"}, {{0, 1}, "a"}})},
                "devices disagree about sync point 0");
  ExpectRefused(
      {Only({{{0, 1}, "a"}}), Only({})},
      "device 0 has 1 collectives, device 1 has 0: sync point 0, send of 16 bytes of f32 (a), is on "
      "device 0 only");
  ExpectRefused({Only({}), Only({{{0, 1}, "a"}})}, "is on device 1 only");
  ExpectRefused({Only({{{0, 7}, "a"}})}, "is of a device that has no part in it");
}

}  // namespace
}  // namespace rondo
