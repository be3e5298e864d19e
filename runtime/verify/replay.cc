#include "runtime/verify/replay.h"

#include <algorithm>

namespace rondo::verify {
namespace {

constexpr int kMostChanges = 64;  // changes reported from one scan

ByteRange RangeOf(const Buffer& buffer) { return {buffer.offset, buffer.offset + buffer.bytes}; }

}  // namespace

StepwiseReplay::StepwiseReplay(Session* session, const std::vector<ProgramAccesses>& accesses,
                               const Poison& poison, const LeftBytes* before, uint64_t stride,
                               FindingList* findings)
    : session_(session),
      plan_(session->plan().data()),
      accesses_(accesses),
      poison_(poison),
      before_(before),
      stride_(stride),
      findings_(findings),
      work_(plan_) {}

// The largest power of two, at most 8, that divides every offset and size in the region.
uint64_t StepwiseReplay::GranuleOf(uint32_t device, MemoryPart part) const {
  uint64_t all = 8;
  const auto inside = [&](uint32_t buffer) {
    return plan_.buffers[buffer].device == device && PartOf(plan_.buffers[buffer].kind) == part;
  };
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    if (inside(b)) all |= plan_.buffers[b].offset | plan_.buffers[b].bytes;
  }
  for (const ProgramAccesses& program : accesses_) {
    for (uint32_t s = 0; s < program.program().steps.size(); ++s) {
      for (const StepAccess& access : program.of(s)) {
        if (!inside(access.buffer)) continue;
        const check::Box& box = access.print.box;
        all |= static_cast<uint64_t>(access.base) | static_cast<uint64_t>(access.stride) |
               static_cast<uint64_t>(box.base) | static_cast<uint64_t>(box.end);
        const Part* of = access.print.part;
        if (of != nullptr) all |= static_cast<uint64_t>(ByteSize(of->operands[access.print.operand].dtype));
        for (int d = 1; d < box.rank; ++d) all |= static_cast<uint64_t>(box.dims[d].stride);
      }
    }
  }
  return all & (~all + 1);
}

Status StepwiseReplay::Start(bool host_memory) {
  const size_t devices = plan_.requirements.devices.size();
  io_.reserve(devices);
  shadows_.reserve(2 * devices);
  for (uint32_t d = 0; d < devices; ++d) {
    RONDO_ASSIGN_OR_RETURN(DeviceIo io, DeviceIo::Create(session_->device(d), host_memory));
    io_.push_back(std::move(io));
    shadows_.emplace_back(&io_[d], session_->arena(d), GranuleOf(d, MemoryPart::kArena));
    shadows_.emplace_back(&io_[d], session_->state(d), GranuleOf(d, MemoryPart::kState));
    RONDO_RETURN_IF_ERROR(BeginState(d));
  }
  return Status::Ok();
}

// State belongs to its buffers; the bytes between them are poisoned.
Status StepwiseReplay::BeginState(uint32_t device) {
  ShadowRegion& region = shadows_[device * 2 + 1];
  if (region.bytes() == 0) return Status::Ok();
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    if (plan_.buffers[b].kind == BufferKind::kState && plan_.buffers[b].device == device)
      region.SetOwner(RangeOf(plan_.buffers[b]), b);
  }
  for (uint64_t at = 0; at < region.bytes(); at += region.granule()) {
    if (region.owner(at) != kNone) continue;
    uint64_t end = at;
    while (end < region.bytes() && region.owner(end) == kNone) end += region.granule();
    RONDO_RETURN_IF_ERROR(region.PoisonRange({at, std::min(end, region.bytes())}, poison_));
    at = end;
  }
  return Status::Ok();
}

Status StepwiseReplay::Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs) {
  program_ = program;
  begun_ = false;
  turn_ = 0;
  rounds_.assign(plan_.programs[program].steps.size(), 0);
  writing_.clear();
  for (uint32_t d = 0; d < plan_.requirements.devices.size(); ++d)
    RONDO_RETURN_IF_ERROR(shadows_[d * 2].PoisonAll(poison_));
  RunOptions options;
  options.stepwise = true;
  options.user = this;
  options.on_step = [](void* user, uint32_t, uint32_t step, StepPhase phase) {
    return static_cast<StepwiseReplay*>(user)->OnStep(step, phase);
  };
  RONDO_RETURN_IF_ERROR(session_->Run(program, inputs, outputs, options));
  return End();
}

