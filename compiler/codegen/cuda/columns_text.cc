// Rows side by side: each thread reads neighbouring rows' elements as vectors, and the threads of a block,
// and blocks of a cluster, share the elements of their rows (device/columns.cuh).
#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

std::string Text(int64_t n) { return std::to_string(n); }

bool IsArg(TapeOp op) { return op == TapeOp::kReduceArgMax || op == TapeOp::kReduceArgMin; }
bool IsReduction(TapeOp op) { return op >= TapeOp::kReduceSum && op <= TapeOp::kReduceArgMin; }

// Whether an element's tape only reads and reduces.
bool OnlyReduces(Tape tape) {
  return std::none_of(tape.begin(), tape.end(), [](const TapeInst& inst) {
    return inst.op == TapeOp::kStore || inst.op == TapeOp::kKeep || inst.op == TapeOp::kKept ||
           IsArg(inst.op) || (IsReduction(inst.op) && inst.type == TapeType::kI64);
  });
}

bool SetsScalars(Tape tape) {
  return std::any_of(tape.begin(), tape.end(),
                     [](const TapeInst& inst) { return inst.op == TapeOp::kSetScalar; });
}

}  // namespace

std::optional<PartText::ColumnShape> PartText::ShapeOfColumns() const {
  if (part_.kept != 0 || part_.outer == 0 || part_.reduced == 0) return std::nullopt;
  ColumnShape shape;
  shape.along = part_.outer - 1u;
  int64_t lanes = 8;
  bool any = false;
  for (const Stage& stage : part_.stages) {
    if (stage.per_row) continue;
    if (!OnlyReduces(stage.tape)) return std::nullopt;
    for (size_t index : Touched(stage.tape, TapeOp::kLoad)) {
      const Operand& operand = part_.operands[index];
      if (!MovesAlong(operand, shape.along)) continue;
      while (lanes > 1 && !FitsLanes(index, shape.along, static_cast<int>(lanes))) lanes /= 2;
      any = true;
    }
  }
  if (!any || lanes < 2) return std::nullopt;
  shape.lanes = static_cast<int>(lanes);
  shape.rows = Points(0, part_.outer);
  shape.elements = Points(part_.outer, part_.loops.size());
  // Sectors of 32 bytes. A cluster costs as much as a few rounds of loads.
  constexpr int64_t kWorthACluster = 32;
  if (2 * shape.lanes <= shape.rows) shape.wide = 2;
  const int64_t most = target_.clusters() ? 8 : 1;
  if (cluster_ != 0) shape.cluster = cluster_;
  while (cluster_ == 0 && shape.cluster < most &&
         static_cast<double>(shape.tiles() * shape.cluster * 2) <= Processors() &&
         shape.elements >= kWorthACluster * shape.slots() * shape.cluster)
    shape.cluster *= 2;
  return shape;
}

void PartText::JoinColumns(const ColumnShape& shape, const Stage& stage) {
  for (const TapeInst& inst : stage.tape) {
    if (!IsReduction(inst.op)) continue;
    const char* op = inst.op == TapeOp::kReduceSum    ? "Sum"
                     : inst.op == TapeOp::kReduceProd ? "Prod"
                     : inst.op == TapeOp::kReduceMax  ? "Max"
                                                      : "Min";
    Line(std::string("join_columns<") + op + ", " + Text(shape.wide) + ", " + Text(shape.lanes) + ", " +
         Text(shape.cluster) + ">(v" + Text(inst.arg) + ", s" + Text(inst.arg) + ");");
  }
}

