// Collectives on which the ranks differ, or whose results are read too early.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "formats/plan/certificate.h"
#include "tests/defects/pick.h"

namespace rondo::defects {
namespace {

SyncPoint* PickPoint(Patient& p) {
  std::vector<SyncPoint*> found;
  for (const Program& program : p.plan.programs) {
    for (const SyncPoint& point : program.sync_points) found.push_back(&Edit(point));
  }
  return found.empty() ? nullptr : found[p.random.Below(found.size())];
}

void Certify(Patient& p) {
  for (const Program& program : p.plan.programs) {
    for (uint32_t d = 0; d < program.certificates.size(); ++d)
      Edit(program.certificates[d]) = OrderCertificate(program, d);
  }
}

bool ShortCollective(Patient& p) {
  SyncPoint* point = PickPoint(p);
  if (point == nullptr || point->bytes < 8) return false;
  point->bytes /= 2;
  Certify(p);
  return true;
}

bool OtherCollective(Patient& p) {
  SyncPoint* point = PickPoint(p);
  if (point == nullptr) return false;
  point->op = static_cast<CollectiveOp>((static_cast<int>(point->op) + 1 + p.random.Below(3)) % 4);
  Certify(p);
  return true;
}

bool FewerParticipants(Patient& p) {
  SyncPoint* point = PickPoint(p);
  if (point == nullptr || point->participants.size() < 2) return false;
  const bool removed = Remove(p, &point->participants, p.random.Below(point->participants.size()));
  Certify(p);
  return removed;
}

bool IsWait(const Step& s) { return s.kind == StepKind::kCollectiveWait; }

// Moves the wait one step later, after a step that needs the result.
bool LateWait(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t i) {
    return IsWait(s) && i + 1 < program.steps.size() && program.steps[i + 1].device == s.device;
  });
  if (at.step == nullptr) return false;
  std::swap(*at.step, Edit(at.program->steps[at.index + 1]));
  return true;
}

bool SwapCollectives(Patient& p) {
  Place a = PickStep(
      p, [](const Program&, const Step& s, uint32_t) { return s.kind == StepKind::kCollectiveStart; });
  if (a.step == nullptr) return false;
  Place b = PickStep(p, [&](const Program& program, const Step& s, uint32_t) {
    return &program == a.program && s.kind == StepKind::kCollectiveStart && s.device == a.step->device &&
           s.sync_point != a.step->sync_point;
  });
  if (b.step == nullptr) return false;
  std::swap(a.step->sync_point, b.step->sync_point);
  Certify(p);
  return true;
}

constexpr DefectKind kKinds[] = {
    {"collective: half the bytes", ShortCollective},
    {"collective: another one", OtherCollective},
    {"collective: a participant less", FewerParticipants},
    {"collective: waited for a step later", LateWait},
    {"collective: two exchanged on one device", SwapCollectives},
};

}  // namespace

Span<const DefectKind> CollectiveDefects() { return Span<const DefectKind>(kKinds, std::size(kKinds)); }

}  // namespace rondo::defects
