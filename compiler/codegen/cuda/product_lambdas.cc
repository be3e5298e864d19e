// Lambdas that a fast product's template calls: where an element lies, what a tape makes of it, what becomes
// of a sum.
#include <algorithm>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

std::string Text(int64_t n) { return std::to_string(n); }

// "start + stride * iK + ..." over some loops.
std::string Sum(int64_t start, const std::vector<int64_t>& strides, const std::vector<size_t>& loops) {
  std::string out = IntText(start);
  for (size_t l : loops) {
    if (strides[l] != 0) out += " + " + IntText(strides[l]) + " * i" + Text(static_cast<int64_t>(l));
  }
  return out;
}

}  // namespace

void PartText::DecodeLoops(const std::string& from, const std::vector<size_t>& loops) {
  std::string rest = from;
  for (size_t n = loops.size(); n-- > 0;) {
    std::string l = Text(static_cast<int64_t>(loops[n])), extent = Text(part_.loops[loops[n]]) + "u";
    if (part_.loops[loops[n]] == 1) {
      Line("const i64 i" + l + " = 0; (void)i" + l + ";");
    } else if (n == 0) {
      Line("const i64 i" + l + " = (i64)(" + rest + ");");
    } else {
      Line("const i64 i" + l + " = (i64)((" + rest + ") % " + extent + ");");
      rest = "(" + rest + ") / " + extent;
    }
  }
}

void PartText::ZeroLoops(const std::vector<size_t>& loops) {
  for (size_t l : loops) {
    std::string name = "i" + Text(static_cast<int64_t>(l));
    Line("const i64 " + name + " = 0; (void)" + name + ";");
  }
}

// auto NAME = [](flat number) -> At: what these loops add to the operand's address and coordinates.
void PartText::WritePlace(const std::string& name, const std::vector<size_t>& loops,
                          const FlatOperand& operand, bool from_offset) {
  headers_.insert("place");
  Line("auto " + name + " = [](int flat) -> At { const u32 x = (u32)flat; (void)x;");
  DecodeLoops("x", loops);
  std::string coordinates;
  for (size_t c = 0; c < 3; ++c) {
    if (c >= operand.coordinates.size()) {
      coordinates += ", 0";
      continue;
    }
    const FlatOperand::Coordinate& coordinate = operand.coordinates[c];
    coordinates += ", (int)(" + Sum(from_offset ? coordinate.offset : 0, coordinate.strides, loops) + ")";
  }
  Line("return {" + Sum(from_offset ? operand.offset : 0, operand.strides, loops) + coordinates + "}; };");
}

void PartText::WritePresent(const FlatOperand& operand) {
  std::string all = "true";
  for (size_t c = 0; c < operand.coordinates.size(); ++c)
    all +=
        " && (u32)at.c" + Text(static_cast<int64_t>(c)) + " < " + Text(operand.coordinates[c].extent) + "u";
  Line("auto left_present = [](At at) -> bool { return " + all + "; };");
}

// auto left_value = [&](row, depth) -> float: the left side's element, through its prologue. Of several
// `lanes`: [&](row, depth, float* x), elements along the depth.
void PartText::WriteLeftValue(const ProductShape& shape, int lanes) {
  Line(std::string("auto left_value = [&](int row, int depth") +
       (lanes > 1 ? ", float* x) {" : ") -> float {"));
  DecodeLoops("(u32)batch", shape.batch);
  DecodeLoops("(u32)row", shape.row);
  ZeroLoops(shape.column);
  DecodeLoops("(u32)depth", shape.depth);
  if (lanes > 1) {
    WriteLanes(part_.prologue, "q", shape.depth.back(), lanes, "");
    Line("};");
    return;
  }
  std::string value = "left";
  if (part_.prologue.empty()) {
    Load(part_.lhs, value);
  } else {
    value = WriteTape(part_.prologue, "q");
  }
  Line("return (float)" + value + "; };");
}

// Whether the right side never changes: then it can be read before the kernels ahead are complete.
bool PartText::RightIsConstant() const {
  return std::all_of(part_.rhs.begin(), part_.rhs.end(),
                     [&](uint16_t index) { return params_[part_.operands[index].param].constant; });
}

