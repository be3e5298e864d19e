#include "compiler/codegen/cuda/element_cost.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/codegen/cuda/convolution/convolution_variants.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/map/colliding_writes.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/map/owned_shape.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/reduction/reduction_variants.h"
#include "compiler/codegen/cuda/reduction/row_shape.h"
#include "compiler/codegen/cuda/tape_facts.h"

namespace rondo::cuda {
namespace {

// A thread computes `count` neighbouring points along a loop at once.
struct Lanes {
  size_t along = 0;
  int count = 1;
  const std::vector<bool>* vectors = nullptr;  // as PartWriter's scope has it; null: FitsLanes
  bool follow = false;  // the places of the accesses follow from those of the last points
};

bool IsVector(const PartContext& context, size_t index, Lanes lanes) {
  if (lanes.count == 1) return false;
  return lanes.vectors ? (*lanes.vectors)[index] : FitsLanes(context, index, lanes.along, lanes.count);
}

// Instructions to read or write an operand: vectors where the points are contiguous, else one access for each
// point.
double AccessInstructions(const PartContext& context, size_t index, Lanes lanes) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const Operand& operand = context.part.operands[index];
  size_t coordinates = 1 + operand.guards.size();
  for (const Indirect& indirect : operand.indirects)
    coordinates += !IsVectorIndex(context, indirect, lanes.along, lanes.count);
  const double place = lanes.follow ? gpu.element_step : gpu.element_place * static_cast<double>(coordinates);
  if (!MovesAlong(context.part, operand, lanes.along)) return place;
  if (IsVector(context, index, lanes)) return place + lanes.count;
  return lanes.count * (place + gpu.element_access);
}

// A thread's instructions for `lanes` points of a tape: the part that moves along the loop, or the part that
// is the same for all points.
double TapeInstructions(const PartContext& context, Tape tape, Lanes lanes, bool moving) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const bool few_bits = NeedsFewBits(context.part);
  double instructions = 0;
  for (const TapeInst& inst : tape) {
    if (inst.op == TapeOp::kLoad || inst.op == TapeOp::kStore) {
      if (MovesAlong(context.part, context.part.operands[inst.arg], lanes.along) == moving)
        instructions += AccessInstructions(context, inst.arg, lanes);
    } else if (moving && inst.op != TapeOp::kConst) {
      const bool function = AccuracyOf(inst.op) == Accuracy::kFunction,
                 quick = few_bits && HasQuickFunction(inst.op);
      instructions += lanes.count * (quick ? gpu.quick_function : function ? gpu.element_function : 1);
    }
  }
  return instructions;
}

// The same for a thread of a kSharedIndexMap: what its points share is read and computed once.
double SharedInstructions(const PartContext& context, const SharedIndex& shared) {
  const auto reads_once = [&](uint16_t index) {
    return std::find(shared.once.begin(), shared.once.end(), index) != shared.once.end();
  };
  std::vector<TapeInst> once, each;
  std::vector<bool> moves;
  for (const TapeInst& inst : context.part.body) {
    const int inputs = Inputs(inst.op);
    const bool access = inst.op == TapeOp::kLoad || inst.op == TapeOp::kStore;
    moves.push_back(access ? inst.op == TapeOp::kStore || !reads_once(inst.arg)
                           : (inputs > 0 && moves[inst.a]) || (inputs > 1 && moves[inst.b]) ||
                                 (inputs > 2 && moves[inst.c]));
    (moves.back() ? each : once).push_back(inst);
  }
  const auto of = [&](const std::vector<TapeInst>& tape, bool follow) {
    const Lanes lanes = {context.part.loops.size() - 1, shared.lanes, nullptr, follow};
    return TapeInstructions(context, tape, lanes, true) + TapeInstructions(context, tape, lanes, false);
  };
  return of(once, false) + static_cast<double>(shared.steps) * of(each, true);
}

