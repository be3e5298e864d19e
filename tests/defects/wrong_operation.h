// WrongOperation: one operation of one kernel that computes something else, always the same, as a faulty code
// generator or a bad rewriting of a pass would leave it. Memory and order stay as they are, so no checker
// sees it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/plan.h"

namespace rondo::defects {

struct WrongOperation {
  uint32_t kernel = 0, part = 0;
  std::string step_source;  // of the first step that launches the kernel
  std::string node;         // the label of the ONNX node that the operation is
  std::string what;         // "erf becomes tanh"
  // Which tape of the part, and which instruction; of a matmul or convolution itself: none.
  int tape = 0;  // body, epilogue, then stages; -1: the lhs is read at its first place along k
  uint32_t instruction = 0;
};

// All that can be planted in kernels that one step launches, and of which it is plain what node they are: the
// only operation of its sort in the kernel, of the only node of that sort.
std::vector<WrongOperation> WrongOperations(const PlanData& plan);

// Plants one of them. `plan` is writable underneath (as defect_kinds.h says).
void Plant(const PlanData& plan, const WrongOperation& operation);

}  // namespace rondo::defects
