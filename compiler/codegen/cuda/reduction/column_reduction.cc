// Reductions of rows that lie side by side: each thread reads the elements of neighbouring rows as vectors.
// The threads of a block and the blocks of a cluster share their rows' elements (device/columns.cuh).
#include <algorithm>
#include <optional>
#include <string>

#include "compiler/codegen/cuda/batches.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduce_ops.h"
#include "compiler/codegen/cuda/reduction/reduction_variants.h"
#include "compiler/codegen/cuda/reduction/row_steps.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"columns"};

constexpr int64_t kMostColumns = 32;  // of a block (device/columns.cuh)

// How neighbouring rows are spread over threads. The rows are next to each other in memory, but a row's own
// elements are not.
struct ColumnShape {
  size_t along = 0;  // the outer loop whose rows lie side by side
  int lanes = 1;     // rows of a thread
  int64_t rows = 1, elements = 1;
  int64_t wide = 1;     // threads of a block side by side; the rest share the elements
  int64_t cluster = 1;  // blocks that also share the elements
  int64_t slots() const { return kCudaBlock / wide; }
  int64_t tiles() const { return (rows / lanes + wide - 1) / wide; }
};

// Whether an element's tape reduces nothing but to numbers, and not to places.
bool ReducesToNumbers(Tape tape) {
  return std::none_of(tape.begin(), tape.end(), [](const TapeInst& inst) {
    return IsArgReduction(inst.op) || (IsReduction(inst.op) && inst.type == TapeType::kI64);
  });
}

bool Reduces(Tape tape) {
  return std::any_of(tape.begin(), tape.end(), [](const TapeInst& inst) { return IsReduction(inst.op); });
}

bool SetsScalars(Tape tape) {
  return std::any_of(tape.begin(), tape.end(),
                     [](const TapeInst& inst) { return inst.op == TapeOp::kSetScalar; });
}

bool MovesAlongElements(const Part& part, const Operand& operand) {
  for (size_t l = part.outer; l < part.loops.size(); ++l)
    if (MovesAlong(part, operand, l)) return true;
  return false;
}

std::optional<ColumnShape> ShapeOfColumns(const PartContext& context) {
  const Part& part = context.part;
  if (part.kept != 0 || part.outer == 0 || part.reduced == 0) return std::nullopt;
  ColumnShape shape;
  shape.along = part.outer - 1u;
  int64_t lanes = 8;
  bool any = false, stores = false;
  int64_t reductions = 0, bytes = 1;  // of an element
  for (const Stage& stage : part.stages) {
    if (stage.per_row) continue;
    if (!ReducesToNumbers(stage.tape)) return std::nullopt;
    stores = stores || !Touched(stage.tape, TapeOp::kStore).empty();
    for (const TapeInst& inst : stage.tape) reductions += IsReduction(inst.op);
    for (size_t index : Touched(stage.tape, TapeOp::kLoad)) {
      const Operand& operand = part.operands[index];
      if (!MovesAlong(part, operand, shape.along) || !MovesAlongElements(part, operand)) continue;
      while (lanes > 1 && !FitsLanes(context, index, shape.along, static_cast<int>(lanes))) lanes /= 2;
      bytes = std::max<int64_t>(bytes, ByteSize(operand.dtype));
      any = true;
    }
  }
  if (!any || lanes < 2) return std::nullopt;
  shape.lanes = static_cast<int>(lanes);
  shape.rows = context.Points(0, part.outer);
  shape.elements = context.Points(part.outer, part.loops.size());
  // A sector has 32 bytes: threads side by side read it, two where their loads are the widest.
  while (shape.lanes * bytes > 16 && shape.lanes > 2) shape.lanes /= 2;
  while (shape.wide * shape.lanes * bytes < 32 &&
         2 * shape.wide * shape.lanes <= std::min(shape.rows, kMostColumns))
    shape.wide *= 2;
  // If elements are written and there are fewer than a block's threads, each thread should have its own
  // element.
  if (stores && shape.elements < shape.slots()) return std::nullopt;
  // A cluster costs as much as a few rounds of loads and their reductions.
  const GpuTable& gpu = GpuTableOf(context.target);
  const int64_t least = gpu.column_cluster_rounds / std::min<int64_t>(4, std::max<int64_t>(1, reductions));
  const int64_t most = context.target.clusters() ? 8 : 1;
  if (context.cluster != 0) shape.cluster = context.cluster;
  while (context.cluster == 0 && shape.cluster < most &&
         static_cast<double>(shape.tiles() * shape.cluster * 2) <= context.Processors() &&
         shape.elements >= least * shape.slots() * shape.cluster)
    shape.cluster *= 2;
  return shape;
}

// All reductions of a stage at once.
void JoinColumns(const ColumnShape& shape, const Stage& stage, PartWriter* writer) {
  // Writes step<op, wide, lanes>(arguments) of each reduction; its scalar has number `slot`. Warp `own` reads
  // the others' results.
  const auto each = [&](const std::string& step, const std::string& more, const auto& arguments) {
    int number = 0;
    for (const TapeInst& inst : stage.tape) {
      if (!IsReduction(inst.op)) continue;
      const std::string slot = Text(inst.arg), own = Text(number++ % (kCudaBlock / 32));
      writer->Line(step + "<" + Combiner(inst.op) + ", " + Text(shape.wide) + ", " + Text(shape.lanes) +
                   more + ">(" + arguments(slot, own) + ");");
    }
  };
  for (const TapeInst& inst : stage.tape) {
    if (!IsReduction(inst.op)) continue;
    writer->Line(std::string("__shared__ ") + TypeText(stage.tape[inst.a].type) + " warps" + Text(inst.arg) +
                 "[9][" + Text(shape.wide * shape.lanes) + "];");
  }
  const auto found = [](const std::string& slot, const std::string& own) {
    return "warps" + slot + ", " + own;
  };
  const std::string cluster = ", " + Text(shape.cluster);
  each("join_columns_of_warp", "",
       [](const std::string& slot, const std::string&) { return "v" + slot + ", warps" + slot; });
  writer->Line("__syncthreads();");
  each("join_columns_of_block", "", found);
  if (shape.cluster > 1) {
    writer->Line("cluster_barrier();");
    each("join_columns_of_cluster", cluster, found);
  }
  writer->Line("__syncthreads();");
  each("take_columns", cluster,
       [](const std::string& slot, const std::string&) { return "warps" + slot + ", s" + slot; });
  if (shape.cluster > 1) writer->Line("cluster_barrier();");
}

