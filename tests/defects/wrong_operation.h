// WrongOperation: changes one operation of one kernel into another, always the same, as a faulty code
// generator or a bad rewrite of a pass could. Memory and order stay as they are, so no checker sees it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/plan.h"

namespace rondo::defects {

struct WrongOperation {
  uint32_t kernel = 0, part = 0;
  std::string step_source;  // the source of the first step that launches the kernel
  std::string node;         // the label of the operation's ONNX node
  std::string what;         // "erf becomes tanh"
  // The tape of the part and the instruction; unused for the matmul or convolution itself.
  int tape = 0;  // body, epilogue, then stages; -1: the lhs is read at its first place along k
  uint32_t instruction = 0;
};

// All changes that can be planted in kernels that a single step launches, where the operation's node is
// certain: the operation is the only one of its kind in the kernel, and the node the only one of that kind.
std::vector<WrongOperation> WrongOperations(const PlanData& plan);

// Plants one of them. `plan` lies in writable memory (see defect_kinds.h).
void Plant(const PlanData& plan, const WrongOperation& operation);

}  // namespace rondo::defects
