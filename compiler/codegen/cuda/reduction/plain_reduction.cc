// Row reductions one element at a time, with a block, a warp or a part of one for each row; shared memory
// holds the row's kept values.
#include <algorithm>

#include "compiler/codegen/cuda/batches.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/reduction_variants.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"

namespace rondo::cuda {

namespace {

// Declares keptK for each value that a row keeps, in static shared memory for all rows of a block. Returns
// its bytes.
int64_t DeclareKept(Span<const TapeType> kept, int64_t elements, int64_t width, PartWriter* writer) {
  const int64_t rows_a_block = kCudaBlock / width;
  int64_t shared = 0;
  for (size_t k = 0; k < kept.size(); ++k) {
    const std::string type = TypeText(kept[k]);
    shared += (kept[k] == TapeType::kF32 ? 4 : 8) * elements * rows_a_block;
    writer->Line("__shared__ " + type + " row" + Text(k) + "[" + Text(elements * rows_a_block) + "];");
    writer->Line(type + "* kept" + Text(k) + " = row" + Text(k) + " + (threadIdx.x / " + Text(width) +
                 ") * " + Text(elements) + ";");
  }
  return shared;
}

// Writes the tape for this thread's elements, some of which are read together.
void WriteElements(const PartContext& context, Tape tape, const std::string& prefix, int64_t width,
                   PartWriter* writer) {
  constexpr int64_t kMostWords = 16;  // read ahead by a thread
  const size_t outer = context.part.outer, all = context.part.loops.size();
  const int64_t elements = context.Points(outer, all);
  Batches batches;
  batches.operands = ReadableAhead(context, tape, 1);
  const int64_t rounds = (elements + width - 1) / width;
  if (!batches.operands.empty())
    batches.size = std::clamp<int64_t>(kMostWords / static_cast<int64_t>(batches.operands.size()), 1,
                                       std::min<int64_t>(8, rounds));
  const std::string step = Text(batches.size * width);
  if (elements > INT32_MAX / 2) batches.type = "u64";
  batches.loop =
      "for (" + batches.type + " start = lane; start < " + Text(elements) + "u; start += " + step + "u)";
  batches.number = "start + r * " + Text(width) + "u";
  batches.numbers = Text(elements) + "u";
  WriteBatches(
      context, batches, "", [&] { writer->Decode("number", outer, all); },
      [&] {
        writer->Line("const auto position = number; (void)position;");
        writer->WriteTape(tape, prefix);
      },
      writer);
}

Result<PartLaunch> WritePlain(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const RowTypes types = RowTypesOf(part);
  writer->Line("wait_for_earlier();");
  writer->Line("launch_dependents();");
  const size_t outer = part.outer, all = part.loops.size();
  const int64_t rows = context.Points(0, outer), elements = context.Points(outer, all);
  const int64_t width = WidthOfPlainRow(context), rows_a_block = kCudaBlock / width;
  const int64_t shared = DeclareKept(types.kept, elements, width, writer);
  if (shared > static_cast<int64_t>(kCudaSharedBytes) - 1024) {
    return Status::Error(
        Code::kUnsupported, "a row of %lld elements keeps %lld bytes on chip; the limit is %u",
        static_cast<long long>(elements), static_cast<long long>(shared), kCudaSharedBytes - 1024);
  }
  writer->Line("const u64 row = (u64)block * " + Text(rows_a_block) + " + threadIdx.x / " + Text(width) +
               ";");
  writer->Line("if (row >= " + Text(rows) + "ull) return;");
  writer->Line("const int lane = threadIdx.x % " + Text(width) + ";");
  writer->Decode("row", 0, outer);
  for (size_t k = 0; k < types.scalars.size(); ++k)
    writer->Line(std::string(TypeText(types.scalars[k])) + " s" + Text(k) + " = 0;");
  int number = 0;
  for (const Stage& stage : part.stages) {
    std::string prefix = "r" + Text(number++) + "_";
    if (stage.per_row) {
      WriteRowScalars(part, stage, prefix, writer);
      continue;
    }
    writer->Line("{");
    StartReductions(stage.tape, writer);
    WriteElements(context, stage.tape, prefix, width, writer);
    FinishReductions(stage.tape, width, writer);
    writer->Line("}");
  }
  return WithBlocks((rows + rows_a_block - 1) / rows_a_block);
}

}  // namespace

constinit const KernelVariant kPlainReduction = {
    VariantId::kAny, {}, OneCandidate<VariantId::kAny>, WritePlain};

}  // namespace rondo::cuda
