#include "drivers/host/reduction/reduction_builder.h"

#include "drivers/host/map/map_builder.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {

namespace {

// Whether lanes across rows (the outer loops) beat lanes along them.
bool PreferColumns(PartContext& c) {
  const Nest& nest = c.nest;
  const Tiling along = MakeTiling(nest, nest.first[1], nest.first[2], kLanes, c.linear);
  const Tiling across = MakeTiling(nest, 0, nest.first[1], kLanes, c.linear);
  double cost[2] = {0, 0};
  const Tiling* tilings[2] = {&along, &across};
  for (int side = 0; side < 2; ++side) {
    const Tiling& t = *tilings[side];
    const int inner = nest.source[t.end - 1];
    for (const Operand& operand : c.part.operands) {
      int64_t strides[kMaxLoops];
      FullStrides(operand, static_cast<int>(c.part.loops.size()), strides);
      bool reduced = false;  // values that are the same along a row count once for each row
      for (size_t d = c.part.outer; d < c.part.loops.size(); ++d)
        reduced |= strides[d] != 0 && c.part.loops[d] > 1;
      const int64_t stride = inner < 0 ? 0 : strides[inner];
      cost[side] +=
          (stride == 0 || stride == 1 ? 1 : 4) / (reduced ? 1 : static_cast<double>(nest.points[1]));
    }
    cost[side] *= 1 + 16.0 / static_cast<double>(t.chunk * t.inner);
  }
  return cost[1] < cost[0];
}

Status BuildScalars(PartContext& c, ReductionPart* p) {
  p->num_scalars = c.part.scalars;
  p->num_kept = c.part.kept;
  if (c.part.scalars > kMaxSlots || c.part.kept > kMaxSlots)
    return c.Fail("more than 16 row scalars or kept rows");
  for (const Stage& stage : c.part.stages) {
    for (const TapeInst& inst : stage.tape) {
      const bool reduce = Reduces(inst.op);
      if (!reduce && inst.op != TapeOp::kSetScalar && inst.op != TapeOp::kKeep) continue;
      if (inst.arg >= kMaxSlots || inst.a >= stage.tape.size()) {
        return c.Fail("a tape that names a row scalar or register which does not exist");
      }
      const TapeType of = stage.tape[inst.a].type;
      if (inst.op == TapeOp::kKeep) {
        p->kept_type[inst.arg] = of;
        if (inst.arg >= p->num_kept) p->num_kept = inst.arg + 1;
        continue;
      }
      if (inst.arg >= p->num_scalars) p->num_scalars = inst.arg + 1;
      ScalarSlot& slot = p->scalars[inst.arg];
      const bool arg = ReducesToPosition(inst.op);
      slot.type = arg ? TapeType::kI64 : of;
      if (!reduce) continue;
      const bool last = arg && inst.imm.i != 0;
      if (slot.reduce != TapeOp::kConst && (slot.reduce != inst.op || slot.of != of || slot.last != last))
        return c.Fail("a row scalar that is reduced in two ways");
      slot.reduce = inst.op;
      slot.of = of;
      slot.last = last;
    }
  }
  return Status::Ok();
}

}  // namespace

Status BuildReduction(PartContext& c, PartProgram** out) {
  ReductionPart* p = c.New<ReductionPart>(Variant::kRows);
  if (p == nullptr) return c.NoMemory();
  RONDO_RETURN_IF_ERROR(BuildScalars(c, p));
  const Nest& nest = c.nest;
  const int64_t rows = nest.points[0], length = nest.points[1];
  constexpr int64_t kMostKept = int64_t{1} << 20;  // bytes of kept rows, for lanes across rows
  int lanes = kLanes;
  const bool one_row = FitsOneRow(c);
  bool columns = !one_row && PreferColumns(c);
  if (p->num_kept > 0) {
    while (lanes > 16 && Bytes(lanes, length, 8, p->num_kept) > kMostKept) lanes /= 2;
    columns = columns && Bytes(lanes, length, 8, p->num_kept) <= kMostKept;
  }
  c.Set(p, one_row ? Variant::kOneRow : columns ? Variant::kColumns : Variant::kRows);
  c.lanes_in_a_row = !columns;
  p->tiling = columns ? MakeTiling(nest, 0, nest.first[1], lanes, c.linear)
                      : MakeTiling(nest, nest.first[1], nest.first[2], kLanes, c.linear);
  c.tiling = p->tiling;
  // For each lane, a scalar has its value, a second value (which an arg reduction compares) and an
  // accumulator.
  p->scalars_at = c.Take(static_cast<int64_t>(kMaxSlots) * 3 * 8 * kLanes);
  p->kept_stride = columns ? Bytes(length, lanes, 8) : Bytes(length + kLanes, 8);
  if (p->num_kept > 0) p->kept_at = c.Take(Bytes(p->kept_stride, p->num_kept));

  Span<StageProgram> stages = c.arena.New<StageProgram>(c.part.stages.size());
  if (stages.data() == nullptr) return c.NoMemory();
  // Per-row stages have one lane; their accesses see loops of extent 1 in the reduced group.
  Tiling single = p->tiling;
  if (!columns) {
    single.split = single.end - 1;
    single.chunk = single.inner = 1;
  }
  double cost = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = c.part.stages[s];
    stages[s].per_row = stage.per_row;
    RONDO_RETURN_IF_ERROR(
        BuildTape(c, stage.tape, stage.per_row ? single : p->tiling, {}, &stages[s].program));
    for (const TapeInst& inst : stage.tape) {
      if (Reduces(inst.op)) stages[s].resets |= 1u << inst.arg;
    }
    cost += stage.per_row ? 0 : kInstructionCost * stages[s].program.num_body;
  }
  p->stages = stages.data();
  p->num_stages = static_cast<int>(stages.size());
  SoftmaxProgram softmax;
  if (FindSoftmax(c, *p, stages, &softmax)) {
    Span<SoftmaxProgram> made = c.arena.New<SoftmaxProgram>(1);
    if (made.data() == nullptr) return c.NoMemory();
    made[0] = softmax;
    p->softmax = made.data();
  }
  p->tasks = columns ? p->tiling.tiles : rows;
  p->work = cost * static_cast<double>(rows) * static_cast<double>(length);
  if (one_row) RONDO_RETURN_IF_ERROR(BuildOneRow(c, stages, p));
  *out = p;
  return Status::Ok();
}

}  // namespace rondo::host
