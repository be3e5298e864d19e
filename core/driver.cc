// What a driver need not implement. Defined here and not in the header, so that not every file that includes
// it holds copies.
#include "core/driver.h"

#include <cstdio>

namespace rondo {

Result<uint64_t> Device::ReserveStaging(Stream*, const CopyNeeds&) { return uint64_t{0}; }
Status Device::Call(Module*, uint32_t op, Span<const DeviceAddress>, Stream*, uint32_t step) {
  return Status::Error(Code::kUnsupported, "step %u: this driver runs no custom ops, but calls op %u", step,
                       op);
}
Result<Event*> Device::CreateTimedEvent() {
  return Status::Error(Code::kUnsupported, "this driver has no timed events");
}
Result<double> Device::ElapsedMicroseconds(Event*, Event*) {
  return Status::Error(Code::kUnsupported, "this driver has no timed events");
}
Status Device::SetAddresses(Graph*, uint32_t node, Span<const DeviceAddress>) {
  return Status::Error(Code::kUnsupported,
                       "node %u: this driver's graphs keep the addresses they were recorded with", node);
}
Status Device::StartCollective(const CollectivePart& part, DeviceAddress, DeviceAddress, Stream*) {
  return Status::Error(Code::kUnsupported, "step %u: this driver has no collectives", part.step);
}
Status Device::WaitCollective(const CollectivePart& part, Stream*) {
  return Status::Error(Code::kUnsupported, "step %u: this driver has no collectives", part.step);
}
Status NotFinite(const PlanData& plan, uint32_t step, uint32_t assertion, double value) {
  char note[64];
  snprintf(note, sizeof note, "assertion %u of step %u of \"", assertion, step);
  std::string_view of = "a value";
  for (const std::string_view source : plan.sources) {
    const size_t end = source.rfind(note, 0) == 0 ? source.find("\": ") : source.npos;
    if (end == source.npos) continue;
    of = source.substr(end + 3);
    break;
  }
  const char* const met = value != value ? "NaN" : value > 0 ? "infinity" : "-infinity";
  return Status::Error(Code::kOutOfRange, "%.*s holds %s, against the annotation assert=finite",
                       static_cast<int>(of.size()), of.data(), met);
}
Result<Collectives*> Driver::CreateCollectives(const Program& program, Span<const uint32_t>) {
  return Status::Error(Code::kUnsupported, "%zu sync points: this driver has no collectives",
                       program.sync_points.size());
}
Status Driver::Progress(Collectives*, uint32_t, CollectiveProgress*) { return Status::Ok(); }
Status Driver::Agree(const Status& so_far, std::string_view, uint64_t, StopSignal*) { return so_far; }

}  // namespace rondo
