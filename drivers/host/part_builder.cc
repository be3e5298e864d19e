#include "drivers/host/part_builder.h"

#include <cstring>

#include "core/guard.h"

namespace rondo::host {
namespace {

// Rough nanoseconds of one lane of one tape instruction, for deciding how many threads a part is worth.
constexpr double kInstCost = 0.15;

}  // namespace

Status PartBuilder::Build(PartProgram* out) {
  out_ = out;
  *out = PartProgram();
  out->kernel = &kernel_;
  out->combine = part_.combine;
  out->nan_to_zero = part_.nan_to_zero;
  out->sequential = part_.sequential;
  out->scale = part_.scale;
  out->softcap = part_.softcap;
  out->acc_type = part_.acc_type;
  Take(static_cast<int64_t>(kAccessBytes) * (kMaxIndexDepth + 2));
  if (part_.loops.size() > kMaxLoops) return Fail("more than 16 loops");
  RONDO_RETURN_IF_ERROR(DropGuards());
  channels_ = ChannelsLast(part_);
  out->nest = MakeNest(part_, channels_);
  switch (part_.skeleton) {
    case Skeleton::kMap: RONDO_RETURN_IF_ERROR(BuildMap()); break;
    case Skeleton::kReduction: RONDO_RETURN_IF_ERROR(BuildReduction()); break;
    case Skeleton::kContraction:
    case Skeleton::kConvolution: RONDO_RETURN_IF_ERROR(BuildProduct()); break;
    case Skeleton::kAttention: RONDO_RETURN_IF_ERROR(BuildAttention()); break;
  }
  if (out->path == Path::kBytes || out->path == Path::kChannelBytes) RONDO_RETURN_IF_ERROR(FindWritten());
  if (out->scratch_bytes > kMaxScratchBytes) return Fail("what needs more than 4 GiB of scratch a thread");
  out->run = engine_.run[static_cast<int>(out->path)];
  return Status::Ok();
}

Status PartBuilder::DropGuards() {
  bool any = false;
  for (const Operand& operand : part_.operands) {
    for (const Guard& guard : operand.guards) any |= AlwaysHolds(guard, part_.loops);
  }
  if (!any) return Status::Ok();
  Span<Operand> operands = arena_.New<Operand>(part_.operands.size());
  if (operands.data() == nullptr) return NoMemory();
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& from = part_.operands[i];
    Operand& to = operands[i] = from;
    if (from.guards.empty()) continue;
    Span<int64_t> strides = arena_.New<int64_t>(part_.loops.size());
    Span<Guard> left = arena_.New<Guard>(from.guards.size());
    if (strides.data() == nullptr || left.data() == nullptr) return NoMemory();
    size_t kept = 0;
    std::memcpy(strides.data(), from.strides.data(), strides.size() * sizeof(int64_t));
    for (const Guard& guard : from.guards) {
      if (!AlwaysHolds(guard, part_.loops)) {
        left[kept++] = guard;
        continue;
      }
      to.offset += guard.stride * guard.offset;
      for (size_t l = 0; l < strides.size(); ++l) {  // modulo 2^64, as FullStrides
        strides[l] = static_cast<int64_t>(static_cast<uint64_t>(strides[l]) +
                                          static_cast<uint64_t>(guard.stride) *
                                              static_cast<uint64_t>(guard.strides[l]));
      }
    }
    to.strides = Span<const int64_t>(strides.data(), strides.size());
    to.guards = Span<const Guard>(left.data(), kept);
  }
  part_.operands = Span<const Operand>(operands.data(), operands.size());
  return Status::Ok();
}

// ------------------------------------------------------------------------------------------- map

