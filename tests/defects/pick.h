// Random places of a plan, and changes there that all kinds of defects share.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "tests/defects/defect_kinds.h"

namespace rondo::defects {

// A patient's spans lie in writable memory.
template <typename T>
T& Edit(const T& t) {
  return const_cast<T&>(t);
}

template <typename T>
T* Pick(Patient& p, Span<const T> list) {
  return list.empty() ? nullptr : &Edit(list[p.random.Below(list.size())]);
}

inline bool InArena(const Buffer& b) {
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

inline int64_t Sign(Patient& p) { return p.random.OneIn(2) ? 1 : -1; }

}  // namespace rondo::defects
