// Tapes on neighbouring points: what lies next to each other in memory moves as vectors of up to 16 bytes.
#include <algorithm>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

bool HasVectors(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

std::string Text(int64_t n) { return std::to_string(n); }

}  // namespace

bool PartText::MovesAlong(const Operand& operand, size_t along) const {
  if (operand.strides[along] != 0) return true;
  for (const Guard& guard : operand.guards) {
    if (guard.strides[along] != 0) return true;
  }
  for (const Indirect& indirect : operand.indirects) {
    if (part_.operands[indirect.operand].strides[along] != 0) return true;
  }
  return false;
}

bool PartText::FitsLanes(size_t index, size_t along, int lanes) const {
  const Operand& operand = part_.operands[index];
  if (!HasVectors(operand.dtype)) return false;
  const int64_t size = ByteSize(operand.dtype), bytes = std::min<int64_t>(16, lanes * size);
  return VectorAlong(part_, operand, along, params_[operand.param]) * size >= bytes &&
         part_.loops[along] % lanes == 0;
}

int PartText::LanesFor(Span<const size_t> operands, size_t along) const {
  int64_t least = 4;
  bool any = false;
  for (size_t index : operands) {
    const Operand& operand = part_.operands[index];
    if (!MovesAlong(operand, along)) continue;
    any = true;
    least = std::min(least, ByteSize(operand.dtype));
  }
  int lanes = any ? static_cast<int>(16 / std::max<int64_t>(least, 2)) : 1;
  auto fit = [&](size_t index) {
    return !MovesAlong(part_.operands[index], along) || FitsLanes(index, along, lanes);
  };
  while (lanes > 1 && !std::all_of(operands.begin(), operands.end(), fit)) lanes /= 2;
  return lanes;
}

std::vector<size_t> PartText::Touched(Tape tape, TapeOp op) const {
  std::vector<size_t> operands;
  for (const TapeInst& inst : tape) {
    if (inst.op != op) continue;
    if (std::find(operands.begin(), operands.end(), inst.arg) == operands.end()) operands.push_back(inst.arg);
  }
  return operands;
}

void PartText::LoadRaw(size_t index, int lanes, const std::string& name) {
  const Operand& operand = part_.operands[index];
  const int64_t size = ByteSize(operand.dtype);
  headers_.insert("vectors");
  Line("{");
  Address(operand);
  Line("if (ok) load_words<" + Text(lanes * size / 4) + ">(p" + Text(operand.param) + " + a * " + Text(size) +
       ", " + name + ");");
  Line("else fill_words<" + Text(lanes * size / 4) + ">(" + name + "); }");
}

void PartText::WriteLanes(Tape tape, const std::string& prefix, size_t along, int lanes,
                          const std::string& each) {
  const std::string count = Text(lanes), l = Text(static_cast<int64_t>(along));
  headers_.insert("vectors");
  std::vector<std::string> outer_lanes = lanes_;
  lanes_.resize(part_.operands.size());
  for (size_t index : Touched(tape, TapeOp::kLoad)) {
    const Operand& operand = part_.operands[index];
    const std::string n = Text(static_cast<int64_t>(index)), type = rondo::Name(operand.dtype);
    const std::string words = Text(lanes * ByteSize(operand.dtype) / 4);
    std::string raw = lanes_[index];
    if (raw.empty()) {
      if (!MovesAlong(operand, along) || !FitsLanes(index, along, lanes) || operand.absent != 0) continue;
      raw = "raw" + n;
      Line("u32 " + raw + "[" + words + "];");
      LoadRaw(index, lanes, raw);
    }
    Line("float in" + n + "[" + count + "]; widen_" + type + "<" + count + ">(" + raw + ", in" + n + ");");
    lanes_[index] = "in" + n;
  }
  std::vector<size_t> stored;
  for (size_t index : Touched(tape, TapeOp::kStore)) {
    if (!FitsLanes(index, along, lanes)) continue;
    stored.push_back(index);
    lanes_[index] = "out" + Text(static_cast<int64_t>(index));
    Line("float " + lanes_[index] + "[" + count + "];");
  }
  Line("const i64 along = i" + l + ";");
  Line("#pragma unroll");
  Line("for (int e = 0; e < " + count + "; ++e) {");
  Line("const i64 i" + l + " = along + e; (void)i" + l + ";");
  Line(each);
  const std::string yielded = WriteTape(tape, prefix);
  if (!yielded.empty()) Line("x[e] = (float)" + yielded + ";");
  Line("}");
  for (size_t index : stored) {
    const Operand& operand = part_.operands[index];
    Line("{");
    Address(operand);
    Line("if (ok) store_" + std::string(rondo::Name(operand.dtype)) + "<" + count + ">(p" +
         Text(operand.param) + ", a, " + lanes_[index] + "); }");
  }
  lanes_ = outer_lanes;
}

}  // namespace rondo::cuda
