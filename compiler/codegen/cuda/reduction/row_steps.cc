#include "compiler/codegen/cuda/reduction/row_steps.h"

#include "compiler/codegen/cuda/reduce_ops.h"

namespace rondo::cuda {

RowTypes RowTypesOf(const Part& part) {
  RowTypes types = {std::vector<TapeType>(part.scalars, TapeType::kF32),
                    std::vector<TapeType>(part.kept, TapeType::kF32)};
  for (const Stage& stage : part.stages) {
    for (const TapeInst& inst : stage.tape) {
      const TapeType type = stage.tape[inst.a].type;
      if (inst.op == TapeOp::kSetScalar) types.scalars[inst.arg] = type;
      if (IsReduction(inst.op)) types.scalars[inst.arg] = IsArgReduction(inst.op) ? TapeType::kI64 : type;
      if (inst.op == TapeOp::kKeep) types.kept[inst.arg] = type;
    }
  }
  return types;
}

void StartReductions(Tape tape, PartWriter* writer) {
  for (const TapeInst& inst : tape) {
    if (!IsReduction(inst.op)) continue;
    const std::string slot = Text(inst.arg);
    const TapeType type = tape[inst.a].type;
    if (IsArgReduction(inst.op)) {
      writer->Line(std::string(TypeText(type)) + " v" + slot + " = 0; i64 at" + slot + " = -1;");
    } else {
      writer->Line(std::string(TypeText(type)) + " v" + slot + " = " + StartText(inst.op, type) + ";");
    }
  }
}

void FinishReductions(Tape tape, int64_t width, PartWriter* writer) {
  for (const TapeInst& inst : tape) {
    if (!IsReduction(inst.op)) continue;
    const std::string slot = Text(inst.arg);
    if (IsArgReduction(inst.op)) {
      writer->Line("s" + slot + " = reduce_arg<" + ArgArguments(inst) + ", " + Text(width) + ">(v" + slot +
                   ", at" + slot + ");");
    } else {
      writer->Line("s" + slot + " = reduce<" + Combiner(inst.op) + ", " + Text(width) + ">(v" + slot + ");");
    }
  }
}

void WriteRowScalars(const Part& part, const Stage& stage, const std::string& prefix, PartWriter* writer) {
  writer->Line("{");
  writer->ZeroLoops(part.outer, part.loops.size());
  writer->WriteTape(stage.tape, prefix);
  writer->Line("}");
}

}  // namespace rondo::cuda
