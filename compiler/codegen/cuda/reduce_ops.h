// Text for the reductions of tapes. Internal to compiler/codegen/cuda.
#pragma once

#include <string>

#include "core/kernel.h"

namespace rondo::cuda {

constexpr bool IsArgReduction(TapeOp op) {
  return op == TapeOp::kReduceArgMax || op == TapeOp::kReduceArgMin;
}
constexpr bool IsReduction(TapeOp op) { return op >= TapeOp::kReduceSum && op <= TapeOp::kReduceArgMin; }

// The function that combines two values: "Sum", "Prod", "Max", "Min".
const char* Combiner(TapeOp op);
// The initial value of a thread.
const char* StartText(TapeOp op, TapeType type);
// For arg reductions: whether it is the maximum, and whether the last of equals: "true, false".
std::string ArgArguments(const TapeInst& inst);

}  // namespace rondo::cuda
