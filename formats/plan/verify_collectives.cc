// Checks what several devices must agree on: the order of their collectives, and which device waits for
// which.
#include <cinttypes>

#include "formats/plan/certificate.h"
#include "formats/plan/verifier.h"
#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

class CollectiveVerifier {
 public:
  CollectiveVerifier(const PlanData& plan, const Program& program, Arena& scratch)
      : plan_(plan),
        program_(program),
        scratch_(scratch),
        devices_(static_cast<uint32_t>(plan.requirements.devices.size())) {}

  Status Run() {
    const size_t points = program_.sync_points.size();
    if (program_.certificates.size() != (points == 0 ? 0 : devices_)) {
      return RONDO_BROKEN("%zu order certificates for %u devices and %zu sync points",
                          program_.certificates.size(), devices_, points);
    }
    members_ = scratch_.New<uint64_t>(points);
    start_ = scratch_.New<uint32_t>(points);
    waited_by_ = scratch_.New<uint64_t>(points);
    if (members_.data() == nullptr || start_.data() == nullptr || waited_by_.data() == nullptr) {
      return OutOfMemory("the sync points");
    }
    for (size_t i = 0; i < points; ++i) {
      for (uint32_t p : program_.sync_points[i].participants) members_[i] |= uint64_t{1} << p;
    }
    for (uint32_t d = 0; d < devices_ && points != 0; ++d) RONDO_RETURN_IF_ERROR(OrderOn(d));
    RONDO_RETURN_IF_ERROR(Complete());
    for (uint32_t d = 0; d < devices_ && points != 0; ++d) RONDO_RETURN_IF_ERROR(Certified(d));
    return Ends();
  }

 private:
  Status OrderOn(uint32_t device);
  Status OneStart(uint32_t step, uint32_t* previous);
  Status OneWait(uint32_t step, uint32_t partition, uint32_t plain);
  Status Complete();
  Status Certified(uint32_t device);
  Status Ends();
  bool Advance(uint32_t device);
  bool MayLaunch(uint32_t device);
  uint32_t NextOf(uint32_t device, uint32_t partition) const;
  Status Stuck(uint32_t device) const;
  Status At(const Status& status, uint32_t device, uint32_t sync_point) const;

  bool TakesPart(uint32_t device, uint32_t sync_point) const {
    return (members_[sync_point] >> device & 1) != 0;
  }

  const PlanData& plan_;
  const Program& program_;
  Arena& scratch_;
  const uint32_t devices_;
  Span<uint64_t> members_;    // of each sync point, one bit per device
  Span<uint32_t> start_;      // of each sync point on the current device: its step, while in flight
  Span<uint64_t> waited_by_;  // devices that have started and waited for each sync point, one bit each
  // Used by Ends.
  Span<uint32_t> partition_of_;  // of each step
  Span<uint32_t> recorder_;      // of each event
  Span<uint64_t> started_by_;    // of each sync point
  Span<bool> complete_;          // of each partition
  // The progress of a device: its partition and the next step in it. Before the first step, `seen_step` and
  // `seen` count the waits and `after`s that are known to be done.
  struct Place {
    uint32_t partition = 0, step = 0;
    uint32_t seen_step = 0;
    size_t seen = 0;
  };
  Place places_[kMaxDevices];
};

Status CollectiveVerifier::At(const Status& status, uint32_t device, uint32_t sync_point) const {
  const uint32_t index = program_.sync_points[sync_point].source;
  if (index >= plan_.sources.size()) return status.At("device %u, sync point %u", device, sync_point);
  const std::string_view source = plan_.sources[index];
  return status
      .At("device %u, sync point %u (%.*s)", device, sync_point, static_cast<int>(source.size()),
          source.data())
      .FromNode(source);
}

Status CollectiveVerifier::OneStart(uint32_t s, uint32_t* previous) {
  const Step& step = program_.steps[s];
  const uint32_t point = step.sync_point;
  if (!TakesPart(step.device, point)) {
    return RONDO_BROKEN("step %u starts it, but the device is no participant", s);
  }
  if (*previous != kNone && point <= *previous) {
    return RONDO_BROKEN("step %u starts it after sync point %u: collectives must keep their order", s,
                        *previous);
  }
  start_[point] = s;
  *previous = point;
  return Status::Ok();
}

// No partition may end between start and wait, unless it contains only collectives. `plain`: the device's
// last step so far that is not a collective.
Status CollectiveVerifier::OneWait(uint32_t s, uint32_t partition, uint32_t plain) {
  const Step& step = program_.steps[s];
  const uint32_t start = start_[step.sync_point];
  if (start == kNone) return RONDO_BROKEN("step %u waits for it, but it is not in flight", s);
  start_[step.sync_point] = kNone;
  waited_by_[step.sync_point] |= uint64_t{1} << step.device;
  if (start >= program_.partitions[partition].first_step || plain == kNone || plain < start)
    return Status::Ok();
  return RONDO_BROKEN("step %u starts it and step %u of another partition waits for it", start, s);
}

// Checks the starts and waits of one device: each sync point at most once, in order.
Status CollectiveVerifier::OrderOn(uint32_t device) {
  for (uint32_t& s : start_) s = kNone;
  uint32_t previous = kNone, partition = 0, plain = kNone;
  for (uint32_t s = 0; s < program_.steps.size(); ++s) {
    const Step& step = program_.steps[s];
    while (s >= program_.partitions[partition].first_step + program_.partitions[partition].num_steps)
      ++partition;
    if (step.device != device) continue;
    if (step.sync_point == kNone) {
      plain = s;
      continue;
    }
    const bool start = step.kind == StepKind::kCollectiveStart;
    Status status = start ? OneStart(s, &previous) : OneWait(s, partition, plain);
    if (!status.ok()) return At(status, device, step.sync_point);
  }
  for (uint32_t i = 0; i < start_.size(); ++i) {
    if (start_[i] != kNone)
      return At(RONDO_BROKEN("step %u starts it, but the device never waits for it", start_[i]), device, i);
  }
  return Status::Ok();
}

