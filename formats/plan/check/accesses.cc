// Reads and writes touch only what they may, in an order independent of timing, and reads only find written
// bytes.
#include <cinttypes>
#include <cstdlib>

#include "core/collective.h"
#include "formats/plan/check/program_check.h"

namespace rondo::check {
namespace {

// Calls visit(piece) for the pieces that `access` touches, placed in memory; see ForPieces.
bool ForPiecesOf(const Access& access, Work& work, const Visit<Box>& visit) {
  return ForPieces(*access.print, work, [&](const Box& piece) { return visit(Shifted(piece, access.base)); });
}

bool Meet(const Box& a, const Box& b) { return a.base < b.end && b.base < a.end; }

int ByPlace(const void* a, const void* b) {
  const Access &x = **static_cast<const Access*const*>(a), &y = **static_cast<const Access*const*>(b);
  if (x.region != y.region) return x.region < y.region ? -1 : 1;
  const int64_t first = x.first_byte(), other = y.first_byte();
  return first != other ? (first < other ? -1 : 1) : (&x < &y ? -1 : 1);
}

}  // namespace

size_t ProgramCheck::CountUntil(uint32_t buffer, uint32_t step) const {
  const Span<const Access> accesses = Of(buffer);
  size_t low = 0, high = accesses.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    (accesses[middle].begin <= step ? low : high) = accesses[middle].begin <= step ? middle + 1 : middle;
  }
  return low;
}

uint32_t ProgramCheck::Inherits(uint32_t buffer) const {
  const uint32_t other = plan_.buffers[buffer].aliases;
  if (other == kNone || lifetimes_[other].first > lifetimes_[other].last) return kNone;
  if (local_[buffer] != local_[other]) return kNone;
  const size_t count = CountUntil(other, lifetimes_[buffer].first);
  return count > 0 && Of(other)[count - 1].begin == lifetimes_[buffer].first ? other : kNone;
}

