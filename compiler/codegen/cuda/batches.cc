#include "compiler/codegen/cuda/batches.h"

#include <algorithm>

#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

std::vector<size_t> ReadableAhead(const PartContext& context, Tape tape, int lanes) {
  const Part& part = context.part;
  const size_t last = part.loops.size() - 1;
  std::vector<size_t> operands = part.loops.empty() ? std::vector<size_t>() : Touched(tape, TapeOp::kLoad);
  std::erase_if(operands, [&](size_t index) {
    const Operand& operand = part.operands[index];
    if (operand.absent != 0 || IsWritten(part, operand.param)) return true;
    return lanes > 1 && (!MovesAlong(part, operand, last) || !FitsLanes(context, index, last, lanes));
  });
  return operands;
}

bool HasIndexIn(const Operand& operand, const std::vector<size_t>& ahead) {
  return std::any_of(operand.indirects.begin(), operand.indirects.end(), [&](const Indirect& indirect) {
    return std::find(ahead.begin(), ahead.end(), indirect.operand) != ahead.end();
  });
}

}  // namespace rondo::cuda
