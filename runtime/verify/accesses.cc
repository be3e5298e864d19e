#include "runtime/verify/accesses.h"

#include <algorithm>

#include "core/collective.h"

namespace rondo::verify {
namespace {

check::Footprint Dense(uint64_t bytes, bool reads, bool writes) {
  check::Footprint print;
  print.box = check::DenseBox(0, static_cast<int64_t>(bytes));
  print.reads = reads;
  print.writes = writes;
  return print;
}

}  // namespace

ProgramAccesses::ProgramAccesses(const PlanData& plan, uint32_t program)
    : plan_(plan), index_(program), steps_(plan.programs[program].steps.size()) {
  const Program& of = plan.programs[program];
  const size_t devices = plan.requirements.devices.size();
  waits_.assign(of.sync_points.size() * devices, kNone);
  for (uint32_t s = 0; s < of.steps.size(); ++s) {
    const Step& step = of.steps[s];
    if (step.kind == StepKind::kCollectiveWait) waits_[step.sync_point * devices + step.device] = s;
  }
  for (uint32_t s = 0; s < of.steps.size(); ++s) Collect(s);
  Derive();
}

void ProgramAccesses::Add(uint32_t step, uint32_t slot, check::Footprint print) {
  const Step& of = program().steps[step];
  const Binding& binding = of.bindings[slot];
  StepAccess access;
  access.buffer = binding.buffer;
  access.begin = access.end = step;
  if (of.kind == StepKind::kCollectiveStart) {
    const uint32_t wait = waits_[of.sync_point * plan_.requirements.devices.size() + of.device];
    if (wait != kNone) access.end = wait;
  }
  access.slot = slot;
  access.print = print;
  access.base = static_cast<int64_t>(plan_.buffers[binding.buffer].offset + binding.offset);
  access.stride = binding.stride;
  steps_[step].push_back(access);
}

void ProgramAccesses::Collect(uint32_t s) {
  const Step& step = program().steps[s];
  switch (step.kind) {
    case StepKind::kLaunch:
      for (const check::Footprint& print : check::Footprints(plan_.kernels[step.kernel], scratch_))
        Add(s, print.param, print);
      return;
    case StepKind::kCopy:
      Add(s, 0, Dense(step.bytes, true, false));
      Add(s, 1, Dense(step.bytes, false, true));
      return;
    case StepKind::kCollectiveStart: {
      const SyncPoint& point = program().sync_points[step.sync_point];
      const uint64_t reads = BytesRead(point, RankOf(point, step.device));
      const uint64_t writes = BytesWritten(point, RankOf(point, step.device));
      if (reads != 0) Add(s, 0, Dense(reads, true, false));
      if (writes != 0) Add(s, 1, Dense(writes, false, true));
      return;
    }
    case StepKind::kCustom: {
      const CustomOp& op = plan_.custom_ops[step.custom];
      for (uint32_t i = 0; i < op.arguments.size(); ++i) {
        if (op.arguments[i].absent) continue;
        check::Footprint print = Dense(BytesOf(op.arguments[i]), !op.Writes(i), op.Writes(i));
        print.operand = static_cast<uint16_t>(i);
        Add(s, i, print);
      }
      return;
    }
    case StepKind::kCollectiveWait: return;
  }
}

void ProgramAccesses::Derive() {
  const size_t count = plan_.buffers.size();
  lifetimes_.assign(count, Lifetime());
  local_.assign(count, false);
  takes_over_.assign(count, false);
  heirs_.assign(count, {});
  std::vector<std::vector<const StepAccess*>> by_buffer(count);
  for (const std::vector<StepAccess>& step : steps_) {
    for (const StepAccess& access : step) by_buffer[access.buffer].push_back(&access);
  }
  for (uint32_t b = 0; b < count; ++b) {
    const Buffer& buffer = plan_.buffers[b];
    const std::vector<const StepAccess*>& accesses = by_buffer[b];
    if (buffer.program != index_) continue;
    if (accesses.empty()) {  // an input that is returned unchanged is live all the time
      if (buffer.kind == BufferKind::kUpdatedInput && !steps_.empty())
        lifetimes_[b] = {0, static_cast<uint32_t>(steps_.size() - 1)};
      continue;
    }
    const Loop* only = LoopOf(program(), accesses[0]->begin);
    const bool inside = buffer.kind == BufferKind::kTemporary || buffer.kind == BufferKind::kWorkspace;
    local_[b] = only != nullptr && inside &&
                std::all_of(accesses.begin(), accesses.end(), [&](const StepAccess* access) {
                  return LoopOf(program(), access->begin) == only &&
                         (access->begin != accesses[0]->begin || !access->print.reads);
                });
    Lifetime& life = lifetimes_[b];
    for (const StepAccess* access : accesses) {
      const Loop* loop = local_[b] ? nullptr : LoopOf(program(), access->begin);
      const uint32_t first = loop == nullptr ? access->begin : loop->first_step;
      const uint32_t last = loop == nullptr ? access->end : loop->end() - 1;
      life = life.first > life.last ? Lifetime{first, last}
                                    : Lifetime{std::min(life.first, first), std::max(life.last, last)};
    }
    if (IsInput(buffer.kind)) life.first = 0;
    if (IsOutput(buffer.kind)) life.last = static_cast<uint32_t>(steps_.size() - 1);
  }
  for (uint32_t b = 0; b < count; ++b) {
    const uint32_t other = plan_.buffers[b].aliases;
    if (other == kNone || plan_.buffers[b].program != index_ || local_[b] != local_[other]) continue;
    const Lifetime &mine = lifetimes_[b], &its = lifetimes_[other];
    if (mine.first > mine.last || its.first > its.last) continue;
    if (its.last != mine.first && !EndsInCollective(by_buffer[other], mine.first)) continue;
    takes_over_[b] = true;
    heirs_[other].push_back(b);
  }
}

// Whether all accesses end in the collective at `start`. A collective in place begins with its start and
// holds its input until its wait; all other uses of this input must have ended before.
bool ProgramAccesses::EndsInCollective(const std::vector<const StepAccess*>& accesses, uint32_t start) const {
  if (program().steps[start].kind != StepKind::kCollectiveStart || LoopOf(program(), start) != nullptr)
    return false;
  bool read = false;
  for (const StepAccess* access : accesses) {
    const Loop* loop = LoopOf(program(), access->begin);
    const uint32_t end = loop == nullptr ? access->end : loop->end() - 1;
    read |= access->begin == start;
    if (access->begin != start && end >= start) return false;
  }
  return read;
}

bool ProgramAccesses::Inherits(uint32_t buffer, uint32_t other) const {
  // The plan verifier has checked that chains of aliases end.
  for (uint32_t b = buffer; b != kNone; b = plan_.buffers[b].aliases) {
    if (b == other) return true;
    if (!takes_over_[b]) return false;
  }
  return false;
}

}  // namespace rondo::verify