// A thread's elements: several are read before the first is taken in.
void PartText::ColumnElements(const ColumnShape& shape, const Stage& stage, const std::string& prefix) {
  const size_t outer = part_.outer, all = part_.loops.size();
  const int64_t pitch = shape.slots() * shape.cluster, rounds = (shape.elements + pitch - 1) / pitch;
  const std::string batch = Text(std::min<int64_t>(8, rounds)), elements = Text(shape.elements) + "u";
  std::vector<size_t> vectors;
  for (size_t index : Touched(stage.tape, TapeOp::kLoad)) {
    const Operand& operand = part_.operands[index];
    if (MovesAlong(operand, shape.along) && FitsLanes(index, shape.along, shape.lanes) && operand.absent == 0)
      vectors.push_back(index);
  }
  const auto name = [](size_t index) { return "batch" + Text(static_cast<int64_t>(index)) + "[r]"; };
  Line("#pragma unroll 1");
  Line("for (u32 start = slot * " + Text(shape.cluster) + "u + rank; start < " + elements +
       "; start += " + batch + "u * " + Text(pitch) + "u) {");
  for (size_t index : vectors)
    Line("u32 batch" + Text(static_cast<int64_t>(index)) + "[" + batch + "][" +
         Text(shape.lanes * ByteSize(part_.operands[index].dtype) / 4) + "];");
  const std::string next = "u32 position = start + r * " + Text(pitch) + "u;";
  Line("#pragma unroll");
  Line("for (int r = 0; r < " + batch + "; ++r) {");
  Line(next + " if (position >= " + elements + ") position = " + elements + " - 1;");
  Decode("position", outer, all);
  for (size_t index : vectors) LoadRaw(index, shape.lanes, name(index));
  Line("}");
  Line("#pragma unroll");
  Line("for (int r = 0; r < " + batch + "; ++r) {");
  Line("const " + next + " if (position < " + elements + ") {");
  Decode("position", outer, all);
  lanes_.assign(part_.operands.size(), "");
  for (size_t index : vectors) lanes_[index] = name(index);
  WriteLanes(stage.tape, prefix, shape.along, shape.lanes, "");
  lanes_.clear();
  Line("} } }");
}

void PartText::ColumnStage(const ColumnShape& shape, const Stage& stage, const std::string& prefix,
                           bool last) {
  const size_t outer = part_.outer, all = part_.loops.size();
  const int lanes = shape.lanes;
  if (stage.per_row) {
    // What only stores is left to one thread a row.
    const bool once = last && !SetsScalars(stage.tape);
    Line(once ? "if (real && slot == 0 && rank == 0) {" : "{");
    for (size_t l = outer; l < all; ++l)
      Line("const i64 i" + Text(static_cast<int64_t>(l)) + " = 0; (void)i" + Text(static_cast<int64_t>(l)) +
           ";");
    WriteLanes(stage.tape, prefix, shape.along, lanes, "");
    Line("}");
    return;
  }
  for (const TapeInst& inst : stage.tape) {
    if (!IsReduction(inst.op)) continue;
    const std::string v = "v" + Text(inst.arg), type = TypeText(stage.tape[inst.a].type);
    Line(type + " " + v + "[" + Text(lanes) + "];");
    const char* start = inst.op == TapeOp::kReduceSum    ? "0"
                        : inst.op == TapeOp::kReduceProd ? "1"
                        : inst.op == TapeOp::kReduceMax  ? "bits_float(0xff800000u)"
                                                         : "bits_float(0x7f800000u)";
    Line("#pragma unroll");
    Line("for (int e = 0; e < " + Text(lanes) + "; ++e) " + v + "[e] = " + start + ";");
  }
  ColumnElements(shape, stage, prefix);
  JoinColumns(shape, stage);
}

Status PartText::ColumnReduction(const ColumnShape& shape, Span<const TapeType> scalar) {
  headers_.insert("columns");
  const int64_t vectors = shape.rows / shape.lanes;
  Line("const u32 rank = block % " + Text(shape.cluster) + "u, tile = block / " + Text(shape.cluster) + "u;");
  Line("const u32 slot = threadIdx.x / " + Text(shape.wide) + "u, vector = tile * " + Text(shape.wide) +
       "u + threadIdx.x % " + Text(shape.wide) + "u;");
  Line("const bool real = vector < " + Text(vectors) + "u; (void)real;");
  Line("const u32 first = (real ? vector : " + Text(vectors - 1) + "u) * " + Text(shape.lanes) + "u;");
  Decode("first", 0, part_.outer);
  if (LeavesRoom(shape.tiles() * shape.cluster)) Line("launch_dependents();");
  Line("wait_for_earlier();");
  for (size_t k = 0; k < scalar.size(); ++k)
    Line(std::string(TypeText(scalar[k])) + " s" + Text(static_cast<int64_t>(k)) + "[" + Text(shape.lanes) +
         "];");
  row_index_ = "[e]";
  int number = 0;
  for (const Stage& stage : part_.stages) {
    ColumnStage(shape, stage, "r" + Text(number++) + "_", &stage == part_.stages.end() - 1);
  }
  row_index_.clear();
  if (!LeavesRoom(shape.tiles() * shape.cluster)) Line("launch_dependents();");
  launch_.cluster = static_cast<uint32_t>(shape.cluster);
  return SetBlocks(shape.tiles() * shape.cluster);
}

}  // namespace rondo::cuda
