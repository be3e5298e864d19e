// No two buffers that matter at the same time share memory, unless one takes over the other's in place.
#include "formats/plan/check/memory_sharing.h"

#include <cinttypes>
#include <cstdlib>

#include "formats/plan/check/program_check.h"

namespace rondo::check {
namespace {

int Ascending(const void* a, const void* b) {
  const uint64_t x = *static_cast<const uint64_t*>(a), y = *static_cast<const uint64_t*>(b);
  return x < y ? -1 : x > y;
}

// A set of numbers that always contains 0.
class Marks {
 public:
  // False if memory runs out.
  bool Make(size_t numbers, Arena& scratch) {
    for (Span<uint64_t>& words : levels_) {
      numbers = numbers / 64 + 1;
      words = scratch.New<uint64_t>(numbers);
      if (words.data() == nullptr) return false;
    }
    return true;
  }
  void Set(size_t i) {
    for (Span<uint64_t>& words : levels_) {
      words[i / 64] |= uint64_t{1} << i % 64;
      i /= 64;
    }
  }
  void Clear(size_t i) {
    for (Span<uint64_t>& words : levels_) {
      if ((words[i / 64] &= ~(uint64_t{1} << i % 64)) != 0) return;
      i /= 64;
    }
  }
  // The greatest number in the set that is at most i.
  size_t Last(size_t i) const {
    int level = 0;
    uint64_t word;
    while ((word = levels_[level][i / 64] & ~uint64_t{0} >> (63 - i % 64)) == 0) {
      i = i / 64 - 1;
      ++level;
    }
    i = i / 64 * 64 + Highest(word);
    while (level-- > 0) i = i * 64 + Highest(levels_[level][i]);
    return i;
  }

 private:
  static size_t Highest(uint64_t word) { return 63 - static_cast<size_t>(__builtin_clzll(word)); }
  Span<uint64_t> levels_[6];
};

// The begin of a buffer in one address space for the memory of all devices.
uint64_t PlaceOf(const Buffer& buffer) {
  constexpr uint64_t kRegions = 4;
  return (buffer.device * kRegions + static_cast<uint64_t>(RegionOf(buffer.kind))) << 48 | buffer.offset;
}

// Memory as intervals between the begins and ends of buffers, each with the buffer that was put there last.
class Occupants {
 public:
  bool Make(const PlanData& plan, Span<const uint32_t> buffers, Arena& scratch) {
    places_ = scratch.New<uint64_t>(2 * buffers.size() + 1);
    end_ = scratch.New<uint32_t>(places_.size());
    owner_ = scratch.New<uint32_t>(places_.size());
    if (places_.data() == nullptr || end_.data() == nullptr || owner_.data() == nullptr ||
        !begins_.Make(places_.size(), scratch))
      return false;
    size_t at = 1;  // places_[0] is 0
    for (uint32_t b : buffers) {
      places_[at++] = PlaceOf(plan.buffers[b]);
      places_[at++] = PlaceOf(plan.buffers[b]) + plan.buffers[b].bytes;
    }
    std::qsort(places_.data(), places_.size(), sizeof(uint64_t), Ascending);
    begins_.Set(0);
    end_[0] = static_cast<uint32_t>(places_.size());
    owner_[0] = kNone;
    return true;
  }
  // Calls visit(user, occupant, buffer) for each interval in [from, end) before `buffer` takes it over.
  Status Put(uint32_t buffer, uint64_t from, uint64_t end, void* user, OverlapFunction visit) {
    const uint32_t first = Cut(from), last = Cut(end);
    for (uint32_t i = first; i < last;) {
      if (owner_[i] != kNone) RONDO_RETURN_IF_ERROR(visit(user, owner_[i], buffer));
      const uint32_t next = end_[i];
      if (i != first) begins_.Clear(i);
      i = next;
    }
    end_[first] = last;
    owner_[first] = buffer;
    return Status::Ok();
  }

