#include "compiler/codegen/cuda/product_shape.h"

#include <algorithm>

namespace rondo::cuda {

namespace {

// Whether the coordinate stays inside its extent at every point.
bool AlwaysInside(const Part& part, const Guard& guard) {
  int64_t low = guard.offset, high = guard.offset;
  for (size_t l = 0; l < part.loops.size(); ++l) {
    int64_t reach = guard.strides[l] * (part.loops[l] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high < guard.extent;
}

bool Same(const Operand& a, const Operand& b) {
  return a.dtype == b.dtype && std::equal(a.strides.begin(), a.strides.end(), b.strides.begin());
}

int64_t Extent(const Part& part, const std::vector<size_t>& loops) {
  int64_t n = 1;
  for (size_t l : loops) n *= part.loops[l];
  return n;
}

// Moves the loop along which `operand` is contiguous to the end.
void PutContiguousLast(const Part& part, const FlatOperand& operand, std::vector<size_t>* loops) {
  auto last = std::find_if(loops->begin(), loops->end(),
                           [&](size_t l) { return operand.strides[l] == 1 && part.loops[l] > 1; });
  if (last != loops->end()) std::rotate(last, last + 1, loops->end());
}

class Shaping {
 public:
  Shaping(const Part& part, Span<const ParamFacts> params) : part_(part), params_(params) {}

  std::optional<ProductShape> Run() {
    if (part_.rhs.empty() || part_.combine != Combine::kProduct) return std::nullopt;
    const Operand& rhs = part_.operands[part_.rhs[0]];
    if (!rhs.indirects.empty() || !rhs.guards.empty()) return std::nullopt;
    for (uint16_t other : part_.rhs) {
      if (!Same(rhs, part_.operands[other])) return std::nullopt;
    }
    rhs_ = Flatten(part_, rhs);
    if (!Split()) return std::nullopt;
    PutContiguousLast(part_, rhs_, &shape_.column);
    PutContiguousLast(part_, rhs_, &shape_.depth);
    ReadLhs();
    ReadRhs();
    shape_.batches = Extent(part_, shape_.batch);
    shape_.rows = Extent(part_, shape_.row);
    shape_.columns = Extent(part_, shape_.column);
    shape_.depths = Extent(part_, shape_.depth);
    constexpr int64_t kMost = 0x7fffffff;
    bool fits = shape_.rows <= kMost && shape_.columns <= kMost && shape_.depths <= kMost;
    return fits ? std::optional<ProductShape>(shape_) : std::nullopt;
  }

 private:
  // Gives each loop its role, by which sides move with it.
  bool Split() {
    size_t first = static_cast<size_t>(EpilogueLoops(part_));
    for (size_t l = 0; l < first; ++l) {
      bool right = rhs_.strides[l] != 0, left = LeftMoves(l);
      if (left && right) {
        shape_.batch.push_back(l);
      } else if (right) {
        shape_.column.push_back(l);
      } else {
        shape_.row.push_back(l);
      }
    }
    for (size_t l = first; l < part_.loops.size(); ++l) shape_.depth.push_back(l);
    return true;
  }

  bool LeftMoves(size_t loop) const {
    if (part_.prologue.empty()) return Moves(part_.operands[part_.lhs], loop);
    for (const TapeInst& inst : part_.prologue) {
      if (inst.op == TapeOp::kLoad && Moves(part_.operands[inst.arg], loop)) return true;
      if (inst.op == TapeOp::kIndex && inst.arg == loop) return true;
    }
    return false;
  }

  bool Moves(const Operand& operand, size_t loop) const {
    if (operand.strides[loop] != 0) return true;
    for (const Guard& guard : operand.guards) {
      if (guard.strides[loop] != 0) return true;
    }
    for (const Indirect& indirect : operand.indirects) {
      if (part_.operands[indirect.operand].strides[loop] != 0) return true;
    }
    return false;
  }

  void ReadLhs() {
    const Operand& lhs = part_.operands[part_.lhs];
    if (!part_.prologue.empty() || !lhs.indirects.empty()) return;
    FlatOperand flat = Flatten(part_, lhs);
    // The depth is counted as the left side lies, if it is contiguous along it.
    PutContiguousLast(part_, flat, &shape_.depth);
    PutContiguousLast(part_, flat, &shape_.row);
    const ParamFacts& facts = params_[lhs.param];
    int depth = VectorAlong(part_, lhs, shape_.depth.back(), facts);
    int row = shape_.row.empty() ? 1 : VectorAlong(part_, lhs, shape_.row.back(), facts);
    shape_.lhs_along_depth = depth >= row;
    shape_.lhs_vector = std::max(depth, row);
  }

  void ReadRhs() {
    int depth = 16, column = 16;
    for (uint16_t index : part_.rhs) {
      const Operand& rhs = part_.operands[index];
      const ParamFacts& facts = params_[rhs.param];
      depth = std::min(depth, VectorAlong(part_, rhs, shape_.depth.back(), facts));
      column =
          std::min(column, shape_.column.empty() ? 1 : VectorAlong(part_, rhs, shape_.column.back(), facts));
    }
    shape_.rhs_along_depth = depth >= column;
    shape_.rhs_vector = std::max(depth, column);
  }

  const Part& part_;
  Span<const ParamFacts> params_;
  FlatOperand rhs_;
  ProductShape shape_;
};

}  // namespace

FlatOperand Flatten(const Part& part, const Operand& operand) {
  FlatOperand flat;
  flat.offset = operand.offset;
  flat.strides.assign(operand.strides.begin(), operand.strides.end());
  for (const Guard& guard : operand.guards) {
    flat.offset += guard.stride * guard.offset;
    for (size_t l = 0; l < flat.strides.size(); ++l) flat.strides[l] += guard.stride * guard.strides[l];
    if (AlwaysInside(part, guard)) continue;
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

std::optional<ProductShape> ShapeOfProduct(const Part& part, Span<const ParamFacts> params) {
  return Shaping(part, params).Run();
}

}  // namespace rondo::cuda