// Whether the map is one of runs.
void PartBuilder::FindRunsOfMap() {
  const Nest& nest = out_->nest;
  const Program& program = out_->program;
  const auto along = [&](const Access& access) {
    return access.plain && access.lane.kind == LaneKind::kUnit;
  };
  if (part_.sequential || out_->tiling.split != nest.loops - 1 || program.num_body <= program.num_same)
    return;
  Inst* const body =
      const_cast<Inst*>(program.body) + program.num_same;  // made by this builder, not yet shared
  const uint32_t count = program.num_body - program.num_same;
  const Inst& store = body[count - 1];
  if (store.kind != InstKind::kStore || store.access->size != 1 || !along(*store.access)) return;
  if (count == 1 && program.num_same == 1 && program.num_once == 0 && nest.loops == 1) {
    const Access& from = *program.body[0].access;
    if (program.body[0].out == store.a && from.dtype == store.access->dtype) out_->fills = &from;
    return;
  }
  Inst &load = body[0], &op = body[count - 2];
  if (count != 3 || load.kind != InstKind::kLoad || !load.direct || load.access->dtype != DType::kF32 ||
      !along(*load.access) || op.kind != InstKind::kOp || !op.direct || !op.exact || op.a != load.out ||
      op.b == load.out || op.c == load.out)
    return;
  load.exact = true;
  out_->in_runs = true;
}

Status PartBuilder::BuildMap() {
  out_->path = Path::kMap;
  TurnProgram turn;
  if (FindTurn(part_.body, &turn)) {
    PointsLast(&turn);
    RONDO_RETURN_IF_ERROR(BuildTurn(part_.body, &turn, &out_->turn));
  }
  const Nest& nest = out_->nest;
  out_->tiling = MakeTiling(nest, 0, nest.loops, kLanes, linear_ || part_.sequential);
  if (part_.sequential) {
    // Points whose writes may coincide must not share a tile, where loads come before stores.
    bool apart = true;
    for (const Operand& operand : part_.operands) {
      if (operand.mode == Mode::kRead) continue;
      const int inner = nest.source[nest.loops - 1];
      apart &= inner >= 0 && operand.strides[inner] != 0 && operand.guards.empty();
      for (const Indirect& indirect : operand.indirects) {
        if (indirect.operand >= part_.operands.size()) return Fail("an index that the part does not have");
        const Operand& index = part_.operands[indirect.operand];
        apart &= inner >= 0 && index.strides[inner] == 0 && index.guards.empty() && index.indirects.empty();
      }
    }
    if (!apart) out_->tiling = MakeTiling(nest, 0, nest.loops, 1, true);
  }
  RONDO_RETURN_IF_ERROR(BuildTape(part_.body, out_->tiling, {}, &out_->program));
  if (out_->turn == nullptr) FindRunsOfMap();
  out_->tasks = out_->tiling.tiles;
  if (part_.sequential) out_->tasks = 1;
  out_->work = static_cast<double>(nest.points[0]) * kInstCost * (out_->program.num_body + 1);
  return Status::Ok();
}

// ------------------------------------------------------------------------------------- reduction

// Whether lanes across rows (the outer loops) beat lanes along them.
bool PartBuilder::PreferColumns() {
  const Nest& nest = out_->nest;
  const Tiling along = MakeTiling(nest, nest.first[1], nest.first[2], kLanes, linear_);
  const Tiling across = MakeTiling(nest, 0, nest.first[1], kLanes, linear_);
  double cost[2] = {0, 0};
  const Tiling* tilings[2] = {&along, &across};
  for (int side = 0; side < 2; ++side) {
    const Tiling& t = *tilings[side];
    const int inner = nest.source[t.end - 1];
    for (const Operand& operand : part_.operands) {
      int64_t strides[kMaxLoops];
      FullStrides(operand, static_cast<int>(part_.loops.size()), strides);
      bool reduced = false;  // what is the same all along a row counts once a row
      for (size_t d = part_.outer; d < part_.loops.size(); ++d)
        reduced |= strides[d] != 0 && part_.loops[d] > 1;
      const int64_t stride = inner < 0 ? 0 : strides[inner];
      cost[side] +=
          (stride == 0 || stride == 1 ? 1 : 4) / (reduced ? 1 : static_cast<double>(nest.points[1]));
    }
    cost[side] *= 1 + 16.0 / static_cast<double>(t.chunk * t.inner);
  }
  return cost[1] < cost[0];
}

