// Every field of a plan with its meaning, from which the mutator chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"

namespace rondo::fuzz {

enum class FieldKind : uint8_t {
  kIndex,   // into a list of `range` entries, or none
  kNumber,  // an offset, stride, extent or count of bytes
  kEnum,    // one of `range` values
  kFlag,    // a bool
  kReal,    // a floating-point number
  kText,
  kList,  // a Span: entries may be left out, repeated, exchanged
};

// One field of a decoded plan. Points into it; valid until a list of it is replaced.
struct Field {
  FieldKind kind = FieldKind::kNumber;
  uint8_t bytes = 0;   // of kIndex and kNumber
  uint32_t group = 0;  // fields of one group are of one kind: "strides of operands"
  uint64_t range = 0;
  void* at = nullptr;  // the field itself; of kList: the Span
  size_t entry = 0;    // of kList: bytes of one entry
  size_t entries = 0;  // of kList
};

// All fields of `plan`, whose spans must lie in writable memory (as in a plan just decoded into an arena).
std::vector<Field> FieldsOf(PlanData* plan);

}  // namespace rondo::fuzz
