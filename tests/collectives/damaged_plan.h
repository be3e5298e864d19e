// Plans in which one rank's collectives differ from those that the others expect, for tests that such plans
// are refused.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/collectives/mesh_plan.h"
#include "tests/plan/sample_plan.h"

namespace rondo::damaged {

inline constexpr uint32_t kPoints = 3;

// On each of 4 devices: y = x, then three all-reduces, one after the other, each of f32 [4].
inline void Build(MeshPlan* plan) {
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

inline Step& StepAt(MeshPlan& plan, uint32_t device, uint32_t i) {
  return Edit(plan.program().steps, device * 2 * kPoints + i);
}

// Gives the last sync point's steps on one device their own SyncPoint: a changed copy, added after the last.
inline void Replace(MeshPlan& plan, uint32_t device, const std::function<void(SyncPoint*)>& change) {
  std::vector<SyncPoint> points(plan.program().sync_points.begin(), plan.program().sync_points.end());
  points.push_back(points.back());
  change(&points.back());
  plan.program().sync_points = ListOf(plan.arena, points);
  for (uint32_t i : {4u, 5u}) StepAt(plan, device, i).sync_point = kPoints;
}

struct Damage {
  const char* name;
  void (*apply)(MeshPlan& plan, uint32_t device);
  uint32_t sync_point;  // the error names it
  uint32_t source;
  const char* text;  // the error contains it
};

inline const Damage kDamages[] = {
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

}  // namespace rondo::damaged
