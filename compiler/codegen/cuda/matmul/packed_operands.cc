#include "compiler/codegen/cuda/matmul/packed_operands.h"

#include <algorithm>
#include <cstdint>

#include "compiler/codegen/cuda/operand_access.h"
#include "core/packed_weights.h"

namespace rondo::cuda {

bool SuitsPacked(const Part& part, const MatmulProblem& problem) {
  const int64_t block = part.packed.block;
  const bool divides = (block & (block - 1)) == 0;
  return part.packed.type != PackedType::kNone && Is16Bit(part.packed.dtype) && problem.batches == 1 &&
         problem.k % 8 == 0 && (divides || block >= problem.k);
}

PackedFormat FormatOf(const Part& part) {
  const DType scale = part.operands[part.scales[0]].dtype;
  PackedFormat format;
  format.type = static_cast<int>(part.packed.type);
  format.bits = BitsOf(part.packed.type);
  // Without blocks along K, the size may be any number of at least K.
  format.block = static_cast<int>(std::min(part.packed.block, int64_t{1} << 30));
  format.scale_bytes = static_cast<int>(ByteSize(scale));
  format.scale_bf16 = scale == DType::kBF16;
  format.zeros = !part.zeros.empty();
  format.zero = part.packed.zero;
  format.bf16 = part.packed.dtype == DType::kBF16;
  return format;
}

bool IsPackedBConstant(const PartContext& context) {
  const Part& part = context.part;
  return AreConstant(context, part.rhs) && AreConstant(context, part.scales) &&
         AreConstant(context, part.zeros);
}

}  // namespace rondo::cuda