// Cycles of the busiest multiprocessor for `threads` in blocks, each with this many instructions.
double IssueCycles(const PartContext& context, double threads, double instructions) {
  constexpr double kWarp = 32, kIssued = 4;  // warps at once
  const double block = std::min(threads, double{kCudaBlock});
  return std::ceil(threads / block / context.Processors()) * block / kWarp * instructions / kIssued;
}

// Updates of data-dependent places, where each place belongs to one block: a block looks at its part of the
// points, then sorts and applies those of its places.
double OwnedCycles(const PartContext& context) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const Part& part = context.part;
  const OwnedShape shape = *OwnedShapeOf(context);
  const OwnedPlaces& layout = shape.layout;
  double point_bytes = 0;
  for (size_t index : Touched(part.body, TapeOp::kLoad))
    point_bytes += part.operands[index].param == part.operands[shape.out].param
                       ? 0
                       : static_cast<double>(ByteSize(part.operands[index].dtype));
  const double points = layout.points, blocks = static_cast<double>(layout.blocks()),
               exchanges = std::ceil(points / layout.cluster / layout.chunk()), own = points / blocks,
               items = static_cast<double>(shape.lanes * shape.items) / static_cast<double>(shape.tiles);
  const double all = blocks * static_cast<double>(shape.groups * shape.tiles);
  const double together = std::ceil(all / context.Processors());  // blocks of a multiprocessor
  const double listed = std::ceil(own / layout.room()) * (layout.passes() + 1);
  return exchanges * gpu.owned_exchange + together * points / layout.cluster * gpu.owned_index +
         listed * gpu.owned_pass + together * own * layout.passes() * gpu.owned_sorted +
         together * own * items * point_bytes / gpu.owned_bytes;
}

// Sectors of an element of a data-dependent place: inner loops may go over neighbours in memory.
double SectorsOfElement(const Part& part, const Operand& operand) {
  constexpr int64_t kSector = 32;
  int64_t run = 1;
  for (size_t d = part.loops.size(); d-- > 0;) {
    if (part.loops[d] == 1) continue;
    if (operand.strides[d] != run || IndicesMove(part, operand, d)) break;
    run *= part.loops[d];
  }
  const int64_t sectors = (run * ByteSize(operand.dtype) + kSector - 1) / kSector;
  return static_cast<double>(sectors) / static_cast<double>(run);
}

// Updates by atomic operations: of each point, the elements that indices choose.
double OrderFreeCycles(const PartContext& context, double points) {
  constexpr double kMeet = 9, kSharing = 3000;  // an update of a sector waits for another; both syncs
  const GpuTable& gpu = GpuTableOf(context.target);
  const Part& part = context.part;
  const Update update = *UpdateOf(part);
  const bool sum = update.op == TapeOp::kAdd;
  double read = 0;
  for (size_t index : Touched(part.body, TapeOp::kLoad)) {
    const Operand& operand = part.operands[index];
    const bool itself = operand.param == part.operands[update.out].param;
    if (!operand.indirects.empty() && !(itself && sum)) read += SectorsOfElement(part, operand);
  }
  const Operand& out = part.operands[update.out];
  const double reach = static_cast<double>(Reach(part, out)),
               sectors = std::max(1.0, reach * static_cast<double>(ByteSize(out.dtype)) / 32);
  const double blocks = static_cast<double>(BlocksThatShare(context, update));
  if (blocks != 0) return kSharing + blocks * reach / sectors * kMeet;
  const double changed = SectorsOfElement(part, out) * (sum ? 1 : gpu.changing_extremes);
  return std::max(points * (read / gpu.scattered_reads + changed / gpu.scattered_updates),
                  points * changed / sectors * kMeet);
}

