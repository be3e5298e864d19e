#include "compiler/codegen/cuda/matmul/byte_operands.h"

#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

bool MultipliesBytes(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kMostDepth = 33000;
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[MatricesOf(part, problem)[0]].dtype;
  const bool integers = part.acc_type == TapeType::kI64 && Is8Bit(a) && Is8Bit(b) && problem.k <= kMostDepth;
  const bool fp8 = part.acc_type == TapeType::kF32 && IsFp8(a) && IsFp8(b) && context.target.fp8();
  return (integers || fp8) && part.prologue.empty();
}

std::string BytesText(DType a, DType b) {
  const auto is = [&](DType type) {
    return std::string(a == type ? "<true, " : "<false, ") + (b == type ? "true>" : "false>");
  };
  return IsFp8(a) ? "Fp8Bytes" + is(DType::kE5M2) : "IntegerBytes" + is(DType::kI8);
}

}  // namespace rondo::cuda
