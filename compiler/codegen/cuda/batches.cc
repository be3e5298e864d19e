#include "compiler/codegen/cuda/batches.h"

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

}  // namespace rondo::cuda
