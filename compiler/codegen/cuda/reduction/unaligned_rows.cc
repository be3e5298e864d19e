#include "compiler/codegen/cuda/reduction/unaligned_rows.h"

#include <algorithm>

#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"

namespace rondo::cuda {

namespace {

// Whether vectors of so many elements suit the operand somewhere in each row.
bool HasAligned(const PartContext& context, size_t index, int64_t lanes) {
  const Operand& operand = context.part.operands[index];
  const size_t along = context.part.loops.size() - 1;
  const FlatOperand flat = Flatten(context.part, operand);
  const int64_t bytes = lanes * ByteSize(operand.dtype);
  return (HasVectors(operand.dtype) || HasTapeVectors(operand.dtype)) && operand.indirects.empty() &&
         flat.coordinates.empty() && flat.strides[along] == 1 && operand.absent == 0 && bytes >= 4 &&
         context.params[operand.param].alignment % static_cast<uint64_t>(std::min<int64_t>(16, bytes)) == 0;
}

// Whether the rows of both begin equally far from an aligned element.
bool BeginAlike(const Part& part, size_t a, size_t b, int64_t lanes) {
  const FlatOperand one = Flatten(part, part.operands[a]), other = Flatten(part, part.operands[b]);
  for (size_t l = 0; l < part.outer; ++l)
    if (part.loops[l] > 1 && (one.strides[l] - other.strides[l]) % lanes != 0) return false;
  return (one.offset - other.offset) % lanes == 0;
}

}  // namespace

std::optional<UnalignedRows> UnalignedRowsOf(const PartContext& context) {
  const Part& part = context.part;
  const size_t along = part.loops.size() - 1;
  if (context.Points(part.outer, along) != 1) return std::nullopt;
  std::vector<size_t> moving = RowOperands(part);
  std::erase_if(moving, [&](size_t index) { return !MovesAlong(part, part.operands[index], along); });
  int64_t least = 4;  // bytes
  for (size_t index : moving) least = std::min(least, ByteSize(part.operands[index].dtype));
  UnalignedRows rows;
  rows.lanes = static_cast<int>(16 / std::max<int64_t>(least, 2));
  int64_t most = 0;
  for (size_t like : moving) {
    if (!HasAligned(context, like, rows.lanes)) continue;
    std::vector<bool> vectors(part.operands.size(), false);
    int64_t bytes = 0;  // of an element, over all accesses
    for (size_t index : moving) {
      vectors[index] = HasAligned(context, index, rows.lanes) && BeginAlike(part, like, index, rows.lanes);
      bytes += vectors[index] ? ByteSize(part.operands[index].dtype) : 0;
    }
    if (bytes <= most) continue;
    most = bytes;
    rows.vectors = vectors;
    rows.representative = like;
    rows.all = std::all_of(moving.begin(), moving.end(), [&](size_t index) { return vectors[index]; });
  }
  return most > 0 ? std::optional(rows) : std::nullopt;
}

void DeclareVectors(const PartContext& context, const UnalignedRows& rows, PartWriter* writer) {
  const size_t along = context.part.loops.size() - 1;
  FlatOperand flat = Flatten(context.part, context.part.operands[rows.representative]);
  std::fill(flat.strides.begin() + static_cast<std::ptrdiff_t>(context.part.outer), flat.strides.end(), 0);
  writer->Line("const u32 head = (0u - (u32)(" + AffineText(flat.offset, flat.strides) + ")) % " +
               Text(rows.lanes) + "u;");
  writer->Line("const u32 vectors = (" + Text(context.part.loops[along]) + "u - head) / " + Text(rows.lanes) +
               "u;");
}

void OpenEdge(const PartContext& context, int lanes, PartWriter* writer) {
  const size_t all = context.part.loops.size();
  writer->Line("{ const u32 edge = lane < head ? lane : lane + vectors * " + Text(lanes) + "u;");
  writer->Line("if (edge < " + Text(context.part.loops[all - 1]) + "u) {");
  writer->Decode("edge", context.part.outer, all);
}

}  // namespace rondo::cuda
