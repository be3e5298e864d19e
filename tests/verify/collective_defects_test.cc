// The lifecycle verifier's findings for plans with collectives, sound or with planted defects, with the
// checker off.
#include "core/collective.h"
#include "tests/collectives/mesh_plan.h"
#include "tests/verify/chain.h"

namespace rondo {
namespace {

// Makes each collective of `mesh` that reads a temporary write into that temporary, at its rank's place.
void PutCollectivesInPlace(MeshPlan* mesh) {
  for (const Step& step : mesh->program().steps) {
    if (step.kind != StepKind::kCollectiveStart) continue;
    const uint32_t from = step.bindings[0].buffer, to = step.bindings[1].buffer;
    const auto buffer = [&](uint32_t b) -> Buffer& { return const_cast<Buffer&>(mesh->data.buffers[b]); };
    const SyncPoint& point = mesh->program().sync_points[step.sync_point];
    const int64_t distance = InPlaceDistance(point, RankOf(point, step.device));
    if (distance > 0) {
      buffer(from).offset = buffer(to).offset + static_cast<uint64_t>(distance);
    } else {
      buffer(to).offset = buffer(from).offset + static_cast<uint64_t>(-distance);
    }
    buffer(to).aliases = from;
  }
}

// out = op(in * 2) * 3 on every device, with 96 floats in each share.
void MakeShares(MeshPlan* mesh, CollectiveOp op) {
  constexpr int64_t kShare = 96;
  const int64_t all = kShare * mesh->devices();
  const int64_t before = op == CollectiveOp::kReduceScatter ? all : kShare,
                after = op == CollectiveOp::kAllGather ? all : kShare;
  const uint32_t first = mesh->ScaleKernel(before, 2), second = mesh->ScaleKernel(after, 3),
                 point = mesh->AddSyncPoint(op, DType::kF32, kShare * 4, 0, mesh->AllDevices(), "shares");
  for (uint32_t d = 0; d < mesh->devices(); ++d) {
    const std::string rank = std::to_string(d);
    const uint32_t in = mesh->Add(BufferKind::kInput, d, "in" + rank, before),
                   from = mesh->Add(BufferKind::kTemporary, d, "from" + rank, before),
                   to = mesh->Add(BufferKind::kTemporary, d, "to" + rank, after),
                   out = mesh->Add(BufferKind::kOutput, d, "out" + rank, after);
    mesh->Launch(d, first, {in, from});
    mesh->Start(d, point, {from, 0}, {to, 0});
    mesh->Wait(d, point);
    mesh->Launch(d, second, {to, out});
  }
  mesh->Finish();
}

// On each device two all-reduces read one temporary at the same time, on streams 0 and 1; then their results
// are added.
void MakeTwoReaders(MeshPlan* mesh) {
  constexpr int64_t kElements = 96;
  const uint32_t scale = mesh->ScaleKernel(kElements, 2), add = mesh->AddKernel(kElements);
  uint32_t points[2];
  for (uint32_t i = 0; i < 2; ++i)
    points[i] = mesh->AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, kElements * 4, i,
                                   mesh->AllDevices(), "reader" + std::to_string(i));
  for (uint32_t d = 0; d < mesh->devices(); ++d) {
    const auto buffer = [&](BufferKind kind, const char* name) {
      return mesh->Add(kind, d, name + std::to_string(d), kElements);
    };
    const uint32_t in = buffer(BufferKind::kInput, "in"), from = buffer(BufferKind::kTemporary, "from"),
                   a = buffer(BufferKind::kTemporary, "a"), b = buffer(BufferKind::kTemporary, "b"),
                   out = buffer(BufferKind::kOutput, "out");
    const uint32_t made = mesh->Launch(d, scale, {in, from});
    mesh->Start(d, points[0], {from, 0}, {a, 0}, 0);
    mesh->Order(made, mesh->Start(d, points[1], {from, 0}, {b, 0}, 1));
    mesh->Wait(d, points[0], 0);
    const uint32_t last = mesh->Wait(d, points[1], 1);
    mesh->Order(last, mesh->Launch(d, add, {a, b, out}, 0));
  }
  mesh->Finish();
}

TEST(Undamaged, DevicesWithCollectivesHaveNoFindings) {
  MeshPlan mesh(3);
  MakeLayers(&mesh, 4, 96);
  EXPECT_EQ(FindingsOf(mesh.data), "");
}

TEST(Undamaged, CollectivesInPlaceHaveNoFindings) {
  MeshPlan layers(3);
  MakeLayers(&layers, 4, 96);
  PutCollectivesInPlace(&layers);
  ASSERT_TRUE(CheckPlan(layers.data).ok()) << CheckPlan(layers.data).message();
  EXPECT_EQ(FindingsOf(layers.data), "");
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    MeshPlan shares(2);
    MakeShares(&shares, op);
    PutCollectivesInPlace(&shares);
    ASSERT_TRUE(CheckPlan(shares.data).ok()) << CheckPlan(shares.data).message();
    EXPECT_EQ(FindingsOf(shares.data), "");
  }
}