// Calls visit(a, b) for all pairs of `accesses` with overlapping byte ranges; a precedes b in the list.
Status ProgramCheck::ForMeeting(Span<const Access> accesses,
                                Status (ProgramCheck::*visit)(const Access&, const Access&)) {
  const size_t count = accesses.size();
  for (size_t i = 0; i < count; ++i) meeting_[i] = &accesses[i];
  if (count > 1) std::qsort(meeting_.data(), count, sizeof(const Access*), ByPlace);
  for (size_t i = 0; i + 1 < count; ++i) {
    const Access* const x = meeting_[i];
    for (size_t k = i + 1; k < count; ++k) {
      const Access* const y = meeting_[k];
      if (y->region != x->region || y->first_byte() >= x->end_byte()) break;
      if (!work_.Spend(4)) return TooMuchWork();
      RONDO_RETURN_IF_ERROR(x < y ? (this->*visit)(*x, *y) : (this->*visit)(*y, *x));
    }
  }
  return Status::Ok();
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

// Collectives in place: the distance between both accesses must be where the op puts this rank's share.
bool ProgramCheck::InPlaceCollective(const Access& a, const Access& b) const {
  const Step& step = program_.steps[a.begin];
  if (step.kind != StepKind::kCollectiveStart) return false;
  const SyncPoint& point = program_.sync_points[step.sync_point];
  const int64_t from = a.reads() ? a.base : b.base, to = a.reads() ? b.base : a.base;
  return from - to == InPlaceDistance(point, RankOf(point, step.device));
}

// A custom op's input, and the output that is its new version. The verifier has compared their places.
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
  // Accesses that move together have the same distance in every round as in the first.
  const bool as_one = a.stride == b.stride;
  const Box p = as_one ? a.box() : Whole(a, a.box()), q = as_one ? b.box() : Whole(b, b.box());
  if (!MayShare(p, q, work_)) return Status::Ok();
  if (work_.over()) return TooMuchWork();
  if (!as_one) {
    // Refused below.
  } else if (PiecesApart(*a.print, a.base, *b.print, b.base, work_)) {
    return Status::Ok();
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
  meeting_ = scratch_.New<const Access*>(accesses_.size());
  if (meeting_.data() == nullptr) return OutOfMemory();
  for (size_t s = 0; s < program_.steps.size(); ++s) {
    const uint32_t first = first_access_[s];
    RONDO_RETURN_IF_ERROR(
        ForMeeting({accesses_.data() + first, first_access_[s + 1] - first}, &ProgramCheck::CheckPair));
  }
  return Status::Ok();
}

// Refuses two accesses of one buffer by different steps, one of them a write, that no order separates.
Status ProgramCheck::CheckRace(const Access& a, const Access& b) {
  if ((!a.writes() && !b.writes()) || a.begin == b.begin || order_.Before(a.end, b.begin) ||
      order_.Before(b.end, a.begin) || !MayShare(Whole(a, a.box()), Whole(b, b.box()), work_))
    return Status::Ok();
  if (a.loop == kNone && b.loop == kNone && PiecesApart(*a.print, a.base, *b.print, b.base, work_))
    return Status::Ok();
  if (work_.over()) return TooMuchWork();
  const std::string_view name = plan_.buffers[a.buffer].name;
  return AtStep(
      RONDO_BROKEN("it %s buffer %u \"%.*s\" while step %u %s it: no stream, event or wait orders the two",
                   b.writes() ? "writes" : "reads", a.buffer, static_cast<int>(name.size()), name.data(),
                   a.begin, a.writes() ? "writes" : "reads"),
      b.begin);
}

Status ProgramCheck::CheckRaces() {
  if (order_.total() && !order_.has_collectives()) return Status::Ok();
  for (uint32_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    bool written = false;
    for (const Access& access : Of(buffer)) written |= access.writes();
    if (written) RONDO_RETURN_IF_ERROR(ForMeeting(Of(buffer), &ProgramCheck::CheckRace));
  }
  return Status::Ok();
}

// The box that an access touches in all rounds, if it touches `box` in the first.
Box ProgramCheck::Whole(const Access& access, const Box& box) const {
  return access.loop == kNone ? box : Repeated(box, access.stride, program_.loops[access.loop].trips);
}

// Calls visit(box) for the boxes that `access` touches in all rounds of its loop, placed in memory; see
// ForPieces. If the bytes of all rounds do not form a box, a read ends the visits as `visit` does, and a
// write visits its first round.
bool ProgramCheck::ForBoxes(const Access& access, const Visit<Box>& visit) {
  return ForPieces(*access.print, work_, [&](const Box& piece) {
    const Box once = Shifted(piece, access.base), all = Whole(access, once);
    if (!all.exact && once.exact && access.reads()) return false;
    return visit(all.exact ? all : once);
  });
}

// Calls visit(write) for the writes before `read` to its buffer and to the buffers whose memory it took over
// with their contents, latest first. Writes outside the read's loop cover all their rounds; the others cover
// one round. False if `visit` returns false or the work limit is reached.
bool ProgramCheck::ForWrites(const Access& read, Rounds rounds, const Visit<Access>& visit) {
  const bool later = rounds == Rounds::kLater, stays = !later || read.stride == 0;
  // The previous round also ran the steps after the read.
  const uint32_t until = later ? program_.loops[read.loop].end() - 1 : read.begin;
  // The verifier has checked that chains of aliases end.
  for (uint32_t buffer = read.buffer; buffer != kNone; buffer = Inherits(buffer)) {
    for (size_t i = CountUntil(buffer, until); i-- > 0;) {
      const Access& write = Of(buffer)[i];
      if (!work_.Spend(4)) return false;
      if (!write.writes()) continue;
      // Writes by the read's own sequential part do not count, because the order of its points is not
      // checked.
      const bool before = read.begin == kAfterAll || order_.Before(write.end, read.begin);
      if (write.loop == kNone || write.loop != read.loop) {
        if (before && stays && !visit(write)) return false;
        continue;
      }
      if (rounds == Rounds::kAll || (later && write.stride != read.stride)) continue;
      Access once = write;
      once.loop = kNone;
      once.moved = 0;
      if (before && !visit(once)) return false;
      once.base -= write.stride;
      if (later && !local_[buffer] && !visit(once)) return false;
    }
    if (!IsInput(buffer) || !stays) continue;
    const Buffer& input = plan_.buffers[buffer];
    Footprint whole;
    whole.box = DenseBox(0, static_cast<int64_t>(input.bytes));
    Access write;
    write.print = &whole;
    write.base = static_cast<int64_t>(input.offset);
    if (!visit(write)) return false;
  }
  return true;
}

// Checks that all bytes of `piece`, which `read` touches, have been written.
Status ProgramCheck::CheckPiece(const Access& read, const Box& piece, Rounds rounds) {
  Grid grid;
  grid.Add(piece);
  int64_t origin = piece.base, missing = piece.base;
  bool left = false;
  // A write through an index from data may touch any element, so it counts as writing none.
  const auto for_boxes = [&](const Visit<Box>& visit) {
    return ForWrites(read, rounds, [&](const Access& write) {
      const Part* part = write.print->part;
      if (part != nullptr && !part->operands[write.print->operand].indirects.empty()) return true;
      bool stopped = false;
      ForBoxes(write, [&](const Box& box) { return !(stopped = Meet(box, piece) && !visit(box)); });
      return !stopped && !work_.over();
    });
  };
  for_boxes([&](const Box& box) {
    grid.Add(box);
    if (box.base < origin) origin = box.base;
    return true;
  });
  const bool proven = ForPartsOnGrid(grid, piece, work_, [&](const Box& part) {
    Remainder rest(grid, origin, part, work_);
    for_boxes([&](const Box& box) {
      return ForPartsOnGrid(grid, box, work_, [&](const Box& written) {
        if (Meet(written, part)) rest.Subtract(written);
        return !rest.gave_up() && !rest.empty();
      });
    });
    left = !rest.gave_up() && !rest.empty() && !work_.over();
    if (left) missing = rest.FirstByte();
    return rest.empty();
  });
  if (proven) return Status::Ok();
  const Buffer& buffer = plan_.buffers[read.buffer];
  return AtStep(
      RONDO_BROKEN(left ? "it reads byte %" PRId64
                          " of buffer %u \"%.*s\", which no step before it has written"
                        : "it reads from byte %" PRId64
                          " of buffer %u \"%.*s\", written in too many pieces to prove that all was",
                   missing - static_cast<int64_t>(buffer.offset), read.buffer,
                   static_cast<int>(buffer.name.size()), buffer.name.data()),
      read.begin);
}

// A read in a loop must be covered by writes before the loop, or in each round.
Status ProgramCheck::CheckRead(const Access& read) {
  const Status all = CheckRead(read, Rounds::kAll);
  if (read.loop == kNone || all.ok()) return all;
  Access once = read;  // an access that moves is checked at its place in one round
  once.moved = 0;
  RONDO_RETURN_IF_ERROR(CheckRead(once, Rounds::kFirst));
  return program_.loops[read.loop].trips == 1 ? Status::Ok() : CheckRead(once, Rounds::kLater);
}

Status ProgramCheck::CheckRead(const Access& read, Rounds rounds) {
  const int64_t first = read.first_byte(), end = read.end_byte();
  if (first >= end) return Status::Ok();
  bool covered = false;
  ForWrites(read, rounds, [&](const Access& write) {
    covered = write.print->box.dense() && write.moved == 0 && write.first_byte() <= first &&
              end <= write.end_byte();
    return !covered;
  });
  if (covered) return Status::Ok();
  Status status;
  const auto check = [&](const Box& piece) {
    status = CheckPiece(read, piece, rounds);
    return status.ok();
  };
  const bool all = rounds == Rounds::kAll ? ForBoxes(read, check) : ForPiecesOf(read, work_, check);
  if (work_.over() || (status.ok() && !all)) return TooMuchWork();
  return status;
}

Status ProgramCheck::CheckReads() {
  for (const Access& access : accesses_) {
    const BufferKind kind = plan_.buffers[access.buffer].kind;
    if (!access.reads() || (kind != BufferKind::kTemporary && kind != BufferKind::kOutput)) continue;
    RONDO_RETURN_IF_ERROR(CheckRead(access));
  }
  return CheckOutputs();
}

// All bytes of the outputs are read after the last step.
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
