#include "compiler/codegen/cuda/map/colliding_writes.h"

#include <algorithm>

#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

bool Equal(Span<const int64_t> a, Span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Whether two operands of the part refer to the same element at every point.
bool SameElement(const Part& part, const Operand& a, const Operand& b) {
  if (a.param != b.param || a.dtype != b.dtype || a.offset != b.offset || !Equal(a.strides, b.strides) ||
      !a.guards.empty() || !b.guards.empty() || a.indirects.size() != b.indirects.size())
    return false;
  for (size_t k = 0; k < a.indirects.size(); ++k) {
    const Indirect &one = a.indirects[k], &other = b.indirects[k];
    const Operand &index = part.operands[one.operand], &other_index = part.operands[other.operand];
    if (one.stride != other.stride || one.extent != other.extent || one.wrap != other.wrap ||
        index.param != other_index.param || index.dtype != other_index.dtype ||
        index.offset != other_index.offset || !Equal(index.strides, other_index.strides))
      return false;
  }
  return true;
}

// How often a register is read.
int64_t ReadersOf(Tape tape, uint16_t reg) {
  int64_t readers = 0;
  for (const TapeInst& inst : tape) {
    const int inputs = Inputs(inst.op);
    readers += (inputs > 0 && inst.a == reg) + (inputs > 1 && inst.b == reg) + (inputs > 2 && inst.c == reg);
  }
  return readers;
}

}  // namespace

std::optional<size_t> CollidingWrite(const Part& part) {
  const std::vector<size_t> stored = Touched(part.body, TapeOp::kStore);
  if (!part.sequential || stored.size() != 1) return std::nullopt;
  const Operand& out = part.operands[stored[0]];
  if (out.indirects.empty() || !out.guards.empty()) return std::nullopt;
  for (const Indirect& indirect : out.indirects) {
    const Operand& index = part.operands[indirect.operand];
    if (!IsPlain(index) || index.param == out.param) return std::nullopt;
  }
  for (size_t index : Touched(part.body, TapeOp::kLoad)) {
    const Operand& read = part.operands[index];
    if (read.param == out.param && !SameElement(part, read, out)) return std::nullopt;
    for (const Indirect& indirect : read.indirects) {
      if (part.operands[indirect.operand].param == out.param) return std::nullopt;
    }
  }
  return stored[0];
}

std::optional<Update> UpdateOf(const Part& part) {
  const std::optional<size_t> stored = CollidingWrite(part);
  if (!stored || part.body.empty() || part.body.back().op != TapeOp::kStore) return std::nullopt;
  const Operand& out = part.operands[*stored];
  // Rounding to the element's type is what storing does anyway.
  const TapeInst* made = &part.body[part.body.back().a];
  if (made->op == TapeOp::kCast && made->imm.i == static_cast<int64_t>(out.dtype)) made = &part.body[made->a];
  if (made->op != TapeOp::kAdd && made->op != TapeOp::kMul && made->op != TapeOp::kMax &&
      made->op != TapeOp::kMin)
    return std::nullopt;
  const auto loads = [&](uint16_t reg) {
    const TapeInst& inst = part.body[reg];
    return inst.op == TapeOp::kLoad && part.operands[inst.arg].param == out.param;
  };
  if (loads(made->a) == loads(made->b)) return std::nullopt;
  const bool first = loads(made->a);
  const Update update = {*stored, made->op, first ? made->b : made->a, first ? made->a : made->b};
  int64_t reads = 0;
  for (uint16_t k = 0; k < part.body.size(); ++k) reads += loads(k);
  if (reads != 1 || ReadersOf(part.body, update.was) != 1) return std::nullopt;
  return update;
}

int64_t Reach(const Part& part, const Operand& operand) {
  int64_t last = 0;
  const auto add = [&](int64_t stride, int64_t extent) {
    if (last < 0 || stride < 0 || (stride > 0 && extent - 1 > ((int64_t{1} << 40) - last) / stride))
      last = -1;
    else
      last += stride * (extent - 1);
  };
  for (size_t d = 0; d < part.loops.size(); ++d) add(operand.strides[d], part.loops[d]);
  for (const Indirect& indirect : operand.indirects) add(indirect.stride, indirect.extent);
  return last + 1;
}

int64_t BlocksThatShare(const PartContext& context, const Update& update) {
  constexpr int64_t kMost = 1024;     // elements in shared memory
  constexpr int64_t kCrowded = 450;   // updates of a sector
  constexpr int64_t kOfBlock = 1024;  // points, at least
  const Operand& out = context.part.operands[update.out];
  const int64_t points = context.Points(0, context.part.loops.size()), reach = Reach(context.part, out);
  const bool shareable = update.op == TapeOp::kAdd ? out.dtype == DType::kI64
                                                   : update.op == TapeOp::kMax && out.dtype == DType::kF32;
  if (!shareable || reach == 0 || reach > kMost || points >= int64_t{1} << 31) return 0;
  const int64_t blocks =
      std::clamp<int64_t>(points / kOfBlock, 1, 4 * static_cast<int64_t>(context.Processors()));
  const int64_t sectors = (reach * ByteSize(out.dtype) + 31) / 32;
  return points > kCrowded * sectors && points > 4 * reach * blocks ? blocks : 0;
}

bool IndicesMove(const Part& part, const Operand& out, size_t along) {
  return std::any_of(out.indirects.begin(), out.indirects.end(), [&](const Indirect& indirect) {
    return part.operands[indirect.operand].strides[along] != 0;
  });
}

bool AllDifferent(std::vector<std::pair<int64_t, int64_t>> digits) {
  std::sort(digits.begin(), digits.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : digits) {
    if (extent == 1) continue;
    if (stride <= reach || extent > (INT64_MAX - reach) / stride) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

void IndexValues(const PartContext& context, const Operand& out, const std::string& name,
                 PartWriter* writer) {
  for (size_t k = 0; k < out.indirects.size(); ++k) {
    const Indirect& indirect = out.indirects[k];
    const std::string value = name + Text(k);
    const Operand& index = context.part.operands[indirect.operand];
    writer->Line("i64 " + value + " = ld_" + Name(index.dtype) + "(p" + Text(index.param) + ", " +
                 AffineText(index.offset, index.strides) + ");");
    if (indirect.wrap) writer->Line("if (" + value + " < 0) " + value + " += " + Text(indirect.extent) + ";");
  }
}

}  // namespace rondo::cuda
