// Rows on chip: each element of a row is read once and stays in a register of the thread that will need it
// again.
#include <optional>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/reduction_templates.h"
#include "compiler/codegen/cuda/reduction/row_steps.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostRegisters = 96;  // of one thread, for what a row keeps
constexpr int64_t kMostRounds = 16;

// How a row lies over the threads that share it.
struct RowShape {
  size_t along = 0;  // the innermost loop
  int lanes = 1;     // elements a vector
  int64_t vectors = 0, rounds = 0;
  std::vector<size_t> cached;  // operands read by several stages, or before the wait
  int64_t width = 32;          // threads
};

// What the stages of elements read and write.
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

// Operands read by several stages, or that are constant and so may be read before the kernels ahead are
// complete; as vectors.
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

// None if the row is too long or lies so that vectors cannot be read.
std::optional<RowShape> ShapeOfRow(const PartContext& context) {
  const Part& part = context.part;
  RowShape shape;
  shape.along = part.loops.size() - 1;
  const std::vector<size_t> touched = RowOperands(part);
  shape.lanes = LanesFor(context, touched, shape.along);
  if (shape.lanes == 1 || part.reduced == 0) return std::nullopt;
  shape.vectors = context.Points(part.outer, part.loops.size()) / shape.lanes;
  const GpuTable& gpu = GpuTableOf(context.target);
  shape.width = shape.vectors <= gpu.row_warp_vectors ? 32 : kCudaBlock;
  shape.rounds = (shape.vectors + shape.width - 1) / shape.width;
  if (shape.rounds > kMostRounds) return std::nullopt;
  shape.cached = CachedOperands(context, shape);
  int64_t registers = 0;
  for (size_t index : shape.cached)
    registers += shape.rounds * shape.lanes * ByteSize(part.operands[index].dtype) / 4;
  for (TapeType type : RowTypesOf(part).kept)
    registers += shape.rounds * shape.lanes * (type == TapeType::kF32 ? 1 : 2);
  if (registers > kMostRegisters) return std::nullopt;
  return shape;
}

// Opens a loop over this thread's vectors of the row (closes with two braces): the round in `round`, the
// first element in `first`, loop counters at it.
void OpenRounds(const PartContext& context, const RowShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line("#pragma unroll");
  writer->Line("for (int round = 0; round < " + Text(shape.rounds) + "; ++round) {");
  writer->Line("const u32 vector = lane + round * " + Text(shape.width) + ";");
  const bool whole = shape.vectors % shape.width == 0;
  writer->Line(whole ? "{" : "if (vector < " + Text(shape.vectors) + "u) {");
  writer->Line("const u32 first = vector * " + Text(shape.lanes) + "u;");
  writer->Decode("first", part.outer, part.loops.size());
}

// Reads the cached operands that are constant, or the others.
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

bool IsFloatSum(const TapeInst& inst, Tape tape) {
  return inst.op == TapeOp::kReduceSum && tape[inst.a].type != TapeType::kI64;
}

// The sum of a thread is that of its vectors' sums, so that blocks that share a row, a vector a thread each
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

void WriteStage(const PartContext& context, const RowShape& shape, const Stage& stage,
                const std::string& prefix, PartWriter* writer) {
  StartReductions(stage.tape, writer);
  OpenRounds(context, shape, writer);
  OpenVectorSums(stage, writer);
  writer->scope.lanes.assign(context.part.operands.size(), "");
  for (size_t index : shape.cached) writer->scope.lanes[index] = "cache" + Text(index) + "[round]";
  writer->scope.kept = "round * " + Text(shape.lanes) + " + e";
  writer->WriteLanes(stage.tape, prefix, shape.along, shape.lanes,
                     "const i64 position = (i64)first + e; (void)position;");
  CloseVectorSums(stage, writer);
  writer->scope.kept = "position";
  writer->scope.lanes.clear();
  writer->Close(2);
  FinishReductions(stage.tape, shape.width, writer);
}

Result<PartLaunch> WriteRows(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const RowShape shape = *ShapeOfRow(context);
  const RowTypes types = RowTypesOf(part);
  const size_t outer = part.outer;
  const int64_t rows = context.Points(0, outer);
  const int64_t rows_a_block = kCudaBlock / shape.width;
  writer->Line("const u32 row = block * " + Text(rows_a_block) + "u + threadIdx.x / " + Text(shape.width) +
               "u;");
  writer->Line("if (row >= " + Text(rows) + "u) return;");
  writer->Line("const u32 lane = threadIdx.x % " + Text(shape.width) + "u;");
  writer->Decode("row", 0, outer);
  for (size_t k = 0; k < types.kept.size(); ++k)
    writer->Line(std::string(TypeText(types.kept[k])) + " kept" + Text(k) + "[" +
                 Text(shape.rounds * shape.lanes) + "];");
  const bool early = context.LeavesRoom((rows + rows_a_block - 1) / rows_a_block);
  if (early) writer->Line("launch_dependents();");
  CacheOperands(context, shape, true, writer);
  writer->Line("wait_for_earlier();");
  CacheOperands(context, shape, false, writer);
  for (size_t k = 0; k < types.scalars.size(); ++k)
    writer->Line(std::string(TypeText(types.scalars[k])) + " s" + Text(k) + " = 0;");
  int number = 0;
  for (const Stage& stage : part.stages) {
    const std::string prefix = "r" + Text(number++) + "_";
    if (!early && &stage == part.stages.end() - 1) writer->Line("launch_dependents();");
    if (stage.per_row) {
      WriteRowScalars(part, stage, prefix, writer);
    } else {
      WriteStage(context, shape, stage, prefix, writer);
    }
  }
  return WithBlocks((rows + rows_a_block - 1) / rows_a_block);
}

bool Suits(const PartContext& context) { return ShapeOfRow(context).has_value(); }

}  // namespace

constinit const PartTemplate kRowReduction = {
    TemplateFamily::kAny, {}, OneCandidate<TemplateFamily::kAny, Suits>, WriteRows};

}  // namespace rondo::cuda