TEST(PlanDefect, BufferOfACollectiveInFlight) {
  MeshPlan mesh(2);
  MakeLayers(&mesh, 2, 96);
  for (uint32_t s = 0; s < mesh.program().steps.size(); ++s) {
    const Step& step = mesh.program().steps[s];
    if (step.kind != StepKind::kCollectiveStart) continue;
    // The next launch writes to the same memory as the collective.
    for (uint32_t t = s + 1; t < mesh.program().steps.size(); ++t) {
      const Step& later = mesh.program().steps[t];
      if (later.kind != StepKind::kLaunch || later.device != step.device) continue;
      const uint32_t to = later.bindings.back().buffer;
      const_cast<Buffer&>(mesh.data.buffers[to]).offset = mesh.data.buffers[step.bindings[1].buffer].offset;
      EXPECT_FINDS(
          FindingsOf(mesh.data),
          "that keeps the step behind the end of step 4; found none, and step 1 writes buffer \"s0_0\"");
      return;
    }
  }
}

// Launches of stream 1 come between start and wait of a collective on stream 0.
TEST(PlanDefect, BufferOfACollectiveInPlaceInFlight) {
  for (const size_t operand : {0, 2}) {  // 0: the launch reads the buffer; 2: it writes it
    MeshPlan mesh(2);
    MakeLayers(&mesh, 2, 96);
    PutCollectivesInPlace(&mesh);
    const Span<const Step> steps = mesh.program().steps;
    uint32_t start = 0;
    while (steps[start].kind != StepKind::kCollectiveStart) ++start;
    uint32_t other = start;
    while (steps[other].kind != StepKind::kLaunch || steps[other].device != steps[start].device) ++other;
    ASSERT_NE(steps[other].stream, steps[start].stream);
    const uint32_t in_flight = steps[start].bindings[1].buffer;
    if (operand == 0) {
      const_cast<Binding&>(steps[other].bindings[0]).buffer = in_flight;
    } else {
      const uint32_t to = steps[other].bindings[2].buffer;
      const_cast<Buffer&>(mesh.data.buffers[to]).offset = mesh.data.buffers[in_flight].offset;
    }
    const std::string text = FindingsOf(mesh.data);
    EXPECT_FINDS(text, "unordered: ");
    EXPECT_FINDS(text, "that keeps the step behind the end of step ");
    if (operand == 2) EXPECT_FINDS(text, "overlap: ");
  }
}

// Memory that another collective still reads is not reused.
TEST(PlanDefect, CollectiveInPlaceOfWhatAnotherReads) {
  MeshPlan mesh(2);
  MakeTwoReaders(&mesh);
  const std::string sound = FindingsOf(mesh.data);
  EXPECT_EQ(sound, "");
  for (const Step& step : mesh.program().steps) {
    if (step.kind != StepKind::kCollectiveStart || step.stream != 1) continue;
    Buffer& to = const_cast<Buffer&>(mesh.data.buffers[step.bindings[1].buffer]);
    to.offset = mesh.data.buffers[step.bindings[0].buffer].offset;
    to.aliases = step.bindings[0].buffer;
  }
  EXPECT_FALSE(CheckPlan(mesh.data).ok());
  const std::string text = FindingsOf(mesh.data);
  EXPECT_FINDS(text, "overlap: ");
  EXPECT_FINDS(text, "unordered: ");
}

}  // namespace
}  // namespace rondo