 private:
  // Makes an interval begin at `place`.
  uint32_t Cut(uint64_t place) {
    size_t low = 0, high = places_.size();
    while (low < high) {
      const size_t middle = (low + high) / 2;
      (places_[middle] < place ? low : high) = places_[middle] < place ? middle + 1 : middle;
    }
    const size_t within = begins_.Last(low);
    if (within == low) return static_cast<uint32_t>(low);
    begins_.Set(low);
    owner_[low] = owner_[within];
    end_[low] = end_[within];
    return end_[within] = static_cast<uint32_t>(low);
  }

  Span<uint64_t> places_;
  Span<uint32_t> end_, owner_;  // of the interval that begins at a place
  Marks begins_;
};

}  // namespace

Status ForOverlaps(const PlanData& plan, Span<const uint32_t> buffers, Work& work, Arena& scratch, void* user,
                   OverlapFunction visit) {
  if (buffers.empty()) return Status::Ok();
  Occupants memory;
  if (!memory.Make(plan, buffers, scratch))
    return Status::Error(Code::kOutOfMemory, "no host memory to sort buffers");
  for (uint32_t b : buffers) {
    const Buffer& buffer = plan.buffers[b];
    if (!work.Spend(64))
      return Status::Error(Code::kUnsupported, "too many buffers share memory to be checked");
    RONDO_RETURN_IF_ERROR(memory.Put(b, PlaceOf(buffer), PlaceOf(buffer) + buffer.bytes, user, visit));
  }
  return Status::Ok();
}

// Whether every access of `a` is complete before any of `b` begins, or is in the step with which `b` takes it
// over.
bool ProgramCheck::AllBefore(uint32_t a, uint32_t b) {
  if (IsInput(b) || IsOutput(a)) return false;  // b is written before all steps, or a read after them
  if (Of(a).empty()) return true;               // an input that nothing reads
  const Lifetime &x = lifetimes_[a], &y = lifetimes_[b];
  // In a loop, memory that the next round reads again cannot be taken over.
  const bool takes_over =
      plan_.buffers[b].aliases == a && (LoopOf(program_, y.first) == nullptr || (local_[a] && local_[b]));
  // If one access precedes another, it comes earlier in the list.
  if (!takes_over && (order_.total() || x.last >= y.first)) return x.last < y.first;
  for (const Access& first : Of(a)) {
    for (const Access& second : Of(b)) {
      const bool at_once = takes_over && first.begin == second.begin;
      if (!work_.Spend(1) || (!at_once && !order_.Before(first.end, second.begin))) return false;
    }
  }
  return true;
}

Status ProgramCheck::CheckOverlap(uint32_t a, uint32_t b) {
  if (AllBefore(a, b)) return Status::Ok();
  if (work_.over()) return TooMuchWork();
  const Buffer &x = plan_.buffers[a], &y = plan_.buffers[b];
  const Lifetime &p = lifetimes_[a], &q = lifetimes_[b];
  const uint32_t source = q.first < program_.steps.size() ? program_.steps[q.first].source : kNone;
  return RONDO_BROKEN("program \"%.*s\": buffers %u \"%.*s\" (bytes [%" PRIu64 ", +%" PRIu64
                      "), steps %u to %u) and %u \"%.*s\" (bytes [%" PRIu64 ", +%" PRIu64
                      "), steps %u to %u) are in use at once and overlap on device %u",
                      static_cast<int>(program_.name.size()), program_.name.data(), a,
                      static_cast<int>(x.name.size()), x.name.data(), x.offset, x.bytes, p.first, p.last, b,
                      static_cast<int>(y.name.size()), y.name.data(), y.offset, y.bytes, q.first, q.last,
                      x.device)
      .FromNode(source < plan_.sources.size() ? plan_.sources[source] : "");
}

// The live bytes of `device` at each step; `live` is scratch of one entry per step plus one.
void ProgramCheck::Peak(uint32_t device, Span<int64_t> live, ProgramMemory* memory) const {
  for (int64_t& bytes : live) bytes = 0;
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    const Lifetime& life = lifetimes_[b];
    if (buffer.program != index_ || buffer.device != device || life.first > life.last) continue;
    if (buffer.offset + buffer.bytes > memory->arena_bytes)
      memory->arena_bytes = buffer.offset + buffer.bytes;
    const int64_t bytes = static_cast<int64_t>(buffer.bytes);
    live[life.first] += bytes;
    live[life.last + size_t{1}] -= bytes;
    if (uint32_t other = Inherits(b); other != kNone) {
      // Both buffers live at the step of the takeover; the bytes that they share count once.
      const Buffer& old = plan_.buffers[other];
      const uint64_t low = old.offset > buffer.offset ? old.offset : buffer.offset;
      const uint64_t old_end = old.offset + old.bytes, end = buffer.offset + buffer.bytes;
      const uint64_t high = old_end < end ? old_end : end;
      if (low >= high) continue;
      live[life.first] -= static_cast<int64_t>(high - low);
      live[lifetimes_[other].last + size_t{1}] += static_cast<int64_t>(high - low);
    }
  }
  int64_t now = 0;
  for (size_t s = 0; s + 1 < live.size(); ++s) {
    now += live[s];
    if (now > static_cast<int64_t>(memory->arena_lower_bound)) {
      memory->arena_lower_bound = static_cast<uint64_t>(now);
      memory->fullest_step = static_cast<uint32_t>(s);
    }
  }
}

