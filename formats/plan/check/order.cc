#include "formats/plan/check/order.h"

#include "formats/plan/verifier.h"

namespace rondo::check {
namespace {

constexpr uint32_t kMaxUsedStreams = 256;

Status OutOfMemory() {
  return Status::Error(Code::kOutOfMemory, "no host memory to check the order of the steps");
}

}  // namespace

Status StepOrder::NumberStreams(const Program& program, Arena& scratch) {
  const size_t steps = program.steps.size();
  Span<uint32_t> number = scratch.New<uint32_t>(size_t{kMaxDevices} * kMaxStreams);
  Span<uint32_t> length = scratch.New<uint32_t>(kMaxUsedStreams);
  stream_ = scratch.New<uint32_t>(steps);
  position_ = scratch.New<uint32_t>(steps);
  if (number.data() == nullptr || length.data() == nullptr || stream_.data() == nullptr ||
      position_.data() == nullptr) {
    return OutOfMemory();
  }
  for (size_t s = 0; s < steps; ++s) {
    uint32_t& slot = number[program.steps[s].device * kMaxStreams + program.steps[s].stream];  // 0: not seen
    if (slot == 0) {
      if (streams_ == kMaxUsedStreams) {
        return Status::Error(Code::kUnsupported, "more than %u streams are in use", kMaxUsedStreams);
      }
      slot = ++streams_;
    }
    stream_[s] = slot - 1;
    position_[s] = length[slot - 1]++;
  }
  return Status::Ok();
}

Status StepOrder::PairCollectives(const Program& program, Arena& scratch) {
  const size_t steps = program.steps.size();
  end_ = scratch.New<uint32_t>(steps);
  if (end_.data() == nullptr) return OutOfMemory();
  for (uint32_t s = 0; s < steps; ++s) end_[s] = s;
  if (program.sync_points.empty()) return Status::Ok();
  has_collectives_ = true;
  // Starts in flight, one per device and sync point, in the order of each device's sync points.
  Span<uint32_t> open = scratch.New<uint32_t>(program.sync_points.size());
  if (open.data() == nullptr) return OutOfMemory();
  for (uint32_t device = 0; device < kMaxDevices; ++device) {
    for (uint32_t s = 0; s < steps; ++s) {
      const Step& step = program.steps[s];
      if (step.device != device) continue;
      if (step.kind == StepKind::kCollectiveStart) open[step.sync_point] = s;
      if (step.kind == StepKind::kCollectiveWait) end_[open[step.sync_point]] = s;
    }
  }
  return Status::Ok();
}

void StepOrder::Join(uint32_t step, uint32_t earlier) {
  uint32_t* to = &clocks_[size_t{step} * streams_];
  const uint32_t* from = &clocks_[size_t{earlier} * streams_];
  for (uint32_t c = 0; c < streams_; ++c) to[c] = to[c] < from[c] ? from[c] : to[c];
}

Status StepOrder::Build(const Program& program, Arena& scratch) {
  RONDO_RETURN_IF_ERROR(NumberStreams(program, scratch));
  RONDO_RETURN_IF_ERROR(PairCollectives(program, scratch));
  if (total()) return Status::Ok();
  const uint32_t steps = static_cast<uint32_t>(program.steps.size());
  clocks_ = scratch.New<uint32_t>(size_t{steps} * streams_);
  Span<uint32_t> recorder = scratch.New<uint32_t>(program.num_events);
  Span<uint32_t> start = scratch.New<uint32_t>(steps);  // of the collective that the step waits for
  uint32_t last[kMaxUsedStreams];                       // last step on each stream
  if (clocks_.data() == nullptr || recorder.data() == nullptr || start.data() == nullptr)
    return OutOfMemory();
  for (uint32_t& s : start) s = kNone;
  for (uint32_t& s : last) s = kNone;
  for (uint32_t s = 0; s < steps; ++s) {
    if (end_[s] != s) start[end_[s]] = s;
  }
  for (uint32_t s = 0; s < steps; ++s) {
    const Step& step = program.steps[s];
    if (last[stream_[s]] != kNone) Join(s, last[stream_[s]]);
    if (start[s] != kNone) Join(s, start[s]);
    for (uint32_t event : step.waits) Join(s, recorder[event]);
    for (uint32_t after : step.after) Join(s, after);
    clocks_[size_t{s} * streams_ + stream_[s]] = position_[s] + 1;
    last[stream_[s]] = s;
    if (step.records != kNone) recorder[step.records] = s;
  }
  return Status::Ok();
}

}  // namespace rondo::check
