// Rows on chip: each element of a row is read once and stays in a register of the thread that will need it
// again.
#include <optional>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/reduction_templates.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"
#include "compiler/codegen/cuda/reduction/row_steps.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostRegisters = 96;  // of one thread, for what a row keeps
constexpr int64_t kMostRounds = 16;

// None if the row is too long or lies so that vectors cannot be read.
std::optional<RowShape> ShapeOfRow(const PartContext& context) {
  const Part& part = context.part;
  RowShape shape;
  shape.along = part.loops.size() - 1;
  shape.lanes = LanesFor(context, RowOperands(part), shape.along);
  if (shape.lanes == 1 || part.reduced == 0) return std::nullopt;
  shape.vectors = context.Points(part.outer, part.loops.size()) / shape.lanes;
  const GpuTable& gpu = GpuTableOf(context.target);
  shape.width = shape.vectors <= gpu.row_warp_vectors ? 32 : kCudaBlock;
  shape.rounds = (shape.vectors + shape.width - 1) / shape.width;
  if (shape.rounds > kMostRounds) return std::nullopt;
  shape.cached = CachedOperands(context, shape);
  if (RegistersOf(part, shape) > kMostRegisters) return std::nullopt;
  return shape;
}

void WriteStage(const PartContext& context, const RowShape& shape, const Stage& stage,
                const std::string& prefix, PartWriter* writer) {
  writer->Line("{");
  StartReductions(stage.tape, writer);
  WriteElements(context, shape, stage, prefix, writer);
  FinishReductions(stage.tape, shape.width, writer);
  writer->Line("}");
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
  DeclareKept(types, shape, writer);
  const bool early = context.LeavesRoom((rows + rows_a_block - 1) / rows_a_block);
  if (early) writer->Line("launch_dependents();");
  CacheOperands(context, shape, true, writer);
  writer->Line("wait_for_earlier();");
  CacheOperands(context, shape, false, writer);
  DeclareScalars(types, writer);
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
