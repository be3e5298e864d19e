#include "tests/defects/defect_kinds.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/plan/certificate.h"

namespace rondo::defects {
namespace {

template <typename T>
T& Edit(const T& t) {
  return const_cast<T&>(t);
}

template <typename T>
T* Pick(Patient& p, Span<const T> list) {
  return list.empty() ? nullptr : &Edit(list[p.random.Below(list.size())]);
}

bool InArena(const Buffer& b) {
  return b.kind == BufferKind::kInput || b.kind == BufferKind::kOutput || b.kind == BufferKind::kTemporary ||
         b.kind == BufferKind::kWorkspace;
}

// A random buffer for which `fits` holds, or null.
template <typename Fits>
Buffer* PickBuffer(Patient& p, Fits fits) {
  std::vector<Buffer*> found;
  for (const Buffer& b : p.plan.buffers) {
    if (fits(b)) found.push_back(&Edit(b));
  }
  return found.empty() ? nullptr : found[p.random.Below(found.size())];
}

struct Place {
  Program* program = nullptr;
  Step* step = nullptr;
  uint32_t index = 0;
};

template <typename Fits>
Place PickStep(Patient& p, Fits fits) {
  std::vector<Place> found;
  for (const Program& program : p.plan.programs) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      if (fits(program, program.steps[s], s)) found.push_back({&Edit(program), &Edit(program.steps[s]), s});
    }
  }
  return found.empty() ? Place() : found[p.random.Below(found.size())];
}

template <typename Fits>
Operand* PickOperand(Patient& p, Fits fits) {
  std::vector<Operand*> found;
  for (const Kernel& kernel : p.plan.kernels) {
    for (const Part& part : kernel.parts) {
      for (const Operand& operand : part.operands) {
        if (fits(part, operand)) found.push_back(&Edit(operand));
      }
    }
  }
  return found.empty() ? nullptr : found[p.random.Below(found.size())];
}

template <typename T>
bool Remove(Patient& p, Span<const T>* list, size_t at) {
  Span<T> fewer = p.arena.New<T>(list->size() - 1);
  if (list->size() > 1 && fewer.data() == nullptr) return false;
  for (size_t i = 0, to = 0; i < list->size(); ++i) {
    if (i != at) Edit(fewer[to++]) = (*list)[i];
  }
  *list = Span<const T>(fewer.data(), fewer.size());
  return true;
}

int64_t Sign(Patient& p) { return p.random.OneIn(2) ? 1 : -1; }

// ------------------------------------------------------------------------------------------- memory

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

// -------------------------------------------------------------------------------------------- steps

bool Launches(const Program&, const Step& s, uint32_t) { return s.kind == StepKind::kLaunch; }

bool DropWait(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.waits.empty(); });
  return at.step != nullptr && Remove(p, &at.step->waits, p.random.Below(at.step->waits.size()));
}

bool DropRecord(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return s.records != kNone; });
  if (at.step == nullptr) return false;
  at.step->records = kNone;
  return true;
}

bool DropAfter(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.after.empty(); });
  return at.step != nullptr && Remove(p, &at.step->after, p.random.Below(at.step->after.size()));
}

bool OtherStream(Patient& p) {
  Place at =
      PickStep(p, [](const Program& program, const Step&, uint32_t) { return program.num_streams > 0; });
  if (at.step == nullptr) return false;
  at.program->num_streams = std::max(at.program->num_streams, 2u);
  at.step->stream = (at.step->stream + 1) % at.program->num_streams;
  return true;
}

bool SwapSteps(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t i) {
    return i + 1 < program.steps.size() && program.steps[i + 1].device == s.device;
  });
  if (at.step == nullptr) return false;
  std::swap(*at.step, Edit(at.program->steps[at.index + 1]));
  return true;
}

// Leaves the step's place to the one before it, done twice.
bool DropStep(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t i) {
    return i > 0 && s.kind == StepKind::kLaunch && program.steps[i - 1].kind == StepKind::kLaunch &&
           program.steps[i - 1].device == s.device;
  });
  if (at.step == nullptr) return false;
  const Step before = at.program->steps[at.index - 1];
  at.step->kernel = before.kernel;
  at.step->bindings = before.bindings;
  return true;
}

