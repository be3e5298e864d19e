// Buffers with a wrong place, a wrong lifetime or a wrong kind.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/defects/pick.h"

namespace rondo::defects {
namespace {

bool SwapOffsets(Patient& p) {
  Buffer* a = PickBuffer(p, InArena);
  if (a == nullptr) return false;
  Buffer* b = PickBuffer(p, [&](const Buffer& o) {
    return InArena(o) && o.device == a->device && o.program == a->program && o.offset != a->offset;
  });
  if (b == nullptr) return false;
  std::swap(a->offset, b->offset);
  return true;
}

bool OverlapLive(Patient& p) {
  Buffer* a = PickBuffer(p, InArena);
  if (a == nullptr) return false;
  Buffer* b = PickBuffer(p, [&](const Buffer& o) {
    return InArena(o) && o.device == a->device && o.program == a->program && o.offset != a->offset &&
           o.first_step <= a->last_step && a->first_step <= o.last_step;
  });
  if (b == nullptr) return false;
  a->offset = b->offset;
  return true;
}

bool ShiftOffset(Patient& p) {
  Buffer* b = PickBuffer(p, [](const Buffer& o) { return InArena(o) && o.offset >= 64; });
  if (b == nullptr) return false;
  b->offset -= 64;
  return true;
}

bool EndEarlier(Patient& p) {
  Buffer* b = PickBuffer(p, [](const Buffer& o) { return InArena(o) && o.last_step > o.first_step; });
  if (b == nullptr) return false;
  --b->last_step;
  return true;
}

bool BeginLater(Patient& p) {
  Buffer* b = PickBuffer(p, [](const Buffer& o) { return InArena(o) && o.last_step > o.first_step; });
  if (b == nullptr) return false;
  ++b->first_step;
  return true;
}

bool EndLater(Patient& p) {
  Buffer* b = PickBuffer(p, [&](const Buffer& o) {
    return InArena(o) && o.program != kNone && o.last_step + 1 < p.plan.programs[o.program].steps.size();
  });
  if (b == nullptr) return false;
  ++b->last_step;
  return true;
}

bool ShrinkBuffer(Patient& p) {
  Buffer* b = PickBuffer(p, [](const Buffer& o) { return o.bytes > 4; });
  if (b == nullptr) return false;
  b->bytes -= 4;
  return true;
}

bool OverlapState(Patient& p) {
  Buffer* a = PickBuffer(p, [](const Buffer& o) { return o.kind == BufferKind::kState; });
  if (a == nullptr) return false;
  Buffer* b = PickBuffer(p, [&](const Buffer& o) {
    return o.kind == BufferKind::kState && o.device == a->device && o.offset != a->offset;
  });
  if (b == nullptr) return false;
  a->offset = b->offset;
  return true;
}

bool LowerAlignment(Patient& p) {
  Buffer* b = PickBuffer(p, [](const Buffer& o) { return InArena(o) && o.alignment > 1; });
  if (b == nullptr) return false;
  b->alignment = 1;
  b->offset += 1;
  return true;
}

bool SmallerArena(Patient& p) {
  DeviceBytes* d = Pick(p, p.plan.requirements.devices);
  if (d == nullptr || d->arena < 64) return false;
  d->arena -= 64;
  return true;
}

bool WrongAlias(Patient& p) {
  Buffer* a = PickBuffer(p, InArena);
  if (a == nullptr || p.plan.buffers.size() < 2) return false;
  const auto other = static_cast<uint32_t>(p.random.Below(p.plan.buffers.size()));
  if (other == a->aliases || &p.plan.buffers[other] == a) return false;
  a->aliases = other;
  return true;
}

bool NoAlias(Patient& p) {
  Buffer* b = PickBuffer(p, [](const Buffer& o) { return o.aliases != kNone; });
  if (b == nullptr) return false;
  b->aliases = kNone;
  return true;
}

// Takes over the memory of a buffer that ends where it begins, whether or not the step may do that in place.
bool TakeOver(Patient& p) {
  Buffer* a = PickBuffer(p, [](const Buffer& o) { return InArena(o) && o.aliases == kNone; });
  if (a == nullptr) return false;
  Buffer* b = PickBuffer(p, [&](const Buffer& o) {
    return InArena(o) && &o != a && o.device == a->device && o.program == a->program &&
           o.last_step == a->first_step && o.bytes >= a->bytes && o.kind != BufferKind::kOutput;
  });
  if (b == nullptr) return false;
  a->offset = b->offset;
  a->aliases = static_cast<uint32_t>(b - &Edit(p.plan.buffers[0]));
  return true;
}

bool OtherConstant(Patient& p) {
  Buffer* a = PickBuffer(p, [](const Buffer& o) { return o.kind == BufferKind::kConstant; });
  if (a == nullptr) return false;
  a->offset += a->bytes / 2 / 64 * 64 + 64;
  return true;
}

bool ConstantIsTemporary(Patient& p) {
  Buffer* a = PickBuffer(p, [](const Buffer& o) { return o.kind == BufferKind::kConstant; });
  if (a == nullptr) return false;
  a->kind = BufferKind::kTemporary;
  a->program = 0;
  a->offset = 0;
  return true;
}

bool InputIsTemporary(Patient& p) {
  Buffer* a = PickBuffer(p, [](const Buffer& o) { return o.kind == BufferKind::kInput; });
  if (a == nullptr) return false;
  a->kind = BufferKind::kTemporary;
  return true;
}

constexpr DefectKind kKinds[] = {
    {"memory: two buffers exchange their offsets", SwapOffsets},
    {"memory: a buffer lies where a live one does", OverlapLive},
    {"memory: a buffer begins 64 bytes earlier", ShiftOffset},
    {"memory: a buffer ends a step earlier", EndEarlier},
    {"memory: a buffer begins a step later", BeginLater},
    {"memory: a buffer is kept a step longer", EndLater},
    {"memory: a buffer is four bytes smaller", ShrinkBuffer},
    {"memory: two states overlap", OverlapState},
    {"memory: an odd offset and no alignment", LowerAlignment},
    {"memory: the arena is 64 bytes smaller", SmallerArena},
    {"memory: a wrong alias", WrongAlias},
    {"memory: an alias is not stated", NoAlias},
    {"memory: taken over in place, allowed or not", TakeOver},
    {"memory: a constant at another place", OtherConstant},
    {"memory: a constant becomes a temporary", ConstantIsTemporary},
    {"memory: an input becomes a temporary", InputIsTemporary},
};

}  // namespace

Span<const DefectKind> MemoryDefects() { return Span<const DefectKind>(kKinds, std::size(kKinds)); }

}  // namespace rondo::defects