void WriteElements(const PartContext& context, const ColumnShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer) {
  const Part& part = context.part;
  const int64_t pitch = shape.slots() * shape.cluster, rounds = (shape.elements + pitch - 1) / pitch;
  Batches batches;
  batches.numbers = Text(shape.elements) + "u";
  batches.size = std::min<int64_t>(kMostAhead, rounds);
  batches.lanes = shape.lanes;
  batches.loop = "for (u32 start = slot * " + Text(shape.cluster) + "u + rank; start < " +
                 Text(shape.elements) + "u; start += " + Text(batches.size) + "u * " + Text(pitch) + "u)";
  batches.number = "start + r * " + Text(pitch) + "u";
  batches.operands = LoadsAhead(context, stage.tape, [&](size_t index) {
    return MovesAlongElements(part, part.operands[index]) &&
           IsVectorAlong(context, index, shape.along, shape.lanes);
  });
  // Threads beyond the last row do as it does, but write nothing.
  const bool stores = !Touched(stage.tape, TapeOp::kStore).empty();
  WriteBatches(
      context, batches, stores ? "real" : "",
      [&] { writer->Decode("number", part.outer, part.loops.size()); },
      [&] { writer->WriteLanes(stage.tape, prefix, shape.along, shape.lanes, ""); }, writer);
}

void WriteStage(const PartContext& context, const ColumnShape& shape, const Stage& stage,
                const std::string& prefix, bool last, PartWriter* writer) {
  const Part& part = context.part;
  const size_t outer = part.outer, all = part.loops.size();
  const int lanes = shape.lanes;
  if (stage.per_row) {
    // One thread of each row does what only stores.
    const bool once = last && !SetsScalars(stage.tape);
    writer->Line(once ? "if (real && slot == 0 && rank == 0) {" : "{");
    writer->ZeroLoops(outer, all);
    writer->WriteLanes(stage.tape, prefix, shape.along, lanes, "");
    writer->Line("}");
    return;
  }
  writer->Line("{");
  for (const TapeInst& inst : stage.tape) {
    if (!IsReduction(inst.op)) continue;
    const std::string v = "v" + Text(inst.arg), type = TypeText(stage.tape[inst.a].type);
    writer->Line(type + " " + v + "[" + Text(lanes) + "];");
    writer->Line("#pragma unroll");
    writer->Line("for (int e = 0; e < " + Text(lanes) + "; ++e) " + v +
                 "[e] = " + StartText(inst.op, TapeType::kF32) + ";");
  }
  WriteElements(context, shape, stage, prefix, writer);
  if (Reduces(stage.tape)) JoinColumns(shape, stage, writer);
  writer->Line("}");
}

Result<PartLaunch> WriteColumns(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const ColumnShape shape = *ShapeOfColumns(context);
  const RowTypes types = RowTypesOf(part);
  const int64_t vectors = shape.rows / shape.lanes;
  writer->Line("const u32 rank = block % " + Text(shape.cluster) + "u, tile = block / " +
               Text(shape.cluster) + "u;");
  writer->Line("const u32 slot = threadIdx.x / " + Text(shape.wide) + "u, vector = tile * " +
               Text(shape.wide) + "u + threadIdx.x % " + Text(shape.wide) + "u;");
  writer->Line("const bool real = vector < " + Text(vectors) + "u; (void)real;");
  writer->Line("const u32 first = (real ? vector : " + Text(vectors - 1) + "u) * " + Text(shape.lanes) +
               "u;");
  writer->Decode("first", 0, part.outer);
  if (context.LeavesRoom(shape.tiles() * shape.cluster)) writer->Line("launch_dependents();");
  writer->Line("wait_for_earlier();");
  for (size_t k = 0; k < types.scalars.size(); ++k)
    writer->Line(std::string(TypeText(types.scalars[k])) + " s" + Text(k) + "[" + Text(shape.lanes) + "];");
  writer->scope.row = "[e]";
  int number = 0;
  for (const Stage& stage : part.stages) {
    WriteStage(context, shape, stage, "r" + Text(number++) + "_", &stage == part.stages.end() - 1, writer);
  }
  writer->scope.row.clear();
  if (!context.LeavesRoom(shape.tiles() * shape.cluster)) writer->Line("launch_dependents();");
  PartLaunch launch;
  launch.cluster = static_cast<uint32_t>(shape.cluster);
  return WithBlocks(launch, shape.tiles() * shape.cluster);
}

// The shape decides the cluster.
std::vector<KernelCandidate> Candidates(const PartContext& context) {
  const std::optional<ColumnShape> shape = ShapeOfColumns(context);
  if (!shape) return {};
  KernelConfiguration configuration;
  configuration.cluster = shape->cluster;
  return {{configuration, kNotEstimated}};
}

}  // namespace

constinit const KernelVariant kColumnReduction = {VariantId::kAny, kHeaders, Candidates, WriteColumns};

}  // namespace rondo::cuda
