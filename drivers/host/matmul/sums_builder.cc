// The epilogue of byte sums: requantised in one step, or floats or sums for a tape.
#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/matmul/operands.h"
#include "drivers/host/matmul/requantise_builder.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {
namespace {

// Builds the tape of values that depend only on columns; their registers stay loaded.
Status BuildOfColumns(PartContext& c, const GrowingList<uint8_t>& of_columns, Span<Requantisation> sums,
                      SumsPart* p) {
  const Tape tape = c.part.epilogue;
  TapeUse use;
  GrowingList<uint32_t> at;
  use.at = &at;
  GrowingList<TapeInst> kept;
  GrowingList<uint16_t> moved = GrowingList<uint16_t>::Filled(tape.size(), 0);
  if (!moved.ok()) return c.NoMemory();
  for (size_t k = 0; k < tape.size(); ++k) {
    if (of_columns[k] == 0) continue;
    TapeInst inst = tape[k];
    uint16_t* const reads[3] = {&inst.a, &inst.b, &inst.c};
    for (int r = 0; r < Inputs(inst.op); ++r) *reads[r] = moved[*reads[r]];
    moved[k] = static_cast<uint16_t>(kept.size());
    kept.push_back(inst);
  }
  const auto each = [&](auto f) {
    for (Requantisation& one : sums) {
      for (uint32_t* reg : {&one.correction, &one.times, &one.before, &one.factor, &one.after}) {
        if (*reg != kNoRegister) f(*reg);
      }
    }
  };
  each([&](uint32_t reg) { use.keep.push_back(moved[reg]); });
  if (!kept.ok() || !use.keep.ok()) return c.NoMemory();
  RONDO_RETURN_IF_ERROR(BuildTape(c, Tape(kept.data(), kept.size()), c.tiling, use, &p->of_columns));
  each([&](uint32_t& reg) { reg = at[moved[reg]]; });
  p->times_at = c.Take(Bytes(kLanes, p->num_rhs, sizeof(int32_t)));
  p->zeros_at = c.Take(Bytes(kLanes, sizeof(float)));
  p->ones_at = c.Take(Bytes(kLanes, sizeof(float)));
  return Status::Ok();
}

// The epilogue begins with the floats that instructions `floats` compute from the sums. Sets `built` to false
// if the epilogue also reads a row sum in another way.
Status BeginWithFloats(PartContext& c, const GrowingList<uint16_t>& floats, bool* built) {
  GrowingList<TapeInst> tape(c.part.epilogue.begin(), c.part.epilogue.size());
  GrowingList<uint8_t> read = GrowingList<uint8_t>::Filled(c.part.epilogue.size(), 0);
  if (!tape.ok() || !read.ok()) return c.NoMemory();
  for (size_t j = 0; j < floats.size(); ++j) {
    if (IsRowSum(c, j)) continue;
    TapeInst& sum = tape[floats[j]];
    sum = TapeInst();
    sum.op = TapeOp::kAcc;
    sum.type = TapeType::kF32;
    sum.arg = static_cast<uint16_t>(j);
  }
  for (size_t k = tape.size(); k-- > 0;) {
    if (ClassOf(tape[k].op) != OpClass::kEffect && read[k] == 0) continue;
    if (tape[k].op == TapeOp::kAcc && tape[k].type != TapeType::kF32) {
      *built = false;
      return Status::Ok();
    }
    const uint16_t reads[3] = {tape[k].a, tape[k].b, tape[k].c};
    for (int r = 0; r < Inputs(tape[k].op); ++r) read[reads[r]] = 1;
  }
  for (TapeInst& inst : tape) {
    if (inst.op == TapeOp::kAcc && inst.type != TapeType::kF32) inst.op = TapeOp::kConst;  // not read
  }
  c.part.epilogue = c.arena.Copy(tape);
  if (c.part.epilogue.data() == nullptr) return c.NoMemory();
  c.part.acc_type = TapeType::kF32;
  return Status::Ok();
}

// Builds the epilogue as requantisations of all B or, if not `whole`, its first part up to floats. `built`
// says whether the epilogue has this form.
Status BuildRequantisation(PartContext& c, SumsPart* p, bool whole, bool* built) {
  *built = false;
  const Tape tape = c.part.epilogue;
  const GrowingList<uint8_t> of_columns = DependOnColumns(c);
  Span<Requantisation> made = c.arena.New<Requantisation>(c.part.rhs.size());
  GrowingList<uint16_t> floats = GrowingList<uint16_t>::Filled(c.part.rhs.size(), 0);
  if (!of_columns.ok() || made.data() == nullptr || !floats.ok()) return c.NoMemory();
  uint32_t found = 0;  // one bit for each B
  size_t stored = 0, stores = 0;
  for (size_t k = 0; k < tape.size(); ++k) {
    stores += ClassOf(tape[k].op) == OpClass::kEffect;
    if (tape[k].op != TapeOp::kAcc) continue;
    const uint16_t j = tape[k].arg;
    if ((found >> j & 1) != 0) return Status::Ok();
    found |= 1u << j;
    if (IsRowSum(c, j)) continue;
    ++stored;
    const bool matches = whole ? MatchRequantisation(c, tape, of_columns, k, &made[j])
                               : MatchFloats(c, tape, of_columns, k, &made[j], &floats[j]);
    if (!matches) return Status::Ok();
  }
  if (found != (1u << made.size()) - 1 || (whole && stores != stored)) return Status::Ok();
  RONDO_RETURN_IF_ERROR(BuildOfColumns(c, of_columns, made, p));
  *built = true;
  p->whole = whole;
  p->requantise = c.engine.requantise;
  p->look_up = c.engine.look_up;
  if (!whole) RONDO_RETURN_IF_ERROR(BeginWithFloats(c, floats, built));
  if (*built) p->sums = made.data();
  return Status::Ok();
}

// Describes the epilogue's tape as a FloatTail, if it is one.
void FindTail(const PartContext& c, const Program& program, FloatTail* tail) {
  const uint32_t first = program.num_same;
  if (c.nest.points[0] != 1 || program.num_body < first + 3 || program.num_body - first > kMostTail) return;
  const Inst &store = program.body[program.num_body - 1], &last = program.body[program.num_body - 2];
  if (store.kind != InstKind::kStore || !IsMatrix(c, *store.access) || last.kind != InstKind::kOp ||
      last.out != store.a)
    return;
  FloatTail found = {program.body + first, program.num_body - first - 1, -1, store.access, false};
  for (uint32_t i = 0; i < found.count; ++i) {
    const Inst& inst = found.body[i];
    const bool sums = inst.kind == InstKind::kAcc, loads = inst.kind == InstKind::kLoad;
    if ((sums && found.right >= 0) || (loads && !IsMatrix(c, *inst.access)) ||
        (!sums && !loads && inst.kind != InstKind::kOp))
      return;
    if (sums) found.right = inst.arg;
    found.loads |= loads;
  }
  if (found.right >= 0) *tail = found;
}

}  // namespace

Status BuildSumsEpilogue(PartContext& c, SumsPart* p) {
  const GrowingList<TapeInst> tape(c.part.epilogue.begin(), c.part.epilogue.size());
  if (!tape.ok()) return c.NoMemory();
  for (size_t k = 0; k < tape.size(); ++k) RONDO_RETURN_IF_ERROR(CheckInst(c, tape[k], k, tape));
  bool built = false;
  RONDO_RETURN_IF_ERROR(BuildRequantisation(c, p, true, &built));
  if (built) return Status::Ok();
  RONDO_RETURN_IF_ERROR(BuildRequantisation(c, p, false, &built));
  RONDO_RETURN_IF_ERROR(BuildEpilogue(c, p));
  if (built) FindTail(c, p->epilogue, &p->tail);
  return Status::Ok();
}

}  // namespace rondo::host