// auto right_value = [&](right side, column, depth) -> float
void PartText::WriteRightValue(const ProductShape& shape) {
  Line("auto right_value = [&](int side, int column, int depth) -> float {");
  DecodeLoops("(u32)batch", shape.batch);
  ZeroLoops(shape.row);
  DecodeLoops("(u32)column", shape.column);
  DecodeLoops("(u32)depth", shape.depth);
  for (size_t j = 0; j < part_.rhs.size(); ++j) {
    std::string n = Text(static_cast<int64_t>(j));
    Line("if (side == " + n + ") {");
    Load(part_.rhs[j], "value");
    Line("return (float)value; }");
  }
  Line("return 0; };");
}

// Points of the innermost column loop that an epilogue takes at once.
int PartText::FinishVector(const ProductShape& shape) const {
  if (shape.column.empty()) return 1;
  size_t along = shape.column.back();
  for (int vector : {8, 4, 2}) {
    if (part_.loops[along] % vector == 0) return vector;
  }
  return 1;
}

// auto fetch = [&](row, column, u32* words): what the epilogue of `vector` points reads besides sums, as far
// as it lies in vectors. WriteFinish, which comes next, finds it in its argument `words`. Returns their
// number.
int PartText::WriteFetch(const ProductShape& shape, int vector) {
  constexpr int kMost = 16;
  int words = 0;
  Line("auto fetch = [&](int row, int column, u32* words) {");
  DecodeLoops("(u32)batch", shape.batch);
  DecodeLoops("(u32)row", shape.row);
  DecodeLoops("(u32)column", shape.column);
  ZeroLoops(shape.depth);
  lanes_.resize(part_.operands.size());
  for (size_t index : Touched(part_.epilogue, TapeOp::kLoad)) {
    const Operand& operand = part_.operands[index];
    const int own = vector * static_cast<int>(ByteSize(operand.dtype)) / 4;
    const bool fits = vector > 1 && MovesAlong(operand, shape.column.back()) &&
                      FitsLanes(index, shape.column.back(), vector) && operand.absent == 0;
    if (!fits || words + own > kMost) continue;
    lanes_[index] = "(words + " + Text(words) + ")";
    LoadRaw(index, vector, lanes_[index]);
    words += own;
  }
  Line("};");
  return words;
}

// Instructions a point of the epilogue, about.
double PartText::FinishCost() const {
  double cost = 6;
  for (const TapeInst& inst : part_.epilogue) {
    switch (inst.op) {
      case TapeOp::kErf:
      case TapeOp::kTanh:
      case TapeOp::kExp:
      case TapeOp::kSigmoid: cost += 16; break;
      case TapeOp::kConst:
      case TapeOp::kCast: break;
      default: cost += 1;
    }
  }
  return cost;
}

// auto finish = [&](row, column, const float* sums): the epilogue of `vector` points along the innermost
// column loop; sums[j * vector + v] is accumulator j of point v. `more`: further parameters.
void PartText::WriteFinish(const ProductShape& shape, int vector, const std::string& more) {
  quick_ = true;
  for (size_t index : Touched(part_.epilogue, TapeOp::kStore)) {
    const DType dtype = part_.operands[index].dtype;
    quick_ = quick_ && (dtype == DType::kF16 || dtype == DType::kBF16);
  }
  Line("auto finish = [&](int row, int column, const float* sums" + more + ") {");
  DecodeLoops("(u32)batch", shape.batch);
  DecodeLoops("(u32)row", shape.row);
  DecodeLoops("(u32)column", shape.column);
  ZeroLoops(shape.depth);
  if (vector == 1) {
    for (size_t j = 0; j < part_.rhs.size(); ++j) {
      std::string n = Text(static_cast<int64_t>(j));
      Line("const float acc" + n + " = sums[" + n + "];");
    }
    WriteTape(part_.epilogue, "r");
  } else {
    std::string sums;
    for (size_t j = 0; j < part_.rhs.size(); ++j) {
      std::string n = Text(static_cast<int64_t>(j));
      sums += "const float acc" + n + " = sums[" + n + " * " + Text(vector) + " + e];";
    }
    WriteLanes(part_.epilogue, "r", shape.column.back(), vector, sums);
  }
  Line("};");
  quick_ = false;
}

}  // namespace rondo::cuda