// The step is taken out, and partitions and lifetimes are renumbered as a planner would.
bool LeaveOutStep(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t) {
    return program.steps.size() > 1 && s.kind == StepKind::kLaunch && s.records == kNone;
  });
  if (at.step == nullptr) return false;
  const auto number = static_cast<uint32_t>(at.program - &Edit(p.plan.programs[0]));
  const uint32_t gone = at.index;
  for (const Partition& partition : at.program->partitions) {
    Partition& q = Edit(partition);
    if (q.first_step > gone) {
      --q.first_step;
    } else if (gone < q.first_step + q.num_steps) {
      if (--q.num_steps == 0) return false;
    }
  }
  for (const Step& step : at.program->steps) {
    for (const uint32_t& after : step.after) {
      if (after == gone) return false;
      if (after > gone) --Edit(after);
    }
  }
  for (const Buffer& buffer : p.plan.buffers) {
    Buffer& b = Edit(buffer);
    if (b.program != number || b.first_step > b.last_step) continue;
    if (b.last_step >= gone && b.last_step > 0) --b.last_step;
    if (b.first_step > gone) --b.first_step;
  }
  return Remove(p, &at.program->steps, gone);
}

bool OtherDevice(Patient& p) {
  const size_t devices = p.plan.requirements.devices.size();
  Place at = PickStep(p, [&](const Program&, const Step&, uint32_t) { return devices > 1; });
  if (at.step == nullptr) return false;
  at.step->device = static_cast<uint32_t>((at.step->device + 1) % devices);
  return true;
}

bool OtherKernel(Patient& p) {
  Place at = PickStep(p, Launches);
  if (at.step == nullptr || p.plan.kernels.size() < 2) return false;
  std::vector<uint32_t> fitting;
  for (uint32_t k = 0; k < p.plan.kernels.size(); ++k) {
    if (k != at.step->kernel && p.plan.kernels[k].num_params == p.plan.kernels[at.step->kernel].num_params)
      fitting.push_back(k);
  }
  if (fitting.empty()) return false;
  at.step->kernel = fitting[p.random.Below(fitting.size())];
  return true;
}

bool OtherBuffer(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.bindings.empty(); });
  if (at.step == nullptr) return false;
  Binding* binding = Pick(p, at.step->bindings);
  const auto other = static_cast<uint32_t>(p.random.Below(p.plan.buffers.size()));
  if (other == binding->buffer) return false;
  binding->buffer = other;
  return true;
}

bool SwapBindings(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return s.bindings.size() > 1; });
  if (at.step == nullptr) return false;
  Binding *a = Pick(p, at.step->bindings), *b = Pick(p, at.step->bindings);
  if (a->buffer == b->buffer) return false;
  std::swap(*a, *b);
  return true;
}

bool ShiftBinding(Patient& p) {
  Place at = PickStep(p, [](const Program&, const Step& s, uint32_t) { return !s.bindings.empty(); });
  if (at.step == nullptr) return false;
  Pick(p, at.step->bindings)->offset += 64;
  return true;
}

bool CopyLess(Patient& p) {
  Place at = PickStep(
      p, [](const Program&, const Step& s, uint32_t) { return s.kind == StepKind::kCopy && s.bytes > 4; });
  if (at.step == nullptr) return false;
  at.step->bytes -= 4;
  return true;
}

// ---------------------------------------------------------------------------------------- contracts

bool FewerRounds(Patient& p) {
  std::vector<int64_t*> found;
  for (const Kernel& kernel : p.plan.kernels) {
    for (const Part& part : kernel.parts) {
      for (const int64_t& extent : part.loops) {
        if (extent > 1) found.push_back(&Edit(extent));
      }
    }
  }
  if (found.empty()) return false;
  --*found[p.random.Below(found.size())];
  return true;
}

bool MoreRounds(Patient& p) {
  std::vector<int64_t*> found;
  for (const Kernel& kernel : p.plan.kernels) {
    for (const Part& part : kernel.parts) {
      for (const int64_t& extent : part.loops) found.push_back(&Edit(extent));
    }
  }
  if (found.empty()) return false;
  ++*found[p.random.Below(found.size())];
  return true;
}

bool OtherStride(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand& a) { return !a.strides.empty(); });
  if (o == nullptr) return false;
  Edit(o->strides[p.random.Below(o->strides.size())]) += Sign(p);
  return true;
}

bool ZeroStride(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand& a) {
    return std::any_of(a.strides.begin(), a.strides.end(), [](int64_t s) { return s != 0; });
  });
  if (o == nullptr) return false;
  for (const int64_t& stride : o->strides) {
    if (stride != 0) return Edit(stride) = 0, true;
  }
  return false;
}

