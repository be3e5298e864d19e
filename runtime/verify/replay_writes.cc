// The writes of steps: whether they stay within what they may write, and write all that they declare; indices
// come from memory.
#include <algorithm>

#include "core/scalar.h"
#include "formats/plan/elements.h"
#include "runtime/verify/replay.h"

namespace rondo::verify {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 24;  // of one write whose places are looked up one by one

bool HasIndirects(const StepAccess& access) {
  const Part* part = access.print.part;
  return part != nullptr && !part->operands[access.print.operand].indirects.empty();
}

}  // namespace

// The elements that a write through indices touches, by the indices now in memory.
Status StepwiseReplay::TouchedElements(const StepAccess& access, std::vector<ByteRange>* ranges) {
  const Part& part = *access.print.part;
  const Operand& operand = part.operands[access.print.operand];
  const Step& step = accesses().program().steps[access.begin];
  std::map<uint16_t, std::vector<uint8_t>> indices;  // by parameter: from element 0 on
  for (const Indirect& indirect : operand.indirects) {
    const Operand& by = part.operands[indirect.operand];
    ElementRange range;
    if (!Reach(part, by, &range) || range.empty() || range.first < 0) continue;
    const uint64_t bytes = static_cast<uint64_t>(range.end * ByteSize(by.dtype));
    const Binding& binding = step.bindings[by.param];
    std::vector<uint8_t>& memory = indices[by.param];
    if (memory.size() >= bytes) continue;
    memory.resize(bytes);
    const int64_t moved =
        static_cast<int64_t>(binding.offset) + binding.stride * int64_t{rounds_[access.begin]};
    RONDO_RETURN_IF_ERROR(io_[step.device].Read(
        session_->BufferAddress(binding.buffer) + static_cast<uint64_t>(moved), bytes, memory.data()));
  }
  const auto load = [&](const Operand& by, int64_t element) {
    return scalar::Load<int64_t>(by.dtype, indices[by.param].data(), element);
  };
  const int64_t size = ByteSize(operand.dtype), base = access.At(rounds_[access.begin]);
  ForEachElement(part, access.print.operand, load, [&](int64_t element, const int64_t*) {
    const auto first = static_cast<uint64_t>(base + element * size);
    const uint64_t end = first + static_cast<uint64_t>(size);
    if (!ranges->empty() && ranges->back().end == first) {
      ranges->back().end = end;
    } else {
      ranges->push_back({first, end});
    }
  });
  return Status::Ok();
}

// Whether a condition of the part is false, by memory's present contents.
Result<bool> StepwiseReplay::IsSkipped(uint32_t step, const Part& part) {
  const Step& of = accesses().program().steps[step];
  for (const uint16_t when : part.when) {
    const Operand& operand = part.operands[when & ~kUnless];
    const Binding& binding = of.bindings[operand.param];
    const int64_t at =
        static_cast<int64_t>(binding.offset) + binding.stride * int64_t{rounds_[step]} + operand.offset;
    uint8_t value = 0;
    RONDO_RETURN_IF_ERROR(
        io_[of.device].Read(session_->BufferAddress(binding.buffer) + static_cast<uint64_t>(at), 1, &value));
    if ((value != 0) == ((when & kUnless) != 0)) return true;
  }
  return false;
}

// Records the writes of `step` under the step that ends them.
Status StepwiseReplay::CollectWrites(uint32_t step) {
  for (const StepAccess& access : accesses().of(step)) {
    if (!access.print.writes) continue;
    const BufferKind kind = plan_.buffers[access.buffer].kind;
    if (kind == BufferKind::kConstant || kind == BufferKind::kInput) {
      Finding finding = FindingAt(LifecycleRule::kNotWritable, step, access.buffer);
      finding.expected = std::string("no step to write it, for it is ") + Name(kind);
      finding.found = "a step that does";
      findings_->Add(finding, program_);
    }
    if (kind == BufferKind::kConstant) continue;
    Write write{&access, true, false, {}};
    if (access.print.part != nullptr) {
      RONDO_ASSIGN_OR_RETURN(write.skipped, IsSkipped(step, *access.print.part));
    }
    const int64_t base = access.At(rounds_[step]);
    const bool workspace =
        access.print.part == nullptr && accesses().program().steps[step].kind == StepKind::kLaunch;
    Work work = work_;
    bool exact = true;
    if (HasIndirects(access)) {
      uint64_t points = 1;
      for (int64_t extent : access.print.part->loops) points *= static_cast<uint64_t>(extent);
      write.sure = false;
      exact = points <= kMostElements;
      if (exact) RONDO_RETURN_IF_ERROR(TouchedElements(access, &write.ranges));
    } else {
      exact = check::ForPieces(access.print, work, [&](const check::Box& piece) {
        if (piece.empty()) return true;
        if (!piece.exact) return false;
        ForRuns(check::Shifted(piece, base), [&](ByteRange range) { write.ranges.push_back(range); });
        return true;
      });
    }
    if (!exact && !access.print.box.empty()) {  // somewhere in this range
      write.ranges = {{static_cast<uint64_t>(base + access.print.box.base),
                       static_cast<uint64_t>(base + access.print.box.end)}};
    }
    write.sure &= exact && !workspace;
    CheckOverwrite(step, write);
    writing_[access.end].push_back(std::move(write));
  }
  return Status::Ok();
}

