#include "compiler/codegen/cuda/reduction/row_shape.h"

#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

// Opens a loop over this thread's vectors of the row (closes with two braces): the round in `round`, the
// first element in `first`, loop counters at it.
void OpenRounds(const PartContext& context, const RowShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line(shape.in_registers ? "#pragma unroll" : "#pragma unroll 2");
  writer->Line("for (int round = 0; round < " + Text(shape.rounds) + "; ++round) {");
  writer->Line("const u32 vector = lane + round * " + Text(shape.width) + ";");
  const bool whole = shape.vectors % shape.width == 0;
  writer->Line(whole ? "{" : "if (vector < " + Text(shape.vectors) + "u) {");
  writer->Line("const u32 first = vector * " + Text(shape.lanes) + "u;");
  writer->Decode("first", part.outer, part.loops.size());
}

}  // namespace

std::vector<size_t> RowOperands(const Part& part) {
  std::vector<size_t> touched;
  for (const Stage& stage : part.stages) {
    if (stage.per_row) continue;
    for (TapeOp op : {TapeOp::kLoad, TapeOp::kStore}) {
      for (size_t index : Touched(stage.tape, op)) touched.push_back(index);
    }
  }
  return touched;
}

std::vector<size_t> CachedOperands(const PartContext& context, const RowShape& shape) {
  const Part& part = context.part;
  std::vector<int> readers(part.operands.size(), 0);
  for (const Stage& stage : part.stages) {
    if (stage.per_row) continue;
    for (size_t index : Touched(stage.tape, TapeOp::kLoad)) ++readers[index];
  }
  std::vector<size_t> cached;
  for (size_t index = 0; index < readers.size(); ++index) {
    const Operand& operand = part.operands[index];
    const bool early = context.params[operand.param].constant && operand.indirects.empty();
    if (readers[index] == 0 || (readers[index] == 1 && !early)) continue;
    if (!MovesAlong(part, operand, shape.along) || !FitsLanes(context, index, shape.along, shape.lanes))
      continue;
    if (operand.absent == 0 && !IsWritten(part, operand.param)) cached.push_back(index);
  }
  return cached;
}

int64_t RegistersOf(const Part& part, const RowShape& shape) {
  int64_t registers = 0;
  for (size_t index : shape.cached)
    registers += shape.rounds * shape.lanes * ByteSize(part.operands[index].dtype) / 4;
  for (TapeType type : RowTypesOf(part).kept)
    registers += shape.rounds * shape.lanes * (type == TapeType::kF32 ? 1 : 2);
  return registers;
}

void DeclareKept(const RowTypes& types, const RowShape& shape, PartWriter* writer) {
  for (size_t k = 0; k < types.kept.size(); ++k)
    writer->Line(std::string(TypeText(types.kept[k])) + " kept" + Text(k) + "[" +
                 Text(shape.rounds * shape.lanes) + "];");
}

void DeclareScalars(const RowTypes& types, PartWriter* writer) {
  for (size_t k = 0; k < types.scalars.size(); ++k)
    writer->Line(std::string(TypeText(types.scalars[k])) + " s" + Text(k) + " = 0;");
}

void CacheOperands(const PartContext& context, const RowShape& shape, bool constant, PartWriter* writer) {
  const Part& part = context.part;
  std::vector<size_t> chosen;
  for (size_t index : shape.cached) {
    const Operand& operand = part.operands[index];
    if ((context.params[operand.param].constant && operand.indirects.empty()) == constant)
      chosen.push_back(index);
  }
  if (chosen.empty()) return;
  for (size_t index : chosen) {
    writer->Line("u32 cache" + Text(index) + "[" + Text(shape.rounds) + "][" +
                 Text(shape.lanes * ByteSize(part.operands[index].dtype) / 4) + "];");
  }
  OpenRounds(context, shape, writer);
  for (size_t index : chosen) writer->LoadWords(index, shape.lanes, "cache" + Text(index) + "[round]");
  writer->Close(2);
}

namespace {

bool IsFloatSum(const TapeInst& inst, Tape tape) {
  return inst.op == TapeOp::kReduceSum && tape[inst.a].type != TapeType::kI64;
}

// The sum of a thread is that of its vectors' sums, so that blocks that share a row, a vector for two threads
// (drivers/cuda/small/norm.h), need no more than these of one another.
void OpenVectorSums(const Stage& stage, PartWriter* writer) {
  for (const TapeInst& inst : stage.tape) {
    if (!IsFloatSum(inst, stage.tape)) continue;
    const std::string slot = Text(inst.arg), type = TypeText(stage.tape[inst.a].type);
    writer->Line("const " + type + " before" + slot + " = v" + slot + "; v" + slot + " = 0;");
  }
}

void CloseVectorSums(const Stage& stage, PartWriter* writer) {
  for (const TapeInst& inst : stage.tape) {
    if (!IsFloatSum(inst, stage.tape)) continue;
    const std::string slot = Text(inst.arg);
    writer->Line("v" + slot + " = op_add(before" + slot + ", v" + slot + ");");
  }
}

}  // namespace

void WriteElements(const PartContext& context, const RowShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer) {
  OpenRounds(context, shape, writer);
  writer->scope.kept = "round * " + Text(shape.lanes) + (shape.lanes > 1 ? " + e" : "");
  if (shape.lanes == 1) {
    writer->Line("const i64 position = first; (void)position;");
    writer->WriteTape(stage.tape, prefix);
  } else {
    writer->scope.lanes.assign(context.part.operands.size(), "");
    for (size_t index : shape.cached) writer->scope.lanes[index] = "cache" + Text(index) + "[round]";
    OpenVectorSums(stage, writer);
    writer->WriteLanes(stage.tape, prefix, shape.along, shape.lanes,
                       "const i64 position = (i64)first + e; (void)position;");
    CloseVectorSums(stage, writer);
    writer->scope.lanes.clear();
  }
  writer->scope.kept = "position";
  writer->Close(2);
}

}  // namespace rondo::cuda
