#include "compiler/codegen/cuda/batches.h"

#include <algorithm>

namespace rondo::cuda {

bool IsVectorAlong(const PartContext& context, size_t index, size_t along, int lanes) {
  return lanes == 1 || (MovesAlong(context.part, context.part.operands[index], along) &&
                        FitsLanes(context, index, along, lanes));
}

std::vector<size_t> ReadableAhead(const PartContext& context, Tape tape, int lanes) {
  const Part& part = context.part;
  if (part.loops.empty()) return {};
  return LoadsAhead(context, tape, [&](size_t index) {
    return !IsWritten(part, part.operands[index].param) &&
           IsVectorAlong(context, index, part.loops.size() - 1, lanes);
  });
}

int64_t BatchSize(const Part& part, const std::vector<size_t>& operands, int lanes, int64_t bytes_ahead) {
  int64_t bytes = 0;
  for (size_t index : operands) bytes += lanes * ByteSize(part.operands[index].dtype);
  return std::clamp<int64_t>(bytes_ahead / std::max<int64_t>(1, bytes), 2, kMostAhead);
}

int64_t PointsOfThread(const PartContext& context, int64_t points, int64_t most) {
  constexpr double kLeastBlocks = 4;  // a multiprocessor
  while (most > 1 && static_cast<double>(points / kCudaBlock / most) < kLeastBlocks * context.Processors())
    most /= 2;
  return most;
}

bool HasIndexIn(const Operand& operand, const std::vector<size_t>& ahead) {
  return std::any_of(operand.indirects.begin(), operand.indirects.end(), [&](const Indirect& indirect) {
    return std::find(ahead.begin(), ahead.end(), indirect.operand) != ahead.end();
  });
}

}  // namespace rondo::cuda
