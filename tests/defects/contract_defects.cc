// Contracts that differ from the memory that their kernels touch.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/defects/pick.h"

namespace rondo::defects {
namespace {

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

constexpr DefectKind kKinds[] = {
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
};

}  // namespace

Span<const DefectKind> ContractDefects() { return Span<const DefectKind>(kKinds, std::size(kKinds)); }

}  // namespace rondo::defects
