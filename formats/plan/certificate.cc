#include "formats/plan/certificate.h"

#include "formats/plan/format.h"

namespace rondo {

uint64_t OrderCertificate(const Program& program, uint32_t device) {
  uint64_t digest = HashBytes("order", 5);
  for (const Step& step : program.steps) {
    if (step.kind != StepKind::kCollectiveStart || step.device != device) continue;
    if (step.sync_point >= program.sync_points.size()) continue;
    const SyncPoint& point = program.sync_points[step.sync_point];
    const uint64_t fields[] = {step.sync_point, static_cast<uint64_t>(point.op),
                               static_cast<uint64_t>(point.dtype), point.bytes, point.communicator};
    digest = HashBytes(fields, sizeof(fields), digest);
    digest = HashBytes(point.participants.data(), point.participants.size() * sizeof(uint32_t), digest);
  }
  return digest;
}

}  // namespace rondo