Status StepwiseReplay::OnStep(uint32_t step, StepPhase phase) {
  if (!begun_) RONDO_RETURN_IF_ERROR(Begin());
  begun_ = true;
  return phase == StepPhase::kBefore ? BeforeStep(step) : AfterStep(step);
}

Finding StepwiseReplay::FindingAt(LifecycleRule rule, uint32_t step, uint32_t buffer) const {
  Finding finding;
  finding.rule = rule;
  finding.step = step;
  finding.buffer = buffer;
  if (step < rounds_.size()) finding.round = rounds_[step];
  finding.device = buffer != kNone         ? plan_.buffers[buffer].device
                   : step < rounds_.size() ? plan_.programs[program_].steps[step].device
                                           : 0;
  return finding;
}

bool StepwiseReplay::IsAlive(uint32_t buffer, uint32_t step) const {
  const Buffer& b = plan_.buffers[buffer];
  return b.kind == BufferKind::kState || (b.first_step <= step && step <= b.last_step);
}

// At the beginning only inputs are valid, with the values that the run copied in.
Status StepwiseReplay::Begin() {
  const auto take = [&](uint32_t b) {
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.bytes == 0) return Status::Ok();
    ShadowRegion& region = RegionOf(b);
    const uint32_t other = region.owner(buffer.offset);
    if (IsInput(buffer.kind) && other != kNone && other != b &&
        accesses().lifetimes()[b].first <= accesses().lifetimes()[b].last &&
        accesses().lifetimes()[other].first <= accesses().lifetimes()[other].last) {
      Finding finding = FindingAt(LifecycleRule::kOverlap, kNone, b);
      finding.expected = "memory of its own";
      finding.found = BufferText(plan_, other) + ", written before the run as well, in the same bytes";
      findings_->Add(finding, program_);
    }
    region.SetOwner(RangeOf(buffer), b);
    return region.Accept(RangeOf(buffer));
  };
  const Program& program = plan_.programs[program_];
  for (const Port& port : program.inputs) {
    RONDO_RETURN_IF_ERROR(take(port.buffer));
    for (uint32_t replica : port.replicas) RONDO_RETURN_IF_ERROR(take(replica));
  }
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    if (plan_.buffers[b].kind == BufferKind::kState)
      RONDO_RETURN_IF_ERROR(RegionOf(b).Accept(RangeOf(plan_.buffers[b])));
  }
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Lifetime& life = accesses().lifetimes()[b];
    const bool unread = life.first > life.last;
    if (plan_.buffers[b].program == program_ && IsInput(plan_.buffers[b].kind) && unread)
      RONDO_RETURN_IF_ERROR(Release(b));
  }
  for (uint32_t d = 0; d < plan_.requirements.devices.size(); ++d) RONDO_RETURN_IF_ERROR(Scan(d, kNone));
  return Status::Ok();
}

Status StepwiseReplay::BeforeStep(uint32_t step) {
  for (const StepAccess& access : accesses().of(step)) {
    if (access.print.reads) CheckRead(step, access);
  }
  return CollectWrites(step);
}

// Checks everything that the contract says the step reads, whatever an index may be.
void StepwiseReplay::CheckRead(uint32_t step, const StepAccess& access) {
  if (PartOf(plan_.buffers[access.buffer].kind) == MemoryPart::kWeights) return;
  Work work = work_;
  const int64_t base = access.At(rounds_[step]);
  check::ForPieces(access.print, work, [&](const check::Box& piece) {
    if (piece.empty() || !piece.exact) return true;
    bool good = true;
    ForRuns(check::Shifted(piece, base),
            [&](ByteRange range) { good = good && CheckReadRange(step, access.buffer, range); });
    return good;
  });
}

