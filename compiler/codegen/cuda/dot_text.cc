// Products of so little that a warp computes each point: both sides read as vectors along the depth, a right
// side that never changes before the kernels ahead are complete.
#include <algorithm>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

std::string Text(int64_t n) { return std::to_string(n); }

bool HasVectors(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

}  // namespace

std::optional<PartText::DotShape> PartText::ShapeOfDots() const {
  const size_t first = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
  const Operand& lhs = part_.operands[part_.lhs];
  if (part_.acc_type != TapeType::kF32 || !part_.prologue.empty() || all == first || !HasVectors(lhs.dtype) ||
      !IsPlain(lhs))
    return std::nullopt;
  DotShape shape;
  int lanes = VectorAlong(part_, lhs, all - 1, params_[lhs.param]);
  for (uint16_t index : part_.rhs) {
    const Operand& rhs = part_.operands[index];
    if (!HasVectors(rhs.dtype) || !IsPlain(rhs)) return std::nullopt;
    lanes = std::min(lanes, VectorAlong(part_, rhs, all - 1, params_[rhs.param]));
    // Words, not parts of them.
    if (lanes * ByteSize(rhs.dtype) % 4 != 0) return std::nullopt;
    shape.words += lanes * ByteSize(rhs.dtype) / 4;
  }
  if (lanes < 2 || lanes * ByteSize(lhs.dtype) % 4 != 0) return std::nullopt;
  shape.lanes = lanes;
  shape.vectors = Points(first, all) / lanes;
  shape.rounds = (shape.vectors + 31) / 32;
  constexpr int64_t kMostWords = 64;
  if (shape.rounds * shape.words > kMostWords) return std::nullopt;
  return shape;
}

Status PartText::Dots(const DotShape& shape) {
  const size_t first = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
  const int64_t points = Points(0, first);
  headers_.insert({"reductions", "vectors"});
  launch_.block = static_cast<double>(points) >= 8 * Processors() ? kCudaBlock : 64;
  const int64_t points_a_block = launch_.block / 32;
  Line("const u64 point = (u64)block * " + Text(points_a_block) + " + threadIdx.x / 32;");
  Line("if (point >= " + Text(points) + "ull) return;");
  Line("const u32 lane = threadIdx.x % 32;");
  Decode("point", 0, first);
  // The vectors of this lane: opens two scopes.
  const auto open_rounds = [&] {
    Line("#pragma unroll");
    Line("for (int round = 0; round < " + Text(shape.rounds) + "; ++round) {");
    Line("const u32 vector = lane + round * 32;");
    Line(shape.vectors % 32 == 0 ? "{" : "if (vector < " + Text(shape.vectors) + "u) {");
    Line("const u32 first = vector * " + Text(shape.lanes) + "u;");
    Decode("first", first, all);
  };
  const bool early = RightIsConstant();
  if (!early) Line("wait_for_earlier();");
  for (size_t j = 0; j < part_.rhs.size(); ++j) {
    const int64_t words = shape.lanes * ByteSize(part_.operands[part_.rhs[j]].dtype) / 4;
    Line("float acc" + Text(static_cast<int64_t>(j)) + " = 0; u32 right" + Text(static_cast<int64_t>(j)) +
         "[" + Text(shape.rounds) + "][" + Text(words) + "];");
  }
  open_rounds();
  for (size_t j = 0; j < part_.rhs.size(); ++j)
    LoadRaw(part_.rhs[j], shape.lanes, "right" + Text(static_cast<int64_t>(j)) + "[round]");
  Close(2);
  if (early) Line("wait_for_earlier();");
  open_rounds();
  const std::string lanes = Text(shape.lanes);
  const Operand& lhs = part_.operands[part_.lhs];
  Line("u32 left[" + Text(shape.lanes * ByteSize(lhs.dtype) / 4) + "]; float x[" + lanes + "], y[" + lanes +
       "];");
  LoadRaw(part_.lhs, shape.lanes, "left");
  Line(std::string("widen_") + rondo::Name(lhs.dtype) + "<" + lanes + ">(left, x);");
  for (size_t j = 0; j < part_.rhs.size(); ++j) {
    const std::string n = Text(static_cast<int64_t>(j));
    Line(std::string("widen_") + rondo::Name(part_.operands[part_.rhs[j]].dtype) + "<" + lanes + ">(right" +
         n + "[round], y);");
    Line("#pragma unroll");
    Line("for (int e = 0; e < " + lanes + "; ++e) acc" + n + " = __fmaf_rn(x[e], y[e], acc" + n + ");");
  }
  Close(2);
  for (size_t j = 0; j < part_.rhs.size(); ++j) {
    const std::string n = Text(static_cast<int64_t>(j));
    Line("acc" + n + " = reduce<Sum, 32>(acc" + n + ");");
  }
  Line("if (lane != 0) return;");
  for (size_t l = first; l < all; ++l)
    Line("const i64 i" + Text(static_cast<int64_t>(l)) + " = 0; (void)i" + Text(static_cast<int64_t>(l)) +
         ";");
  WriteTape(part_.epilogue, "r");
  return SetBlocks((points + points_a_block - 1) / points_a_block);
}

}  // namespace rondo::cuda