void StepwiseReplay::CheckOverwrite(uint32_t step, const Write& write) {
  const uint32_t buffer = write.access->buffer;
  const ShadowRegion& region = RegionOf(buffer);
  for (const ByteRange& range : write.ranges) {
    for (uint64_t at = range.first; at < range.end; at += region.granule()) {
      const uint32_t owner = region.owner(at);
      if (owner == kNone || owner == buffer || accesses().Inherits(buffer, owner) || !IsAlive(owner, step))
        continue;
      Finding finding = FindingAt(LifecycleRule::kOverlap, step, owner);
      finding.offset = at - plan_.buffers[owner].offset;
      finding.bytes = std::min(range.end, plan_.buffers[owner].offset + plan_.buffers[owner].bytes) - at;
      finding.expected = "its contents kept until step " + std::to_string(plan_.buffers[owner].last_step);
      finding.found = "the step writes " + BufferText(plan_, buffer) + " over it";
      findings_->Add(finding, program_);
      return;
    }
  }
}

// Takes over the written bytes, and checks that they were written.
Status StepwiseReplay::FinishWrite(uint32_t step, const Write& write) {
  ShadowRegion& region = RegionOf(write.access->buffer);
  for (const ByteRange& range : write.ranges) {
    RONDO_RETURN_IF_ERROR(region.Accept(range));
    if (!write.sure) continue;
    if (!write.skipped) CheckWritten(step, *write.access, range);
    region.SetOwner(range, write.access->buffer);
  }
  return Status::Ok();
}

void StepwiseReplay::CheckWritten(uint32_t step, const StepAccess& access, ByteRange range) {
  const ShadowRegion& region = RegionOf(access.buffer);
  const auto key = std::make_tuple(program_, step, rounds_[step]);
  for (uint64_t at = range.first; at < range.end; ++at) {
    if (region.owner(at) != kNone || region.mirror()[at] != poison_.At(at)) continue;
    std::vector<ByteRange>& left = left_[key];
    if (!left.empty() && left.back().end == at) {
      ++left.back().end;
    } else {
      left.push_back({at, at + 1});
    }
    if (!LeftBefore(step, at)) continue;
    Finding finding = FindingAt(LifecycleRule::kNotWritten, step, access.buffer);
    finding.offset = at - plan_.buffers[access.buffer].offset;
    finding.bytes = 1;
    finding.expected = "the step to write it";
    finding.found = "poison " + HexText({region.mirror() + at, 1}) + ", as before the step";
    findings_->Add(finding, program_);
    return;
  }
}

// Whether the pass with the other poison also left the byte unwritten.
bool StepwiseReplay::LeftBefore(uint32_t step, uint64_t byte) const {
  if (before_ == nullptr) return false;
  const auto before = before_->find(std::make_tuple(program_, step, rounds_[step]));
  if (before == before_->end()) return false;
  const auto behind = std::upper_bound(before->second.begin(), before->second.end(), byte,
                                       [](uint64_t at, const ByteRange& range) { return at < range.first; });
  return behind != before->second.begin() && byte < (behind - 1)->end;
}

LeftBytes StepwiseReplay::TakeLeft() {
  for (auto& [step, ranges] : left_) {
    std::sort(ranges.begin(), ranges.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
  }
  return std::move(left_);
}

}  // namespace rondo::verify
