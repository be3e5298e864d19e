// Rows on chip: each element of a row is read once and stays in a register of the thread that will need it
// again.
#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kWarpVectors = 128;   // rows of so few vectors are left to one warp
constexpr int64_t kMostRegisters = 96;  // of one thread, for what a row keeps
constexpr int64_t kMostRounds = 16;

std::string Text(int64_t n) { return std::to_string(n); }

}  // namespace

std::vector<size_t> PartText::RowOperands() const {
  std::vector<size_t> touched;
  for (const Stage& stage : part_.stages) {
    if (stage.per_row) continue;
    for (TapeOp op : {TapeOp::kLoad, TapeOp::kStore}) {
      for (size_t index : Touched(stage.tape, op)) touched.push_back(index);
    }
  }
  return touched;
}

bool PartText::IsWritten(uint16_t param) const {
  return std::any_of(part_.operands.begin(), part_.operands.end(), [&](const Operand& operand) {
    return operand.param == param && operand.mode != Mode::kRead;
  });
}

std::vector<size_t> PartText::CachedOperands(const RowShape& shape) const {
  std::vector<int> readers(part_.operands.size(), 0);
  for (const Stage& stage : part_.stages) {
    if (stage.per_row) continue;
    for (size_t index : Touched(stage.tape, TapeOp::kLoad)) ++readers[index];
  }
  std::vector<size_t> cached;
  for (size_t index = 0; index < readers.size(); ++index) {
    const Operand& operand = part_.operands[index];
    const bool early = params_[operand.param].constant && operand.indirects.empty();
    if (readers[index] == 0 || (readers[index] == 1 && !early)) continue;
    if (!MovesAlong(operand, shape.along) || !FitsLanes(index, shape.along, shape.lanes)) continue;
    if (operand.absent == 0 && !IsWritten(operand.param)) cached.push_back(index);
  }
  return cached;
}

std::optional<PartText::RowShape> PartText::ShapeOfRow(Span<const TapeType> kept) const {
  RowShape shape;
  shape.along = part_.loops.size() - 1;
  const std::vector<size_t> touched = RowOperands();
  shape.lanes = LanesFor(touched, shape.along);
  if (shape.lanes == 1 || part_.reduced == 0) return std::nullopt;
  shape.vectors = Points(part_.outer, part_.loops.size()) / shape.lanes;
  const int64_t threads = shape.vectors <= kWarpVectors ? 32 : kCudaBlock;
  shape.rounds = (shape.vectors + threads - 1) / threads;
  if (shape.rounds > kMostRounds) return std::nullopt;
  shape.cached = CachedOperands(shape);
  int64_t registers = 0;
  for (size_t index : shape.cached)
    registers += shape.rounds * shape.lanes * ByteSize(part_.operands[index].dtype) / 4;
  for (TapeType type : kept) registers += shape.rounds * shape.lanes * (type == TapeType::kF32 ? 1 : 2);
  if (registers > kMostRegisters) return std::nullopt;
  return shape;
}

// Opens a loop over this thread's vectors of the row (closes with two braces): the round in `round`, the
// first element in `first`, loop counters at it.
void PartText::OpenRounds(const RowShape& shape) {
  Line("#pragma unroll");
  Line("for (int round = 0; round < " + Text(shape.rounds) + "; ++round) {");
  Line("const u32 vector = lane + round * " + Text(width_) + ";");
  const bool whole = shape.vectors % width_ == 0;
  Line(whole ? "{" : "if (vector < " + Text(shape.vectors) + "u) {");
  Line("const u32 first = vector * " + Text(shape.lanes) + "u;");
  Decode("first", part_.outer, part_.loops.size());
}

void PartText::CacheOperands(const RowShape& shape, bool constant) {
  std::vector<size_t> chosen;
  for (size_t index : shape.cached) {
    const Operand& operand = part_.operands[index];
    if ((params_[operand.param].constant && operand.indirects.empty()) == constant) chosen.push_back(index);
  }
  if (chosen.empty()) return;
  for (size_t index : chosen) {
    Line("u32 cache" + Text(static_cast<int64_t>(index)) + "[" + Text(shape.rounds) + "][" +
         Text(shape.lanes * ByteSize(part_.operands[index].dtype) / 4) + "];");
  }
  OpenRounds(shape);
  for (size_t index : chosen)
    LoadRaw(index, shape.lanes, "cache" + Text(static_cast<int64_t>(index)) + "[round]");
  Close(2);
}

void PartText::RowStage(const RowShape& shape, const Stage& stage, const std::string& prefix) {
  StartReductions(stage.tape);
  OpenRounds(shape);
  lanes_.assign(part_.operands.size(), "");
  for (size_t index : shape.cached) lanes_[index] = "cache" + Text(static_cast<int64_t>(index)) + "[round]";
  kept_index_ = "round * " + Text(shape.lanes) + " + e";
  WriteLanes(stage.tape, prefix, shape.along, shape.lanes,
             "const i64 position = (i64)first + e; (void)position;");
  kept_index_ = "position";
  lanes_.clear();
  Close(2);
  FinishReductions(stage.tape);
}

Status PartText::RowReduction(const RowShape& shape, Span<const TapeType> scalar, Span<const TapeType> kept) {
  const size_t outer = part_.outer, all = part_.loops.size();
  const int64_t rows = Points(0, outer);
  width_ = shape.vectors <= kWarpVectors ? 32 : kCudaBlock;
  const int64_t rows_a_block = kCudaBlock / width_;
  Line("const u32 row = block * " + Text(rows_a_block) + "u + threadIdx.x / " + Text(width_) + "u;");
  Line("if (row >= " + Text(rows) + "u) return;");
  Line("const u32 lane = threadIdx.x % " + Text(width_) + "u;");
  Decode("row", 0, outer);
  for (size_t k = 0; k < kept.size(); ++k)
    Line(std::string(TypeText(kept[k])) + " kept" + Text(static_cast<int64_t>(k)) + "[" +
         Text(shape.rounds * shape.lanes) + "];");
  const bool early = LeavesRoom((rows + rows_a_block - 1) / rows_a_block);
  if (early) Line("launch_dependents();");
  CacheOperands(shape, true);
  Line("wait_for_earlier();");
  CacheOperands(shape, false);
  for (size_t k = 0; k < scalar.size(); ++k)
    Line(std::string(TypeText(scalar[k])) + " s" + Text(static_cast<int64_t>(k)) + " = 0;");
  int number = 0;
  for (const Stage& stage : part_.stages) {
    const std::string prefix = "r" + Text(number++) + "_";
    if (!early && &stage == part_.stages.end() - 1) Line("launch_dependents();");
    if (stage.per_row) {
      RowScalars(stage, prefix, outer, all);
    } else {
      RowStage(shape, stage, prefix);
    }
  }
  return SetBlocks((rows + rows_a_block - 1) / rows_a_block);
}

}  // namespace rondo::cuda
