// What is written and read: only what may be, in an order that timing cannot change, and nothing unwritten.
#include <cinttypes>

#include "formats/plan/check/program_check.h"

namespace rondo::check {
namespace {

constexpr int64_t kNothing = -1;  // no address

// A box that is known only by its bounds counts as all that lies between them.
Box Filled(const Box& box) { return box.exact ? box : DenseBox(box.base, box.end); }

bool FitsGrid(const Grid& grid, const Box& box) {
  Grid probe = grid;
  return probe.Add(box) && probe.digits == grid.digits;
}

}  // namespace

uint32_t ProgramCheck::Inherits(uint32_t buffer) const {
  const uint32_t other = plan_.buffers[buffer].aliases;
  if (other == kNone || lifetimes_[other].first > lifetimes_[other].last) return kNone;
  if (local_[buffer] != local_[other]) return kNone;
  for (const Access& last : Of(other)) {
    if (last.begin == lifetimes_[buffer].first) return other;
  }
  return kNone;
}

Status ProgramCheck::CheckWritable() {
  for (const Access& access : accesses_) {
    const Buffer& buffer = plan_.buffers[access.buffer];
    if (!access.writes() || (buffer.kind != BufferKind::kConstant && buffer.kind != BufferKind::kInput))
      continue;
    return AtStep(
        RONDO_BROKEN("writes buffer %u \"%.*s\", which is %s and never to be written", access.buffer,
                     static_cast<int>(buffer.name.size()), buffer.name.data(), Name(buffer.kind)),
        access.begin);
  }
  return Status::Ok();
}

// Collectives in place: where their op puts this rank's share.
bool ProgramCheck::InPlaceCollective(const Access& a, const Access& b) const {
  const Step& step = program_.steps[a.begin];
  if (step.kind != StepKind::kCollectiveStart) return false;
  const SyncPoint& point = program_.sync_points[step.sync_point];
  int64_t rank = 0;
  while (point.participants[static_cast<size_t>(rank)] != step.device) ++rank;
  const int64_t share = rank * static_cast<int64_t>(point.bytes);
  const int64_t from = a.reads() ? a.base : b.base, to = a.reads() ? b.base : a.base;
  if (point.op == CollectiveOp::kAllGather) return from == to + share;
  if (point.op == CollectiveOp::kReduceScatter) return to == from + share;
  return from == to;
}

// A custom op's input and the output that is its new version; the verifier has compared their places.
bool ProgramCheck::InPlaceCall(const Access& a, const Access& b) const {
  const Step& step = program_.steps[a.begin];
  if (step.kind != StepKind::kCustom) return false;
  const Access &input = a.reads() ? a : b, &output = a.reads() ? b : a;
  if (!input.reads() || !output.writes()) return false;
  return plan_.custom_ops[step.custom].arguments[output.print->operand].alias == input.print->operand;
}

Status ProgramCheck::CheckPair(const Access& a, const Access& b) {
  if (!a.writes() && !b.writes()) return Status::Ok();
  const Buffer &x = plan_.buffers[a.buffer], &y = plan_.buffers[b.buffer];
  if (RegionOf(x.kind) != RegionOf(y.kind)) return Status::Ok();
  // Two that move as one stand in every round as in the first.
  const bool as_one = a.stride == b.stride;
  if (as_one && (a.end_byte() <= b.first_byte() || b.end_byte() <= a.first_byte())) return Status::Ok();
  const Box p = as_one ? a.box() : Whole(a, a.box()), q = as_one ? b.box() : Whole(b, b.box());
  if (!MayShare(p, q)) return Status::Ok();
  if (!as_one) {
    // Refused.
  } else if (a.print->part == nullptr) {
    if (InPlaceCollective(a, b) || InPlaceCall(a, b)) return Status::Ok();
  } else if (a.print->part == b.print->part) {
    const Part& part = *a.print->part;
    const uint16_t i = a.print->operand, k = b.print->operand;
    const bool tapes = (a.writes() || ReadByTapeOnly(part, i)) && (b.writes() || ReadByTapeOnly(part, k));
    if (part.sequential && a.buffer == b.buffer && tapes) return Status::Ok();
    const bool loads_first =
        (a.writes() || LoadedBeforeStored(part, i, k)) && (b.writes() || LoadedBeforeStored(part, k, i));
    if (loads_first && SameAccess(part, i, k, b.base - a.base)) return Status::Ok();
  }
  return AtStep(RONDO_BROKEN("it %s buffer %u \"%.*s\" at bytes [%" PRId64 ", %" PRId64
                             ") and %s buffer %u \"%.*s\" at bytes [%" PRId64 ", %" PRId64
                             ") of the same memory, and not element by element",
                             a.writes() ? "writes" : "reads", a.buffer, static_cast<int>(x.name.size()),
                             x.name.data(), p.base, p.end, b.writes() ? "writes" : "reads", b.buffer,
                             static_cast<int>(y.name.size()), y.name.data(), q.base, q.end),
                a.begin);
}

Status ProgramCheck::CheckInsideSteps() {
  for (size_t s = 0; s < program_.steps.size(); ++s) {
    const uint32_t end = first_access_[s + 1];
    for (uint32_t i = first_access_[s]; i < end; ++i) {
      if (!work_.Spend(end - i)) return TooMuchWork();
      for (uint32_t k = i + 1; k < end; ++k) RONDO_RETURN_IF_ERROR(CheckPair(accesses_[i], accesses_[k]));
    }
  }
  return Status::Ok();
}

// Two accesses of one buffer by different steps, one of them a write, that no order holds apart.
Status ProgramCheck::CheckRaces() {
  if (order_.total() && !order_.has_collectives()) return Status::Ok();
  for (uint32_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Span<const Access> accesses = Of(buffer);
    bool written = false;
    for (const Access& access : accesses) written |= access.writes();
    for (size_t i = 0; written && i < accesses.size(); ++i) {
      if (!work_.Spend(accesses.size() - i)) return TooMuchWork();
      for (size_t k = i + 1; k < accesses.size(); ++k) {
        const Access &a = accesses[i], &b = accesses[k];
        if ((!a.writes() && !b.writes()) || a.begin == b.begin) continue;
        if (order_.Before(a.end, b.begin) || order_.Before(b.end, a.begin) ||
            !MayShare(Whole(a, a.box()), Whole(b, b.box())))
          continue;
        const std::string_view name = plan_.buffers[buffer].name;
        return AtStep(
            RONDO_BROKEN(
                "it %s buffer %u \"%.*s\" while step %u %s it: no stream, event or wait orders the two",
                b.writes() ? "writes" : "reads", buffer, static_cast<int>(name.size()), name.data(), a.begin,
                a.writes() ? "writes" : "reads"),
            b.begin);
      }
    }
  }
  return Status::Ok();
}

// What an access that touches `box` in the first round touches in all.
Box ProgramCheck::Whole(const Access& access, const Box& box) const {
  return access.loop == kNone ? box : Repeated(box, access.stride, program_.loops[access.loop].trips);
}

void ProgramCheck::VisitWrites(const Access& read, Rounds rounds, void* user,
                               void (*visit)(void*, const Box&)) const {
  const bool stays = rounds != Rounds::kLater || read.stride == 0;  // what lies still does so for it
  uint32_t buffer = read.buffer;
  // The verifier has seen that chains of aliases end.
  for (; buffer != kNone; buffer = Inherits(buffer)) {
    if (IsInput(buffer) && stays) {
      const Buffer& input = plan_.buffers[buffer];
      visit(user,
            DenseBox(static_cast<int64_t>(input.offset), static_cast<int64_t>(input.offset + input.bytes)));
    }
    for (const Access& write : Of(buffer)) {
      if (!write.writes()) continue;
      // A sequential part may read what it wrote at an earlier point.
      const bool own = write.begin == read.begin && write.print->part != nullptr &&
                       write.print->part == read.print->part && write.print->part->sequential;
      const bool before = own || read.begin == kAfterAll || order_.Before(write.end, read.begin);
      const Box box = Filled(write.box());
      if (write.loop == kNone || write.loop != read.loop) {
        if (!before || !stays) continue;
        const Box all = Whole(write, box);
        visit(user, all.exact ? all : box);
      } else if (rounds == Rounds::kFirst || write.stride == read.stride) {
        if (before && rounds != Rounds::kAll) visit(user, box);
        if (rounds == Rounds::kLater && !local_[buffer]) visit(user, Shifted(box, -write.stride));
      }
    }
  }
}

// A read in a loop: by what was written before the loop, or round by round.
Status ProgramCheck::CheckRead(const Access& read) {
  if (read.loop == kNone) return CheckRead(read, Rounds::kAll);
  if (CheckRead(read, Rounds::kAll).ok()) return Status::Ok();
  RONDO_RETURN_IF_ERROR(CheckRead(read, Rounds::kFirst));
  if (program_.loops[read.loop].trips == 1) return Status::Ok();
  return CheckRead(read, Rounds::kLater);
}

Status ProgramCheck::CheckRead(const Access& read, Rounds rounds) {
  const Box box = rounds == Rounds::kAll ? Whole(read, read.box()) : read.box();
  if (box.empty()) return Status::Ok();
  bool reached = false, covered = false, first = false, last = false;
  uint64_t writes = 0;
  int64_t origin = box.base;
  Grid grid;
  const bool exact = box.exact && grid.Add(box);
  ForWrites(read, rounds, [&](const Box& write) {
    ++writes;
    if (write.empty()) return;
    const Box filled = Filled(write);
    reached |= write.base < box.end && box.base < write.end;
    covered |= filled.dense() && write.base <= box.base && box.end <= write.end;
    first |= write.base <= box.base && box.base < write.end;
    last |= write.base < box.end && box.end <= write.end;
    if (write.base < origin) origin = write.base;
    if (exact && !covered) grid.Add(filled);
  });
  if (!work_.Spend(writes)) return TooMuchWork();
  if (covered) return Status::Ok();
  const std::string_view name = plan_.buffers[read.buffer].name;
  const int size = static_cast<int>(name.size());
  if (!reached) {
    return AtStep(RONDO_BROKEN("it reads buffer %u \"%.*s\", which no step before it has written",
                               read.buffer, size, name.data()),
                  read.begin);
  }
  if (!box.exact) return Status::Ok();
  const bool strict = read.loop != kNone;  // what is not proven of one round is not so of any
  int64_t missing = !first || (strict && !exact) ? box.base : !last ? box.end - 1 : kNothing;
  if (exact) {
    if (!work_.Spend(writes * 256)) return TooMuchWork();
    Remainder rest(grid, origin, box);
    ForWrites(read, rounds, [&](const Box& write) {
      if (write.empty()) return;
      const Box filled = Filled(write);
      const bool fits = FitsGrid(grid, filled);
      if (fits || !strict) rest.Subtract(fits ? filled : DenseBox(write.base, write.end));
    });
    if (!rest.empty()) missing = rest.FirstByte();
    if (strict && rest.gave_up()) missing = box.base;
  }
  if (missing == kNothing) return Status::Ok();
  return AtStep(
      RONDO_BROKEN("it reads byte %" PRId64 " of buffer %u \"%.*s\", which no step before it has written",
                   missing - static_cast<int64_t>(plan_.buffers[read.buffer].offset), read.buffer, size,
                   name.data()),
      read.begin);
}

Status ProgramCheck::CheckReads() {
  for (const Access& access : accesses_) {
    const BufferKind kind = plan_.buffers[access.buffer].kind;
    if (!access.reads() || (kind != BufferKind::kTemporary && kind != BufferKind::kOutput)) continue;
    RONDO_RETURN_IF_ERROR(CheckRead(access));
  }
  return CheckOutputs();
}

// Whoever reads the outputs after the last step reads all of them.
Status ProgramCheck::CheckOutputs() {
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    if (buffer.program != index_ || !IsOutput(b) || buffer.bytes == 0) continue;
    Footprint whole;
    whole.box = DenseBox(0, static_cast<int64_t>(buffer.bytes));
    whole.reads = true;
    Access end;
    end.buffer = b;
    end.begin = end.end = kAfterAll;
    end.print = &whole;
    end.base = static_cast<int64_t>(buffer.offset);
    RONDO_RETURN_IF_ERROR(CheckRead(end));
  }
  return Status::Ok();
}

}  // namespace rondo::check
