// The reductions of tapes as they stand in the text. Internal to compiler/codegen/cuda.
#pragma once

#include <string>

#include "core/kernel.h"

namespace rondo::cuda {

constexpr bool IsArgReduction(TapeOp op) {
  return op == TapeOp::kReduceArgMax || op == TapeOp::kReduceArgMin;
}
constexpr bool IsReduction(TapeOp op) { return op >= TapeOp::kReduceSum && op <= TapeOp::kReduceArgMin; }

// What joins two values: "Sum", "Prod", "Max", "Min".
const char* Combiner(TapeOp op);
// What a thread starts from.
const char* StartText(TapeOp op, TapeType type);
// Of a position: whether it is the greatest's, and whether the last of equals: "true, false".
std::string ArgArguments(const TapeInst& inst);

}  // namespace rondo::cuda