Status CollectiveVerifier::Complete() {
  for (uint32_t i = 0; i < program_.sync_points.size(); ++i) {
    for (uint32_t device : program_.sync_points[i].participants) {
      if ((waited_by_[i] >> device & 1) != 0) continue;
      return At(RONDO_BROKEN("the device takes part in it, but never starts it"), device, i);
    }
  }
  return Status::Ok();
}

Status CollectiveVerifier::Certified(uint32_t device) {
  const uint64_t certificate = OrderCertificate(program_, device);
  if (certificate == program_.certificates[device]) return Status::Ok();
  const Status status =
      RONDO_BROKEN("its order certificate is %016" PRIx64 ", its collectives give %016" PRIx64,
                   program_.certificates[device], certificate);
  for (uint32_t i = 0; i < program_.sync_points.size(); ++i) {
    if (TakesPart(device, i)) return At(status, device, i);  // the first one that the certificate covers
  }
  return status.At("device %u", device);
}

// Whether the partitions of other devices named by the steps of this device's next partition are complete.
// Over all calls, each name is looked at once.
bool CollectiveVerifier::MayLaunch(uint32_t device) {
  Place& place = places_[device];
  const Partition& p = program_.partitions[place.partition];
  for (; place.seen_step < p.num_steps; ++place.seen_step, place.seen = 0) {
    const Step& step = program_.steps[p.first_step + place.seen_step];
    for (; place.seen < step.waits.size() + step.after.size(); ++place.seen) {
      const uint32_t other = place.seen < step.waits.size() ? recorder_[step.waits[place.seen]]
                                                            : step.after[place.seen - step.waits.size()];
      if (program_.steps[other].device != device && !complete_[partition_of_[other]]) return false;
    }
  }
  return true;
}

uint32_t CollectiveVerifier::NextOf(uint32_t device, uint32_t partition) const {
  while (partition < program_.partitions.size() && program_.partitions[partition].device != device)
    ++partition;
  return partition;
}

// Advances a device as far as possible: a wait needs every participant's start. False if it could not move.
bool CollectiveVerifier::Advance(uint32_t device) {
  Place& place = places_[device];
  bool moved = false;
  while (place.partition < program_.partitions.size() && MayLaunch(device)) {
    const Partition& p = program_.partitions[place.partition];
    for (; place.step < p.num_steps; ++place.step, moved = true) {
      const Step& step = program_.steps[p.first_step + place.step];
      if (step.sync_point == kNone) continue;
      uint64_t& started = started_by_[step.sync_point];
      if (step.kind == StepKind::kCollectiveStart) started |= uint64_t{1} << device;
      if (step.kind == StepKind::kCollectiveWait && started != members_[step.sync_point]) return moved;
    }
    complete_[place.partition] = true;
    const uint32_t next = NextOf(device, place.partition + 1);
    place = Place();
    place.partition = next;
  }
  return moved;
}

Status CollectiveVerifier::Stuck(uint32_t device) const {
  const Place& place = places_[device];
  const uint32_t s =
      program_.partitions[place.partition].first_step + (place.step != 0 ? place.step : place.seen_step);
  const Status status = RONDO_BROKEN("it would wait for ever: the devices wait for one another");
  const Step& step = program_.steps[s];
  if (step.sync_point != kNone) return At(status.At("step %u", s), device, step.sync_point);
  return status.At("device %u, step %u", device, s)
      .FromNode(step.source < plan_.sources.size() ? plan_.sources[step.source] : "");
}

// Advances all devices repeatedly: all of them must reach the end.
Status CollectiveVerifier::Ends() {
  if (devices_ == 1) return Status::Ok();
  const uint32_t partitions = static_cast<uint32_t>(program_.partitions.size());
  partition_of_ = scratch_.New<uint32_t>(program_.steps.size());
  recorder_ = scratch_.New<uint32_t>(program_.num_events);
  started_by_ = scratch_.New<uint64_t>(program_.sync_points.size());
  complete_ = scratch_.New<bool>(partitions);
  if (partition_of_.data() == nullptr || recorder_.data() == nullptr || started_by_.data() == nullptr ||
      complete_.data() == nullptr) {
    return OutOfMemory("the order of the devices");
  }
  for (uint32_t p = 0; p < partitions; ++p) {
    const Partition& partition = program_.partitions[p];
    for (uint32_t k = 0; k < partition.num_steps; ++k) partition_of_[partition.first_step + k] = p;
  }
  for (uint32_t s = 0; s < program_.steps.size(); ++s) {
    if (program_.steps[s].records != kNone) recorder_[program_.steps[s].records] = s;
  }
  for (uint32_t d = 0; d < devices_; ++d) places_[d].partition = NextOf(d, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t d = 0; d < devices_; ++d) moved |= Advance(d);
  }
  for (uint32_t d = 0; d < devices_; ++d) {
    if (places_[d].partition < partitions) return Stuck(d);
  }
  return Status::Ok();
}

}  // namespace

Status VerifyCollectives(const PlanData& plan, const Program& program, Arena& scratch) {
  return CollectiveVerifier(plan, program, scratch).Run();
}

}  // namespace rondo::plan
