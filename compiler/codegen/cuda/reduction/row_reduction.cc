// Row reductions on chip: each element of a row is read once and stays in a register of the thread that needs
// it again.
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/reduction_variants.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"

namespace rondo::cuda {

namespace {

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
  DeclareRow(context, shape, writer);
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
    WriteRowStage(context, shape, stage, prefix, writer);
  }
  return WithBlocks((rows + rows_a_block - 1) / rows_a_block);
}

bool Suits(const PartContext& context) { return ShapeOfRow(context).has_value(); }

}  // namespace

constinit const KernelVariant kRowReduction = {
    VariantId::kAny, {}, OneCandidate<VariantId::kAny, Suits>, WriteRows};

}  // namespace rondo::cuda
