// DefectKind: one kind of fault in a plan that a faulty compiler could cause.
#pragma once

#include "core/arena.h"
#include "core/plan.h"
#include "core/span.h"
#include "tests/fuzz/random.h"

namespace rondo::defects {

// A plan that may be changed: its spans' memory is writable (as in a plan just decoded into an arena). New
// lists come from `arena`.
struct Patient {
  PlanData& plan;
  Arena& arena;
  fuzz::Random& random;
};

struct DefectKind {
  const char* name;  // "an event is not waited for"
  // Plants one defect of the kind at a random place. False, and nothing changed, if the plan has no place for
  // it.
  bool (*plant)(Patient& patient);
};

// All kinds, as a list that lives as long as the process; then those of memory, steps, contracts and
// collectives.
Span<const DefectKind> DefectKinds();
Span<const DefectKind> MemoryDefects();
Span<const DefectKind> StepDefects();
Span<const DefectKind> ContractDefects();
Span<const DefectKind> CollectiveDefects();

}  // namespace rondo::defects