// The program's buffers in the order in which they begin. If one buffer precedes another, it comes earlier.
// Inputs exist before all steps, and a buffer that takes over another comes after it.
Status ProgramCheck::OrderBuffers(Span<uint32_t>* out) {
  Span<uint32_t> buffers = scratch_.New<uint32_t>(plan_.buffers.size());
  Span<bool> seen = scratch_.New<bool>(plan_.buffers.size());
  if (buffers.data() == nullptr || seen.data() == nullptr) return OutOfMemory();
  size_t count = 0;
  const auto add = [&](uint32_t b) {
    if (!seen[b] && plan_.buffers[b].program == index_ && plan_.buffers[b].bytes != 0) buffers[count++] = b;
    seen[b] = true;
  };
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    if (IsInput(b)) add(b);
  }
  for (const Access& access : accesses_) {
    // Of two buffers that begin at one step, the one that is taken over comes first.
    const uint32_t other = plan_.buffers[access.buffer].aliases;
    if (other != kNone && lifetimes_[other].first == access.begin) add(other);
    add(access.buffer);
  }
  *out = {buffers.data(), count};
  return Status::Ok();
}

Status ProgramCheck::CheckPlacement(ProgramMemory* memory) {
  Span<uint32_t> buffers;
  RONDO_RETURN_IF_ERROR(OrderBuffers(&buffers));
  const OverlapFunction visit = [](void* user, uint32_t a, uint32_t b) {
    return static_cast<ProgramCheck*>(user)->CheckOverlap(a, b);
  };
  RONDO_RETURN_IF_ERROR(ForOverlaps(plan_, {buffers.data(), buffers.size()}, work_, scratch_, this, visit));
  Span<int64_t> live = scratch_.New<int64_t>(program_.steps.size() + 1);
  if (live.data() == nullptr) return OutOfMemory();
  for (uint32_t device = 0; device < plan_.requirements.devices.size(); ++device) {
    if (!work_.Spend(2 * (plan_.buffers.size() + program_.steps.size()))) return TooMuchWork();
    Peak(device, live, memory);
  }
  if (program_.arena_lower_bound >= memory->arena_lower_bound) return Status::Ok();
  return RONDO_BROKEN("program \"%.*s\": the arena's lower bound is %" PRIu64 " bytes, but %" PRIu64
                      " bytes are in use at step %u",
                      static_cast<int>(program_.name.size()), program_.name.data(),
                      program_.arena_lower_bound, memory->arena_lower_bound, memory->fullest_step);
}

}  // namespace rondo::check