bool OtherOffset(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand&) { return true; });
  if (o == nullptr) return false;
  o->offset += Sign(p);
  return true;
}

bool WriteIsRead(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand& a) { return a.mode != Mode::kRead; });
  if (o == nullptr) return false;
  o->mode = Mode::kRead;
  return true;
}

bool ReadIsWrite(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand& a) { return a.mode == Mode::kRead; });
  if (o == nullptr) return false;
  o->mode = Mode::kWrite;
  return true;
}

bool OtherParameter(Patient& p) {
  std::vector<std::pair<Operand*, uint16_t>> found;
  for (const Kernel& kernel : p.plan.kernels) {
    if (kernel.num_params < 2) continue;
    for (const Part& part : kernel.parts) {
      for (const Operand& o : part.operands) found.emplace_back(&Edit(o), kernel.num_params);
    }
  }
  if (found.empty()) return false;
  auto& [operand, params] = found[p.random.Below(found.size())];
  operand->param = static_cast<uint16_t>((operand->param + 1 + p.random.Below(params - 1u)) % params);
  return true;
}

bool Guarded(const Part&, const Operand& a) { return !a.guards.empty(); }

bool DropGuard(Patient& p) {
  Operand* o = PickOperand(p, Guarded);
  return o != nullptr && Remove(p, &o->guards, p.random.Below(o->guards.size()));
}

bool WiderGuard(Patient& p) {
  Operand* o = PickOperand(p, Guarded);
  if (o == nullptr) return false;
  ++Pick(p, o->guards)->extent;
  return true;
}

bool ShiftedGuard(Patient& p) {
  Operand* o = PickOperand(p, Guarded);
  if (o == nullptr) return false;
  Pick(p, o->guards)->offset += Sign(p);
  return true;
}

bool NarrowerGuardedWrite(Patient& p) {
  Operand* o = PickOperand(
      p, [](const Part&, const Operand& a) { return !a.guards.empty() && a.mode != Mode::kRead; });
  if (o == nullptr) return false;
  Guard* guard = Pick(p, o->guards);
  if (guard->extent < 2) return false;
  --guard->extent;
  return true;
}

bool WiderIndex(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand& a) { return !a.indirects.empty(); });
  if (o == nullptr) return false;
  ++Pick(p, o->indirects)->extent;
  return true;
}

bool OtherIndexStride(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand& a) { return !a.indirects.empty(); });
  if (o == nullptr) return false;
  Pick(p, o->indirects)->stride += Sign(p);
  return true;
}

bool OtherElementType(Patient& p) {
  Operand* o = PickOperand(p, [](const Part&, const Operand& a) { return a.dtype == DType::kF32; });
  if (o == nullptr) return false;
  o->dtype = p.random.OneIn(2) ? DType::kF64 : DType::kF16;
  return true;
}

bool LessWorkspace(Patient& p) {
  std::vector<Kernel*> found;
  for (const Kernel& kernel : p.plan.kernels) {
    if (kernel.workspace_param != kNoOperand) found.push_back(&Edit(kernel));
  }
  if (found.empty()) return false;
  Kernel* kernel = found[p.random.Below(found.size())];
  kernel->workspace_bytes += 64;
  return true;
}

// -------------------------------------------------------------------------------------- collectives

SyncPoint* PickPoint(Patient& p) {
  std::vector<SyncPoint*> found;
  for (const Program& program : p.plan.programs) {
    for (const SyncPoint& point : program.sync_points) found.push_back(&Edit(point));
  }
  return found.empty() ? nullptr : found[p.random.Below(found.size())];
}

void Certify(Patient& p) {
  for (const Program& program : p.plan.programs) {
    for (uint32_t d = 0; d < program.certificates.size(); ++d)
      Edit(program.certificates[d]) = OrderCertificate(program, d);
  }
}

bool ShortCollective(Patient& p) {
  SyncPoint* point = PickPoint(p);
  if (point == nullptr || point->bytes < 8) return false;
  point->bytes /= 2;
  Certify(p);
  return true;
}

bool OtherCollective(Patient& p) {
  SyncPoint* point = PickPoint(p);
  if (point == nullptr) return false;
  point->op = static_cast<CollectiveOp>((static_cast<int>(point->op) + 1 + p.random.Below(3)) % 4);
  Certify(p);
  return true;
}

