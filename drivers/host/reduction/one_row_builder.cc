// Reductions of a single row to the minimum and maximum of floats: threads share its elements
// (Variant::kOneRow). In other reductions, one thread has a whole row.
#include <limits>

#include "drivers/host/map/transpose_builder.h"
#include "drivers/host/reduction/reduction_builder.h"

namespace rondo::host {
namespace {

bool IsF32Extreme(const TapeInst& inst, Tape tape) {
  return (inst.op == TapeOp::kReduceMax || inst.op == TapeOp::kReduceMin) && inst.a < tape.size() &&
         tape[inst.a].type == TapeType::kF32;
}

// Whether the row's floats are contiguous.
bool IsRun(const PartContext& c, const Access& access) {
  int64_t step = 0;
  return access.plain && Linear(access, c.nest, 1, &step) && step == 1;
}

// Whether there is one float for each point of the innermost loop, contiguously.
bool IsOfInnermost(const PartContext& c, const Access& access) {
  const Nest& nest = c.nest;
  const int inner = nest.first[2] - 1;
  bool steps = false;
  for (int i = 0; i < access.num_loops; ++i) {
    if (access.step[i] == 0 || nest.extent[access.loop[i]] == 1) continue;
    if (access.loop[i] != inner || access.step[i] != 1) return false;
    steps = true;
  }
  return steps && access.plain && access.dtype == DType::kF32;
}

// Whether floats are contiguous along the innermost loop, and `step` elements apart along the loops before
// it, which are walked as one.
bool IsRuns(const PartContext& c, const Access& access, int64_t* step) {
  const Nest& nest = c.nest;
  const int inner = nest.first[2] - 1;
  int64_t steps[kMaxNest] = {};
  for (int i = 0; i < access.num_loops; ++i) steps[access.loop[i]] = access.step[i];
  if (!access.plain || access.dtype != DType::kF32 || (nest.extent[inner] > 1 && steps[inner] != 1))
    return false;
  *step = nest.extent[inner];
  int64_t points = 1;  // of the loops so far
  for (int d = inner - 1; d >= nest.first[1]; --d) {
    if (nest.extent[d] == 1) continue;
    if (points == 1) *step = steps[d];
    if (steps[d] != points * *step) return false;
    points *= nest.extent[d];
  }
  return true;
}

// How many instructions at the start of `body` only load such floats, optionally multiply them by factors,
// and optionally add terms, which are the same in each run; `stage` gets what they read. 0: the body is
// different.
uint32_t FindStraight(const PartContext& c, const Inst* body, uint32_t count, StageProgram* stage) {
  const auto load = [&](uint32_t at) {
    return at < count && body[at].kind == InstKind::kLoad ? body[at].access : nullptr;
  };
  // Whether instruction `at` computes `op` of the results of `one` and `other`, in any order.
  const auto is = [&](uint32_t at, TapeOp op, uint32_t one, uint32_t other) {
    const Inst& inst = body[at];
    return at < count && inst.kind == InstKind::kOp && inst.op == op && inst.type == TapeType::kF32 &&
           !inst.direct &&
           (inst.fn == c.engine.find_op(op, inst.type, inst.of) || inst.fn == c.engine.add_clamp) &&
           body[one].out != body[other].out &&
           ((inst.a == body[one].out && inst.b == body[other].out) ||
            (inst.a == body[other].out && inst.b == body[one].out));
  };
  stage->floats = stage->factors = stage->terms = nullptr;
  stage->low = -std::numeric_limits<float>::infinity();
  stage->high = std::numeric_limits<float>::infinity();
  if (load(0) == nullptr) return 0;
  stage->floats = load(0);
  if (load(1) != nullptr && is(2, TapeOp::kMul, 0, 1)) {
    const bool first = IsRuns(c, *load(0), &stage->run_step) && IsOfInnermost(c, *load(1));
    stage->floats = load(first ? 0 : 1);
    stage->factors = load(first ? 1 : 0);
    if (!IsRuns(c, *stage->floats, &stage->run_step) || !IsOfInnermost(c, *stage->factors)) return 0;
    if (load(3) == nullptr || !is(4, TapeOp::kAdd, 2, 3)) return 3;
    stage->terms = load(3);
    if (body[4].fn == c.engine.add_clamp) {
      stage->low = body[4].imm.range[0];
      stage->high = body[4].imm.range[1];
    }
    return IsOfInnermost(c, *stage->terms) ? 5 : 0;
  }
  return IsRuns(c, *stage->floats, &stage->run_step) ? 1 : 0;
}

// Whether the stage, without its tape, only makes bytes of straight floats.
bool FindQuantised(const PartContext& c, StageProgram* stage) {
  const Program& program = stage->program;
  if (program.num_body < 3 || stage->resets != 0) return false;
  uint32_t before = 0;
  while (before < program.num_body && program.body[before].kind == InstKind::kScalar) ++before;
  const Inst* const body = program.body + before;
  const uint32_t count = program.num_body - before;
  stage->straight = FindStraight(c, body, count, stage);
  bool fits = stage->straight != 0 && count == stage->straight + 2;
  if (fits) {
    const Inst &last = body[stage->straight - 1], &op = body[count - 2], &store = body[count - 1];
    fits = op.kind == InstKind::kOp && op.direct && op.exact && store.kind == InstKind::kStore &&
           op.a == last.out && op.b != last.out && op.c != last.out && IsRun(c, *store.access) &&
           store.access->size == 1;
  }
  stage->quantises = fits;
  if (!fits) stage->floats = stage->factors = stage->terms = nullptr;
  return fits;
}

// The same for finding their minimum and maximum.
void FindRange(const PartContext& c, StageProgram* stage) {
  const Inst* const body = stage->program.body;
  const uint32_t count = stage->program.num_body;
  stage->straight = FindStraight(c, body, count, stage);
  int least = -1, greatest = -1;
  bool fits = stage->straight != 0 && count > stage->straight;
  for (uint32_t i = stage->straight; fits && i < count; ++i) {
    const Inst& inst = body[i];
    int& slot = inst.op == TapeOp::kReduceMin ? least : greatest;
    fits = inst.kind == InstKind::kReduce && inst.a == body[stage->straight - 1].out &&
           inst.of == TapeType::kF32 && slot < 0;
    slot = inst.arg;
  }
  if (!fits) {
    stage->floats = stage->factors = stage->terms = nullptr;
    return;
  }
  stage->least = least;
  stage->greatest = greatest;
}

}  // namespace

bool FitsOneRow(const PartContext& c) {
  const Nest& nest = c.nest;
  if (nest.points[0] != 1 || c.part.stages.empty() || c.part.stages[0].per_row) return false;
  bool any = false;
  for (const Stage& stage : c.part.stages) {
    for (const TapeInst& inst : stage.tape) {
      if (!Reduces(inst.op)) continue;
      if (stage.per_row || !IsF32Extreme(inst, stage.tape)) return false;
      any = true;
    }
  }
  return any;
}

Status BuildOneRow(PartContext& c, Span<StageProgram> stages, ReductionPart* p) {
  Span<int> phase_stage = c.arena.New<int>(stages.size());
  if (phase_stage.data() == nullptr) return c.NoMemory();
  p->phases = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].per_row) continue;
    phase_stage[static_cast<size_t>(p->phases++)] = static_cast<int>(s);
    if (FindQuantised(c, &stages[s])) continue;
    FindRange(c, &stages[s]);
    TransposeProgram transpose;
    if (stages[s].floats == nullptr && FindTranspose(c, c.part.stages[s].tape, &transpose))
      RONDO_RETURN_IF_ERROR(BuildTranspose(c, c.part.stages[s].tape, &transpose, &stages[s].transpose));
  }
  p->phase_stage = phase_stage.data();
  p->end_phase = c.engine.end_one_row;
  const StageProgram& first = stages[static_cast<size_t>(phase_stage[0])];
  if (first.floats != nullptr && first.factors == nullptr && IsRun(c, *first.floats) && first.resets != 0) {
    p->take_range = c.engine.take_range;
    p->ranged = first.floats;
  }
  p->tasks = p->tiling.tiles;
  return Status::Ok();
}

}  // namespace rondo::host