double MapCycles(const PartPlan& plan) {
  const PartContext& context = plan.context;
  const Part& part = context.part;
  const GpuTable& gpu = GpuTableOf(context.target);
  const double points = static_cast<double>(context.Points(0, part.loops.size()));
  const KernelVariant* by = plan.by[plan.chosen];
  if (by == &kOrderedMap) return points * gpu.ordered_point;
  if (by == &kOwnedMap) return OwnedCycles(context);
  if (by == &kSharedIndexMap) {
    const SharedIndex shared = *SharedIndexOf(context);
    return IssueCycles(context, static_cast<double>(shared.threads),
                       gpu.element_thread + SharedInstructions(context, shared));
  }
  Lanes lanes = {part.loops.empty() ? 0 : part.loops.size() - 1, LanesOfMap(context)};
  const int run = by == &kPointMap ? RunOfMap(context) : 1;
  const std::vector<bool> vectors = VectorsOfRun(context, run);
  if (run > 1) lanes = {lanes.along, run, &vectors};
  const double each = by == &kPointMap && run == 1 ? static_cast<double>(PointsOfMapThread(context)) : 1;
  const double instructions =
      gpu.element_thread + each * (TapeInstructions(context, part.body, lanes, true) +
                                   TapeInstructions(context, part.body, lanes, false));
  const double issued = IssueCycles(context, points / lanes.count / each, instructions);
  return by == &kOrderFreeMap ? std::max(issued, OrderFreeCycles(context, points)) : issued;
}

// The row shape as kPlainReduction uses it.
RowShape PlainShape(const PartContext& context) {
  RowShape shape;
  shape.along = context.part.loops.size() - 1;
  shape.vectors = context.Points(context.part.outer, context.part.loops.size());
  shape.width = WidthOfPlainRow(context);
  shape.rounds = (shape.vectors + shape.width - 1) / shape.width;
  return shape;
}

// Every round of every stage waits for rows that are not kept in registers.
double RowCycles(const PartContext& context) {
  const Part& part = context.part;
  const GpuTable& gpu = GpuTableOf(context.target);
  const std::optional<RowShape> kept = ShapeOfRow(context);
  const RowShape shape = kept ? *kept : PlainShape(context);
  const double rounds = static_cast<double>(shape.rounds);
  double instructions = gpu.element_thread, waits = 0;
  for (const Stage& stage : part.stages) {
    const Lanes lanes = {shape.along, stage.per_row ? 1 : shape.lanes,
                         shape.unaligned ? &shape.unaligned->vectors : nullptr};
    const double repeats = stage.per_row ? 1 : rounds;
    if (shape.unaligned && !stage.per_row)
      instructions += TapeInstructions(context, stage.tape, {shape.along, 1}, true);  // the edges
    instructions += repeats * TapeInstructions(context, stage.tape, lanes, true) +
                    TapeInstructions(context, stage.tape, lanes, false);
    if (!kept && !stage.per_row) waits += rounds * gpu.row_wait;
  }
  const double threads = static_cast<double>(context.Points(0, part.outer) * shape.width);
  return waits + IssueCycles(context, threads, instructions);
}

// Matmuls and convolutions without tiles: each thread goes through its elements of K one after another.
double ChainCycles(const PartContext& context, int64_t lanes) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const size_t first = static_cast<size_t>(EpilogueLoops(context.part)), all = context.part.loops.size();
  const double steps =
      std::ceil(static_cast<double>(context.Points(first, all)) / static_cast<double>(lanes));
  const double threads = static_cast<double>(context.Points(0, first) * lanes);
  return std::max(steps * gpu.chain_wait,
                  IssueCycles(context, threads, gpu.chain_thread + steps * gpu.chain_instructions));
}

}  // namespace

double ElementCycles(const PartPlan& plan) {
  const Skeleton skeleton = plan.context.part.skeleton;
  if (plan.by.empty()) return 0;
  if (skeleton == Skeleton::kMap) return GpuTableOf(plan.context.target).element_start + MapCycles(plan);
  const KernelVariant* by = plan.by[plan.chosen];
  const double start = GpuTableOf(plan.context.target).element_start;
  if (by == &kPlainMatmul) return start + ChainCycles(plan.context, LanesOfPlainMatmul(plan.context));
  if (by == &kPlainConvolution) return start + ChainCycles(plan.context, 1);
  const bool rows = by == &kRowReduction || by == &kPlainReduction;
  return rows ? start + RowCycles(plan.context) : 0;
}

}  // namespace rondo::cuda
