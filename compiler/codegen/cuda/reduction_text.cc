// Row reductions: a warp or a block a row; the row's kept values stay in shared memory.
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

// Rows this short are left to one warp.
constexpr int64_t kWarpRow = 256;

bool IsArg(TapeOp op) { return op == TapeOp::kReduceArgMax || op == TapeOp::kReduceArgMin; }
bool IsReduction(TapeOp op) { return op >= TapeOp::kReduceSum && op <= TapeOp::kReduceArgMin; }

const char* Combiner(TapeOp op) {
  switch (op) {
    case TapeOp::kReduceSum: return "Sum";
    case TapeOp::kReduceProd: return "Prod";
    case TapeOp::kReduceMax: return "Max";
    default: return "Min";
  }
}

// What a thread starts from. Empty: the first value it sees.
const char* Start(TapeOp op, TapeType type) {
  if (op == TapeOp::kReduceSum) return "0";
  if (op == TapeOp::kReduceProd) return "1";
  bool max = op == TapeOp::kReduceMax;
  if (type == TapeType::kI64) return max ? "(i64)0x8000000000000000ull" : "0x7fffffffffffffffll";
  return max ? "bits_float(0xff800000u)" : "bits_float(0x7f800000u)";
}

}  // namespace

void PartText::Reduce(const TapeInst& inst, const std::string& value) {
  headers_.insert("reductions");
  std::string slot = std::to_string(inst.arg);
  if (IsArg(inst.op)) {
    const char* max = inst.op == TapeOp::kReduceArgMax ? "true" : "false";
    const char* last = inst.imm.i == 1 ? "true" : "false";
    Line(std::string("if (better<") + max + ", " + last + ">(" + value + ", position, v" + slot + ", at" +
         slot + ")) { v" + slot + " = " + value + "; at" + slot + " = position; }");
    return;
  }
  const std::string name = "v" + slot + row_index_;
  Line(name + " = " + Combiner(inst.op) + "::of(" + name + ", " + value + ");");
}

void PartText::FinishReductions(Tape tape) {
  for (const TapeInst& inst : tape) {
    if (!IsReduction(inst.op)) continue;
    std::string slot = std::to_string(inst.arg), width = std::to_string(width_);
    if (IsArg(inst.op)) {
      const char* max = inst.op == TapeOp::kReduceArgMax ? "true" : "false";
      const char* last = inst.imm.i == 1 ? "true" : "false";
      Line("s" + slot + " = reduce_arg<" + max + ", " + last + ", " + width + ">(v" + slot + ", at" + slot +
           ");");
    } else {
      Line("s" + slot + " = reduce<" + std::string(Combiner(inst.op)) + ", " + width + ">(v" + slot + ");");
    }
  }
}

void PartText::StartReductions(Tape tape) {
  for (const TapeInst& inst : tape) {
    if (!IsReduction(inst.op)) continue;
    std::string slot = std::to_string(inst.arg);
    TapeType type = tape[inst.a].type;
    if (IsArg(inst.op)) {
      Line(std::string(TypeText(type)) + " v" + slot + " = 0; i64 at" + slot + " = -1;");
    } else {
      Line(std::string(TypeText(type)) + " v" + slot + " = " + Start(inst.op, type) + ";");
    }
  }
}

// Every thread of the row computes the scalars; stores repeat one value.
void PartText::RowScalars(const Stage& stage, const std::string& prefix, size_t outer, size_t all) {
  Line("{");
  for (size_t l = outer; l < all; ++l)
    Line("const i64 i" + std::to_string(l) + " = 0; (void)i" + std::to_string(l) + ";");
  WriteTape(stage.tape, prefix);
  Line("}");
}

Status PartText::Reduction() {
  // Types of row scalars and kept values, from what defines them.
  std::vector<TapeType> scalar(part_.scalars, TapeType::kF32), kept(part_.kept, TapeType::kF32);
  for (const Stage& stage : part_.stages) {
    for (const TapeInst& inst : stage.tape) {
      if (inst.op == TapeOp::kSetScalar) scalar[inst.arg] = stage.tape[inst.a].type;
      if (IsReduction(inst.op)) scalar[inst.arg] = IsArg(inst.op) ? TapeType::kI64 : stage.tape[inst.a].type;
      if (inst.op == TapeOp::kKeep) kept[inst.arg] = stage.tape[inst.a].type;
    }
  }
  if (std::optional<RowShape> shape = ShapeOfRow(kept)) return RowReduction(*shape, scalar, kept);
  if (std::optional<ColumnShape> shape = ShapeOfColumns()) return ColumnReduction(*shape, scalar);
  return PlainReduction(scalar, kept);
}

Status PartText::PlainReduction(Span<const TapeType> scalar, Span<const TapeType> kept) {
  Line("wait_for_earlier();");
  Line("launch_dependents();");
  size_t outer = part_.outer, all = part_.loops.size();
  int64_t rows = Points(0, outer), elements = Points(outer, all);
  width_ = elements <= kWarpRow ? 32 : 256;
  int64_t rows_a_block = kCudaBlock / width_;
  int64_t shared = 0;
  for (int k = 0; k < part_.kept; ++k) {
    int64_t bytes = kept[k] == TapeType::kF32 ? 4 : 8;
    shared += bytes * elements * rows_a_block;
    std::string name = std::to_string(k), size = std::to_string(elements * rows_a_block);
    Line(std::string("__shared__ ") + TypeText(kept[k]) + " row" + name + "[" + size + "];");
    Line(std::string(TypeText(kept[k])) + "* kept" + name + " = row" + name + " + (threadIdx.x / " +
         std::to_string(width_) + ") * " + std::to_string(elements) + ";");
  }
  if (shared > static_cast<int64_t>(kCudaSharedBytes) - 1024) {
    return Status::Error(
        Code::kUnsupported, "a row of %lld elements keeps %lld bytes on chip; the limit is %u",
        static_cast<long long>(elements), static_cast<long long>(shared), kCudaSharedBytes - 1024);
  }
  Line("const u64 row = (u64)block * " + std::to_string(rows_a_block) + " + threadIdx.x / " +
       std::to_string(width_) + ";");
  Line("if (row >= " + std::to_string(rows) + "ull) return;");
  Line("const int lane = threadIdx.x % " + std::to_string(width_) + ";");
  Decode("row", 0, outer);
  for (int k = 0; k < part_.scalars; ++k)
    Line(std::string(TypeText(scalar[k])) + " s" + std::to_string(k) + " = 0;");
  int number = 0;
  for (const Stage& stage : part_.stages) {
    std::string prefix = "r" + std::to_string(number++) + "_";
    if (stage.per_row) {
      RowScalars(stage, prefix, outer, all);
      continue;
    }
    StartReductions(stage.tape);
    Line("for (i64 position = lane; position < " + std::to_string(elements) +
         "; position += " + std::to_string(width_) + ") {");
    Decode("position", outer, all);
    WriteTape(stage.tape, prefix);
    Line("}");
    FinishReductions(stage.tape);
  }
  return SetBlocks((rows + rows_a_block - 1) / rows_a_block);
}

}  // namespace rondo::cuda
