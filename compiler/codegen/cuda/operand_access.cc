#include "compiler/codegen/cuda/operand_access.h"

#include <algorithm>

#include "compiler/codegen/cuda/gpu_table.h"
#include "core/guard.h"

namespace rondo::cuda {

FlatOperand Flatten(const Part& part, const Operand& operand) {
  FlatOperand flat;
  flat.offset = operand.offset;
  flat.strides.assign(operand.strides.begin(), operand.strides.end());
  for (const Guard& guard : operand.guards) {
    flat.offset += guard.stride * guard.offset;
    for (size_t l = 0; l < flat.strides.size(); ++l) flat.strides[l] += guard.stride * guard.strides[l];
    if (AlwaysHolds(guard, part.loops)) continue;
    flat.coordinates.push_back(
        {guard.offset, guard.extent, std::vector<int64_t>(guard.strides.begin(), guard.strides.end())});
  }
  return flat;
}

int VectorAlong(const Part& part, const Operand& operand, size_t along, const ParamFacts& facts) {
  FlatOperand flat = Flatten(part, operand);
  if (flat.strides[along] != 1) return 1;
  for (const FlatOperand::Coordinate& coordinate : flat.coordinates) {
    if (coordinate.strides[along] != 0) return 1;
  }
  for (const Indirect& indirect : operand.indirects) {
    if (part.operands[indirect.operand].strides[along] != 0) return 1;
  }
  int64_t size = ByteSize(operand.dtype);
  auto fits = [&](int64_t vector) {
    bool good = part.loops[along] % vector == 0 && flat.offset % vector == 0 &&
                facts.alignment % static_cast<uint64_t>(vector * size) == 0;
    for (size_t l = 0; l < flat.strides.size(); ++l)
      good = good && (l == along || part.loops[l] == 1 || flat.strides[l] % vector == 0);
    for (const Indirect& indirect : operand.indirects) good = good && indirect.stride % vector == 0;
    return good;
  };
  int64_t vector = 16 / size;
  while (vector > 1 && !fits(vector)) vector /= 2;
  return static_cast<int>(vector);
}

bool MovesAlong(const Part& part, const Operand& operand, size_t along) {
  if (operand.strides[along] != 0) return true;
  for (const Guard& guard : operand.guards) {
    if (guard.strides[along] != 0) return true;
  }
  for (const Indirect& indirect : operand.indirects) {
    if (part.operands[indirect.operand].strides[along] != 0) return true;
  }
  return false;
}

bool FitsLanes(const PartContext& context, size_t index, size_t along, int lanes) {
  const Operand& operand = context.part.operands[index];
  const int64_t size = ByteSize(operand.dtype), bytes = std::min<int64_t>(16, lanes * size);
  if (bytes < 4 || (!HasVectors(operand.dtype) && !HasTapeVectors(operand.dtype))) return false;
  return VectorAlong(context.part, operand, along, context.params[operand.param]) * size >= bytes &&
         context.part.loops[along] % lanes == 0;
}

bool IsVectorIndex(const PartContext& context, const Indirect& indirect, size_t along, int lanes) {
  const Operand& index = context.part.operands[indirect.operand];
  return index.dtype == DType::kI32 && IsPlain(index) && index.strides[along] != 0 &&
         FitsLanes(context, indirect.operand, along, lanes);
}

int LanesFor(const PartContext& context, Span<const size_t> operands, size_t along) {
  const Part& part = context.part;
  int64_t least = 4;
  bool any = false;
  for (size_t index : operands) {
    const Operand& operand = part.operands[index];
    if (!MovesAlong(part, operand, along)) continue;
    any = true;
    least = std::min(least, ByteSize(operand.dtype));
  }
  int lanes = any ? static_cast<int>(16 / std::max<int64_t>(least, 2)) : 1;
  const auto fit = [&](size_t index) {
    return !MovesAlong(part, part.operands[index], along) || FitsLanes(context, index, along, lanes);
  };
  while (lanes > 1 && !std::all_of(operands.begin(), operands.end(), fit)) lanes /= 2;
  return lanes;
}

bool IsFlat(const PartContext& context, size_t index, int lanes) {
  const Part& part = context.part;
  const Operand& operand = part.operands[index];
  const int64_t bytes = lanes * ByteSize(operand.dtype);
  const FlatOperand flat = Flatten(part, operand);
  if (bytes < 4 || (!HasVectors(operand.dtype) && !HasTapeVectors(operand.dtype))) return false;
  if (!operand.indirects.empty() || !flat.coordinates.empty() || flat.offset % lanes != 0) return false;
  if (context.params[operand.param].alignment % static_cast<uint64_t>(std::min<int64_t>(16, bytes)) != 0)
    return false;
  int64_t run = 1;
  for (size_t l = part.loops.size(); l-- > 0; run *= part.loops[l]) {
    if (part.loops[l] != 1 && flat.strides[l] != run) return false;
  }
  return true;
}

std::vector<size_t> Touched(Tape tape, TapeOp op) {
  std::vector<size_t> operands;
  for (const TapeInst& inst : tape) {
    if (inst.op != op) continue;
    if (std::find(operands.begin(), operands.end(), inst.arg) == operands.end()) operands.push_back(inst.arg);
  }
  return operands;
}

bool AreConstant(const PartContext& context, Span<const uint16_t> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](uint16_t index) {
    return context.params[context.part.operands[index].param].constant;
  });
}

bool AreStreamed(const PartContext& context, Span<const uint16_t> operands) {
  const double l2_size = GpuTableOf(context.target).l2_size;
  return std::all_of(operands.begin(), operands.end(), [&](uint16_t index) {
    const ParamFacts& facts = context.params[context.part.operands[index].param];
    return facts.constant && static_cast<double>(facts.all_constants) > l2_size;
  });
}

bool IsWritten(const Part& part, uint16_t param) {
  return std::any_of(part.operands.begin(), part.operands.end(), [&](const Operand& operand) {
    return operand.param == param && operand.mode != Mode::kRead;
  });
}

}  // namespace rondo::cuda