// Returns false if it found something.
bool StepwiseReplay::CheckReadRange(uint32_t step, uint32_t buffer, ByteRange range) {
  ShadowRegion& region = RegionOf(buffer);
  for (uint64_t at = range.first; at < range.end; at += region.granule()) {
    const uint32_t owner = region.owner(at);
    if (owner == buffer || (owner != kNone && accesses().Inherits(buffer, owner))) continue;
    uint64_t end = at;
    while (end < range.end && region.owner(end) == owner) end += region.granule();
    Finding finding =
        FindingAt(owner == kNone ? LifecycleRule::kReadUnwritten : LifecycleRule::kReadForeign, step, buffer);
    finding.offset = at - plan_.buffers[buffer].offset;
    finding.bytes = end - at;
    finding.expected = "what was written to the buffer, to be read";
    finding.found = owner == kNone ? "memory that nothing has written since the buffer began"
                                   : "what " + BufferText(plan_, owner) + " holds there";
    findings_->Add(finding, program_);
    return false;
  }
  return true;
}

Status StepwiseReplay::AfterStep(uint32_t step) {
  const auto ended = writing_.find(step);
  if (ended != writing_.end()) {
    for (const Write& write : ended->second) RONDO_RETURN_IF_ERROR(FinishWrite(step, write));
    writing_.erase(ended);
  }
  const uint32_t device = plan_.programs[program_].steps[step].device;
  if (++turn_ % stride_ == 0) RONDO_RETURN_IF_ERROR(Scan(device, step));
  RONDO_RETURN_IF_ERROR(EndBuffers(step));
  ++rounds_[step];
  if (told_) told_(turn_);
  return Status::Ok();
}

// Poisons the buffers that end with `step` by the plan. Outputs stay valid for the caller.
Status StepwiseReplay::EndBuffers(uint32_t step) {
  const Loop* loop = LoopOf(plan_.programs[program_], step);
  const bool again = loop != nullptr && rounds_[step] + 1 < loop->trips;
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.program != program_ || buffer.last_step != step || buffer.first_step > buffer.last_step ||
        IsOutput(buffer.kind) || buffer.bytes == 0 || (again && !accesses().local(b)))
      continue;
    RONDO_RETURN_IF_ERROR(Release(b));
  }
  return Status::Ok();
}

Status StepwiseReplay::Release(uint32_t b) {
  ShadowRegion& region = RegionOf(b);
  const ByteRange all = RangeOf(plan_.buffers[b]);
  const auto heir_of = [&](uint64_t at) {
    for (uint32_t heir : accesses().heirs(b)) {
      const ByteRange range = RangeOf(plan_.buffers[heir]);
      if (range.first <= at && at < range.end) return heir;
    }
    return kNone;
  };
  for (uint64_t at = all.first; at < all.end;) {
    const auto owned = [&](uint64_t byte) {
      const uint32_t owner = region.owner(byte);
      return owner == kNone || owner == b || accesses().Inherits(b, owner);
    };
    const uint32_t heir = heir_of(at);
    uint64_t end = at;
    const bool mine = owned(at);
    while (end < all.end && owned(end) == mine && heir_of(end) == heir) end += region.granule();
    end = std::min(end, all.end);
    if (mine && heir == kNone) {
      region.SetOwner({at, end}, kNone);
      RONDO_RETURN_IF_ERROR(region.PoisonRange({at, end}, poison_));
    } else if (mine) {
      for (uint64_t byte = at; byte < end; byte += region.granule()) {
        if (region.owner(byte) != kNone) region.SetOwner({byte, byte + 1}, heir);
      }
    }
    at = end;
  }
  return Status::Ok();
}