Status PartBuilder::BuildScalars() {
  out_->num_scalars = part_.scalars;
  out_->num_kept = part_.kept;
  if (part_.scalars > kMaxSlots || part_.kept > kMaxSlots)
    return Fail("more than 16 row scalars or kept rows");
  for (const Stage& stage : part_.stages) {
    for (const TapeInst& inst : stage.tape) {
      const bool reduce = Reduces(inst.op);
      if (!reduce && inst.op != TapeOp::kSetScalar && inst.op != TapeOp::kKeep) continue;
      if (inst.arg >= kMaxSlots || inst.a >= stage.tape.size()) {
        return Fail("a tape that names a row scalar or register which does not exist");
      }
      const TapeType of = stage.tape[inst.a].type;
      if (inst.op == TapeOp::kKeep) {
        out_->kept_type[inst.arg] = of;
        if (inst.arg >= out_->num_kept) out_->num_kept = inst.arg + 1;
        continue;
      }
      if (inst.arg >= out_->num_scalars) out_->num_scalars = inst.arg + 1;
      ScalarSlot& slot = out_->scalars[inst.arg];
      const bool arg = ReducesToPosition(inst.op);
      slot.type = arg ? TapeType::kI64 : of;
      if (!reduce) continue;
      const bool last = arg && inst.imm.i != 0;
      if (slot.reduce != TapeOp::kConst && (slot.reduce != inst.op || slot.of != of || slot.last != last))
        return Fail("a row scalar that is reduced in two ways");
      slot.reduce = inst.op;
      slot.of = of;
      slot.last = last;
    }
  }
  return Status::Ok();
}

Status PartBuilder::BuildReduction() {
  RONDO_RETURN_IF_ERROR(BuildScalars());
  const Nest& nest = out_->nest;
  const int64_t rows = nest.points[0], length = nest.points[1];
  constexpr int64_t kMostKept = int64_t{1} << 20;  // bytes of kept rows, for lanes across rows
  int lanes = kLanes;
  const bool one_row = FitsOneRow();
  bool columns = !one_row && PreferColumns();
  if (out_->num_kept > 0) {
    while (lanes > 16 && Bytes(lanes, length, 8, out_->num_kept) > kMostKept) lanes /= 2;
    columns = columns && Bytes(lanes, length, 8, out_->num_kept) <= kMostKept;
  }
  out_->path = one_row ? Path::kOneRow : columns ? Path::kColumns : Path::kRows;
  out_->tiling = columns ? MakeTiling(nest, 0, nest.first[1], lanes, linear_)
                         : MakeTiling(nest, nest.first[1], nest.first[2], kLanes, linear_);
  // A scalar has, per lane, its value, a second value (what an arg reduction compares) and an accumulator.
  out_->scalars_at = Take(static_cast<int64_t>(kMaxSlots) * 3 * 8 * kLanes);
  out_->kept_stride = columns ? Bytes(length, lanes, 8) : Bytes(length + kLanes, 8);
  if (out_->num_kept > 0) out_->kept_at = Take(Bytes(out_->kept_stride, out_->num_kept));

  Span<StageProgram> stages = arena_.New<StageProgram>(part_.stages.size());
  if (stages.data() == nullptr) return NoMemory();
  // Per-row stages of rows have one lane; their accesses see loops of extent 1 in the reduced group.
  Tiling single = out_->tiling;
  if (!columns) {
    single.split = single.end - 1;
    single.chunk = single.inner = 1;
  }
  double cost = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = part_.stages[s];
    stages[s].per_row = stage.per_row;
    RONDO_RETURN_IF_ERROR(
        BuildTape(stage.tape, stage.per_row ? single : out_->tiling, {}, &stages[s].program));
    for (const TapeInst& inst : stage.tape) {
      if (Reduces(inst.op)) stages[s].resets |= 1u << inst.arg;
    }
    cost += stage.per_row ? 0 : kInstCost * stages[s].program.num_body;
  }
  out_->stages = stages.data();
  out_->num_stages = static_cast<int>(stages.size());
  SoftmaxProgram softmax;
  if (FindSoftmax(stages, &softmax)) {
    Span<SoftmaxProgram> made = arena_.New<SoftmaxProgram>(1);
    if (made.data() == nullptr) return NoMemory();
    made[0] = softmax;
    out_->softmax = made.data();
  }
  out_->tasks = columns ? out_->tiling.tiles : rows;
  out_->work = cost * static_cast<double>(rows) * static_cast<double>(length);
  if (one_row) RONDO_RETURN_IF_ERROR(BuildOneRow(stages));
  return Status::Ok();
}

}  // namespace rondo::host
