#include "compiler/codegen/cuda/reduce_ops.h"

#include "compiler/codegen/cuda/text_writer.h"

namespace rondo::cuda {

const char* Combiner(TapeOp op) {
  switch (op) {
    case TapeOp::kReduceSum: return "Sum";
    case TapeOp::kReduceProd: return "Prod";
    case TapeOp::kReduceMax: return "Max";
    default: return "Min";
  }
}

const char* StartText(TapeOp op, TapeType type) {
  if (op == TapeOp::kReduceSum) return "0";
  if (op == TapeOp::kReduceProd) return "1";
  const bool max = op == TapeOp::kReduceMax;
  if (type == TapeType::kI64) return max ? "(i64)0x8000000000000000ull" : "0x7fffffffffffffffll";
  return max ? "bits_float(0xff800000u)" : "bits_float(0x7f800000u)";
}

std::string ArgArguments(const TapeInst& inst) {
  return Truth(inst.op == TapeOp::kReduceArgMax) + ", " + Truth(inst.imm.i == 1);
}

}  // namespace rondo::cuda
