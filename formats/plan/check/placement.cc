// What shares memory: no two buffers that matter at once, unless one takes the other over in place.
#include "formats/plan/check/placement.h"

#include <cinttypes>
#include <cstdlib>

#include "formats/plan/check/program_check.h"

namespace rondo::check {
namespace {

struct Placed {
  uint64_t offset = 0, end = 0;
  uint32_t buffer = 0;
};

int ByOffset(const void* a, const void* b) {
  const Placed *x = static_cast<const Placed*>(a), *y = static_cast<const Placed*>(b);
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

}  // namespace

Status ForOverlaps(const PlanData& plan, Span<const uint32_t> buffers, Work& work, Arena& scratch, void* user,
                   OverlapFunction visit) {
  Span<Placed> placed = scratch.New<Placed>(buffers.size());
  if (placed.data() == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory to sort buffers");
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[buffers[i]];
    placed[i] = {buffer.offset, buffer.offset + buffer.bytes, buffers[i]};
  }
  if (!placed.empty()) std::qsort(placed.data(), placed.size(), sizeof(Placed), ByOffset);
  for (size_t i = 0; i < placed.size(); ++i) {
    for (size_t k = i + 1; k < placed.size() && placed[k].offset < placed[i].end; ++k) {
      if (!work.Spend(1))
        return Status::Error(Code::kUnsupported, "too many buffers share memory to be checked");
      RONDO_RETURN_IF_ERROR(visit(user, placed[i].buffer, placed[k].buffer));
    }
  }
  return Status::Ok();
}

// Is every access of `a` complete before any of `b` begins, or the very step with which `b` takes it over?
bool ProgramCheck::AllBefore(uint32_t a, uint32_t b) {
  if (IsInput(b) || IsOutput(a)) return false;  // b is written before all steps, or a read after them
  if (Of(a).empty()) return true;               // an input that nothing reads
  const Lifetime &x = lifetimes_[a], &y = lifetimes_[b];
  // In a loop, what the next round reads again cannot be taken over.
  const bool takes_over =
      plan_.buffers[b].aliases == a && (LoopOf(program_, y.first) == nullptr || (local_[a] && local_[b]));
  // Whatever is before something is before it in the list.
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
  // Whatever is before something is before it in the list.
  const bool a_first = lifetimes_[a].first <= lifetimes_[b].first;
  if (a_first ? AllBefore(a, b) || AllBefore(b, a) : AllBefore(b, a) || AllBefore(a, b)) return Status::Ok();
  if (!work_.Spend(1)) return TooMuchWork();
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

// Live bytes of `device` at each step; `live` is scratch of one entry a step and one more.
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
      // Both live at the step that takes over; what they share is counted once.
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

Status ProgramCheck::CheckPlacement(ProgramMemory* memory) {
  Span<uint32_t> buffers = scratch_.New<uint32_t>(plan_.buffers.size());
  Span<int64_t> live = scratch_.New<int64_t>(program_.steps.size() + 1);
  if (buffers.data() == nullptr || live.data() == nullptr) return OutOfMemory();
  for (uint32_t device = 0; device < plan_.requirements.devices.size(); ++device) {
    if (!work_.Spend(plan_.buffers.size() + program_.steps.size())) return TooMuchWork();
    size_t count = 0;
    for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (buffer.program != index_ || buffer.device != device || buffer.bytes == 0) continue;
      if (!Of(b).empty() || IsInput(b) || IsOutput(b)) buffers[count++] = b;
    }
    auto visit = [](void* user, uint32_t a, uint32_t b) {
      return static_cast<ProgramCheck*>(user)->CheckOverlap(a, b);
    };
    RONDO_RETURN_IF_ERROR(ForOverlaps(plan_, {buffers.data(), count}, work_, scratch_, this, visit));
    Peak(device, live, memory);
  }
  if (program_.arena_lower_bound >= memory->arena_lower_bound) return Status::Ok();
  return RONDO_BROKEN("program \"%.*s\": its arena's lower bound is said to be %" PRIu64
                      " bytes, but %" PRIu64 " bytes are in use at step %u",
                      static_cast<int>(program_.name.size()), program_.name.data(),
                      program_.arena_lower_bound, memory->arena_lower_bound, memory->fullest_step);
}

}  // namespace rondo::check
