#include "runtime/watchdog.h"

#include "runtime/session_impl.h"
#include "runtime/text.h"

namespace rondo {
namespace {

constexpr uint64_t kLongestInterval = 50'000'000, kShortestInterval = 1'000'000;
// A device that waits for devices of other processes lets their watchdogs report first.
constexpr uint64_t kLooksForOthers = 20;

// Where a device stands. Devices that others wait for come before devices that wait.
struct Stop {
  uint32_t step = kNone;
  uint32_t sync_point = kNone;
  bool waits = false, last = false;

  bool Before(const Stop& other) const {
    return waits != other.waits ? !waits : sync_point < other.sync_point;
  }
};

Stop StopOf(const Program& program, uint32_t device, const CollectiveProgress& at) {
  Stop stop;
  stop.waits = at.ended < at.started;
  stop.step = StartOf(program, device, stop.waits ? at.ended : at.started);
  if (stop.step == kNone && at.started != 0) {
    stop.last = true;
    stop.step = StartOf(program, device, at.started - 1);
  }
  if (stop.step != kNone) stop.sync_point = program.steps[stop.step].sync_point;
  return stop;
}

// The participants include those that it waits for.
Span<const uint32_t> ParticipantsOf(const Program& program, const Stop& stop) {
  return stop.waits ? program.sync_points[stop.sync_point].participants : Span<const uint32_t>();
}

}  // namespace

uint32_t StartOf(const Program& program, uint32_t device, uint32_t n) {
  for (uint32_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.device == device && step.kind == StepKind::kCollectiveStart && n-- == 0) return i;
  }
  return kNone;
}

Watchdog::Watchdog(SessionImpl* session) : session_(session), interval_(session->watchdog_ns / 4) {
  if (interval_ > kLongestInterval) interval_ = kLongestInterval;
  if (interval_ < kShortestInterval) interval_ = kShortestInterval;
}

Status Watchdog::Look(uint64_t now) {
  const DeviceRun& run = session_->device_run;
  const ArmedProgram& armed = session_->programs[run.program];
  if (armed.collectives == nullptr) return Status::Ok();
  uint64_t noted = 1;
  for (uint32_t d = 0; d < session_->devices.size(); ++d) {
    if (!Has(run.left, d)) ++noted;
    if (!Has(armed.devices, d)) continue;
    const Status status = session_->runtime_impl->driver->Progress(armed.collectives, d, &last_[d]);
    if (!status.ok()) return Ends(status, now);
    noted += uint64_t{last_[d].started} + last_[d].ended;
  }
  if (noted != noted_ || run.arm || run.queued != 0) {
    noted_ = noted;
    since_ = now;
  }
  return now - since_ < session_->watchdog_ns ? Status::Ok() : Ends(Status(), now);
}

Status Watchdog::Ends(const Status& why, uint64_t now) const {
  const DeviceRun& run = session_->device_run;
  const Program& program = session_->plan.data().programs[run.program];
  Stop first;
  first.waits = true;
  for (uint32_t d = 0; d < session_->devices.size(); ++d) {
    if (!Has(run.left, d)) continue;
    const Stop stop = StopOf(program, d, last_[d]);
    if (stop.Before(first)) first = stop;
  }
  if (!why.ok()) return AtStep(session_, why, run.program, first.step);
  if (first.waits && ~session_->runtime_impl->local != 0 &&
      now - since_ < session_->watchdog_ns + kLooksForOthers * interval_)
    return Status::Ok();
  const char* how = first.step == kNone ? "has not ended"
                    : first.last        ? "has passed this sync point, its last, and has not ended"
                    : !first.waits      ? "has not come to this sync point"
                                        : "waits here for another";
  Text text;
  text.Add("no progress for %u ms: the device %s", static_cast<uint32_t>((now - since_) / 1000000), how);
  const char* before = " (of ";
  for (uint32_t d : ParticipantsOf(program, first)) {
    if (Has(session_->runtime_impl->local, d)) continue;
    text.Add("%s%u", before, d);
    before = ", ";
  }
  if (*before == ',') text.Add(")");
  return AtStep(session_, Status::Error(Code::kAborted, "%s", text.get()), run.program, first.step);
}

uint64_t Watchdog::Later(uint64_t now) const {
  return session_->watchdog_ns < ~now ? now + session_->watchdog_ns : ~uint64_t{0};
}

Status Watchdog::Lost(const Status& why) const {
  const uint64_t left = session_->device_run.left;
  return Status::Error(Code::kAborted, "device %d does not end and is lost, replace the process: %s",
                       __builtin_ctzll(left), why.message())
      .FromNode(why.source_node());
}

}  // namespace rondo