// Scans all memory of the device, except what a collective in flight writes.
Status StepwiseReplay::Scan(uint32_t device, uint32_t step) {
  for (const MemoryPart part : {MemoryPart::kArena, MemoryPart::kState}) {
    std::vector<ByteRange> in_flight;
    for (const auto& [end, writes] : writing_) {
      for (const Write& write : writes) {
        const Buffer& buffer = plan_.buffers[write.access->buffer];
        if (buffer.device == device && PartOf(buffer.kind) == part)
          in_flight.insert(in_flight.end(), write.ranges.begin(), write.ranges.end());
      }
    }
    std::sort(in_flight.begin(), in_flight.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
    ShadowRegion& region = shadows_[device * 2 + (part == MemoryPart::kState)];
    int told = 0;  // limits the report: there may be many places
    RONDO_RETURN_IF_ERROR(
        region.Scan(in_flight, [&](const ByteRange& range, const uint8_t* was, const uint8_t* is) {
          if (++told <= kMostChanges) FoundChange({device, part}, step, range, was, is);
        }));
  }
  return GuardedDriver::CheckGuards(session_->device(device), program_, step);
}

std::string StepwiseReplay::WhatLiesAt(Place place, uint32_t step, uint64_t byte, uint32_t* buffer) const {
  const ShadowRegion& region = shadows_[place.device * 2 + (place.part == MemoryPart::kState)];
  *buffer = region.owner(byte);
  if (*buffer != kNone) return "its contents kept";
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& of = plan_.buffers[b];
    const ByteRange range = RangeOf(of);
    if (of.device != place.device || PartOf(of.kind) != place.part || of.first_step > of.last_step ||
        (of.program != program_ && of.program != kNone) || byte < range.first || byte >= range.end)
      continue;
    const bool alive = step != kNone && IsAlive(b, step);
    if (!alive && *buffer != kNone && of.last_step < plan_.buffers[*buffer].last_step) continue;
    *buffer = b;
    if (alive) break;
  }
  if (*buffer == kNone) return "the canary between buffers kept";
  const Buffer& of = plan_.buffers[*buffer];
  if (step != kNone && IsAlive(*buffer, step)) return "the poison of what is not written yet";
  return step != kNone && of.last_step < step
             ? "the poison of a buffer that ended with step " + std::to_string(of.last_step)
             : "the poison of a buffer that begins with step " + std::to_string(of.first_step);
}

void StepwiseReplay::FoundChange(Place place, uint32_t step, ByteRange range, const uint8_t* was,
                                 const uint8_t* is) {
  uint32_t buffer = kNone;
  const std::string expected = WhatLiesAt(place, step, range.first, &buffer);
  Finding finding =
      FindingAt(place.part == MemoryPart::kState ? LifecycleRule::kStateChanged : LifecycleRule::kStrayWrite,
                step, buffer);
  const size_t count = range.end - range.first;
  finding.device = place.device;
  finding.offset = range.first - (buffer == kNone ? 0 : plan_.buffers[buffer].offset);
  finding.bytes = count;
  finding.expected = expected + " (" + HexText({was, count}) + ")";
  if (buffer == kNone) {
    finding.expected += place.part == MemoryPart::kState ? ", counted from the start of the state"
                                                         : ", counted from the start of the arena";
  }
  finding.found = HexText({is, count}) + ", which ";
  finding.found += step == kNone  ? "was written before the first step"
                   : stride_ == 1 ? "the step wrote: no operand of it reaches there"
                                  : "one of the last " + std::to_string(stride_) + " steps wrote";
  findings_->Add(finding, program_);
}

// After the last step, the caller reads all outputs.
Status StepwiseReplay::End() {
  const uint32_t steps = static_cast<uint32_t>(rounds_.size());
  if (!begun_) RONDO_RETURN_IF_ERROR(Begin());
  for (uint32_t d = 0; d < plan_.requirements.devices.size(); ++d)
    RONDO_RETURN_IF_ERROR(Scan(d, steps == 0 ? kNone : steps - 1));
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.program == program_ && IsOutput(buffer.kind) && buffer.bytes > 0)
      CheckReadRange(kNone, b, RangeOf(buffer));
  }
  return Status::Ok();
}

uint64_t ShadowBytes(const PlanData& plan) {
  uint64_t bytes = 0;
  for (const DeviceBytes& device : plan.requirements.devices) bytes += device.arena + device.state;
  return bytes * 5;
}

}  // namespace rondo::verify