bool FewerParticipants(Patient& p) {
  SyncPoint* point = PickPoint(p);
  if (point == nullptr || point->participants.size() < 2) return false;
  const bool removed = Remove(p, &point->participants, p.random.Below(point->participants.size()));
  Certify(p);
  return removed;
}

bool IsWait(const Step& s) { return s.kind == StepKind::kCollectiveWait; }

// The wait comes one step later than it did, past whoever needs the result.
bool LateWait(Patient& p) {
  Place at = PickStep(p, [](const Program& program, const Step& s, uint32_t i) {
    return IsWait(s) && i + 1 < program.steps.size() && program.steps[i + 1].device == s.device;
  });
  if (at.step == nullptr) return false;
  std::swap(*at.step, Edit(at.program->steps[at.index + 1]));
  return true;
}

bool SwapCollectives(Patient& p) {
  Place a = PickStep(
      p, [](const Program&, const Step& s, uint32_t) { return s.kind == StepKind::kCollectiveStart; });
  if (a.step == nullptr) return false;
  Place b = PickStep(p, [&](const Program& program, const Step& s, uint32_t) {
    return &program == a.program && s.kind == StepKind::kCollectiveStart && s.device == a.step->device &&
           s.sync_point != a.step->sync_point;
  });
  if (b.step == nullptr) return false;
  std::swap(a.step->sync_point, b.step->sync_point);
  Certify(p);
  return true;
}

// -------------------------------------------------------------------------------------------- ports

bool SwapPorts(Patient& p) {
  std::vector<Program*> found;
  for (const Program& program : p.plan.programs) {
    if (program.inputs.size() > 1) found.push_back(&Edit(program));
  }
  if (found.empty()) return false;
  Program* program = found[p.random.Below(found.size())];
  Port *a = Pick(p, program->inputs), *b = Pick(p, program->inputs);
  if (a->buffer == b->buffer) return false;
  std::swap(a->buffer, b->buffer);
  return true;
}

bool OutputOfATemporary(Patient& p) {
  Program* program = Pick(p, p.plan.programs);
  if (program == nullptr || program->outputs.empty()) return false;
  Pick(p, program->outputs)->buffer = static_cast<uint32_t>(p.random.Below(p.plan.buffers.size()));
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
    {"steps: an event is not waited for", DropWait},
    {"steps: an event is not recorded", DropRecord},
    {"steps: a control dependency is dropped", DropAfter},
    {"steps: one moves to another stream", OtherStream},
    {"steps: two neighbours change places", SwapSteps},
    {"steps: one is done twice, the next not", DropStep},
    {"steps: one is left out, all renumbered", LeaveOutStep},
    {"steps: one moves to another device", OtherDevice},
    {"steps: another kernel", OtherKernel},
    {"steps: a parameter is bound to another buffer", OtherBuffer},
    {"steps: two parameters are exchanged", SwapBindings},
    {"steps: a parameter is bound 64 bytes on", ShiftBinding},
    {"steps: a copy is four bytes shorter", CopyLess},
    {"contract: a loop has a round less", FewerRounds},
    {"contract: a loop has a round more", MoreRounds},
    {"contract: another stride", OtherStride},
    {"contract: a stride is zero", ZeroStride},
    {"contract: another offset", OtherOffset},
    {"contract: a write is said to be a read", WriteIsRead},
    {"contract: a read is said to be a write", ReadIsWrite},
    {"contract: another parameter", OtherParameter},
    {"contract: a guard is dropped", DropGuard},
    {"contract: a guard lets one more in", WiderGuard},
    {"contract: a guard is shifted", ShiftedGuard},
    {"contract: a guarded write lacks its last", NarrowerGuardedWrite},
    {"contract: an index may be one greater", WiderIndex},
    {"contract: an index steps wider or less wide", OtherIndexStride},
    {"contract: another element type", OtherElementType},
    {"contract: more workspace than is bound", LessWorkspace},
    {"collective: half the bytes", ShortCollective},
    {"collective: another one", OtherCollective},
    {"collective: a participant less", FewerParticipants},
    {"collective: waited for a step later", LateWait},
    {"collective: two exchanged on one device", SwapCollectives},
    {"ports: two inputs exchanged", SwapPorts},
    {"ports: an output of another buffer", OutputOfATemporary},
};

}  // namespace

Span<const DefectKind> DefectKinds() { return Span<const DefectKind>(kKinds, std::size(kKinds)); }

}  // namespace rondo::defects
