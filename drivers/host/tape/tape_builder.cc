#include "drivers/host/tape/tape_builder.h"

#include <cstring>
#include <limits>

#include "drivers/host/tape/byte_tapes.h"

namespace rondo::host {
namespace {

bool IsEffect(TapeOp op) { return ClassOf(op) == OpClass::kEffect; }

// Whether the result has its operands' type.
bool WorksInPlace(TapeOp op) {
  const OpClass kind = ClassOf(op);
  return kind != OpClass::kCast && kind != OpClass::kSelect && !GivesTruth(kind);
}

// The byte offset of a register for the result of `op`. Constants keep their registers for the whole launch.
uint32_t TakeSlot(TapeOp op, uint32_t slot, GrowingList<uint32_t>* free, uint32_t* slots) {
  if (op == TapeOp::kConst || free->empty()) return slot * (*slots)++;
  const uint32_t at = free->back();
  free->pop_back();
  return at;
}

// Replaces powers by a constant exponent with one cheaper instruction. Not roots: they differ from powers for
// -0 and -inf.
void SimplifyPow(GrowingList<TapeInst>& tape, TapeInst& inst) {
  const TapeInst& exponent = tape[inst.b];
  if (inst.op != TapeOp::kPow || inst.type == TapeType::kI64 || exponent.op != TapeOp::kConst) return;
  if (exponent.imm.f == 2) {
    inst.op = TapeOp::kMul;
    inst.b = inst.a;
  } else if (exponent.imm.f == -1) {
    inst.op = TapeOp::kReciprocal;
  }
}

// The last instruction that reads each register, counting only effects and what they need (-1: not needed).
// Not ok() if out of memory.
GrowingList<int> LastUses(const GrowingList<TapeInst>& tape, const GrowingList<uint16_t>& keep) {
  const int n = static_cast<int>(tape.size());
  GrowingList<int> last = GrowingList<int>::Filled(tape.size(), -1);
  if (!last.ok()) return last;
  for (uint16_t k : keep) last[k] = n;
  for (int k = n - 1; k >= 0; --k) {
    if (!IsEffect(tape[k].op) && last[k] < 0) continue;
    const uint16_t reads[3] = {tape[k].a, tape[k].b, tape[k].c};
    for (int r = 0; r < Inputs(tape[k].op); ++r) {
      if (last[reads[r]] < 0) last[reads[r]] = tape[k].op == TapeOp::kYield ? n : k;
    }
  }
  return last;
}

// Merges a maximum or minimum of a sum and a constant into the sum's instruction, and the minimum into a
// merged maximum's. `in` follows it.
bool ClampSum(const Engine& engine, const GrowingList<TapeInst>& tape, const TapeInst& in, uint16_t sum,
              Inst* add) {
  if (in.type != TapeType::kF32 || (in.op != TapeOp::kMax && in.op != TapeOp::kMin)) return false;
  const uint16_t other = in.a == sum ? in.b : in.a;
  if (other == sum || tape[other].op != TapeOp::kConst || add->kind != InstKind::kOp) return false;
  const bool clamps = add->fn == engine.add_clamp;
  const TapeInst& before = tape[sum];
  if (add->op == TapeOp::kMax && add->fn != engine.clamp && in.op == TapeOp::kMin) {
    const bool second = tape[before.b].op == TapeOp::kConst;
    const TapeInst& least = tape[second ? before.b : before.a];
    const auto low = static_cast<float>(least.imm.f), high = static_cast<float>(tape[other].imm.f);
    if (least.op != TapeOp::kConst || before.type != TapeType::kF32 || !(low <= high)) return false;
    if (!second) add->a = add->b;
    add->fn = engine.clamp;
    add->imm.range[0] = low;
    add->imm.range[1] = high;
    return true;
  }
  if (!clamps && (add->op != TapeOp::kAdd || add->type != TapeType::kF32)) return false;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float limit = static_cast<float>(tape[other].imm.f);
  float low = clamps ? add->imm.range[0] : -kInfinity, high = clamps ? add->imm.range[1] : kInfinity;
  // The minimum comes first.
  if (limit != limit || (in.op == TapeOp::kMax && high != kInfinity)) return false;
  if (in.op == TapeOp::kMax && limit > low) low = limit;
  if (in.op == TapeOp::kMin && limit < high) high = limit;
  add->fn = engine.add_clamp;
  add->imm.range[0] = low;
  add->imm.range[1] = high;
  return true;
}

// Merges the steps of a quantisation into the instruction of its quotient: rounding, a zero point, minimum
// and maximum. `in` follows it, and reads its register `reg`. The divisor and the zero point are constants,
// or numbers that every lane reads and that are loaded before (`at`: their registers).
bool JoinQuantisation(const Engine& engine, const GrowingList<TapeInst>& tape,
                      const GrowingList<uint8_t>& same, const GrowingList<uint32_t>& at, const TapeInst& in,
                      uint16_t reg, Inst* last) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (in.type != TapeType::kF32 || last->kind != InstKind::kOp) return false;
  float* range = last->imm.range;
  if (in.op == TapeOp::kRound) {
    const TapeInst& quotient = tape[reg];
    if (quotient.op != TapeOp::kDiv || quotient.type != TapeType::kF32 || last->op != TapeOp::kDiv)
      return false;
    const bool known = tape[quotient.b].op == TapeOp::kConst;
    if (!known && same[quotient.b] == 0) return false;
    last->fn = (known ? engine.quantise : engine.quantise_scaled).to_floats;
    const float start[4] = {-kInfinity, kInfinity, known ? static_cast<float>(tape[quotient.b].imm.f) : 1, 0};
    std::memcpy(range, start, sizeof(start));
    return true;
  }
  const bool by = last->fn == engine.quantise_by.to_floats,
             scaled = last->fn == engine.quantise_scaled.to_floats;
  const uint16_t other = in.a == reg ? in.b : in.a;
  if ((last->fn != engine.quantise.to_floats && !by && !scaled) || Inputs(in.op) != 2 || other == reg)
    return false;
  if (scaled && in.op == TapeOp::kAdd && same[other] != 0 && range[3] == 0 && range[0] == -kInfinity &&
      range[1] == kInfinity) {
    last->fn = engine.quantise_by.to_floats;
    last->c = at[other];
    return true;
  }
  if (tape[other].op != TapeOp::kConst) return false;
  const float number = static_cast<float>(tape[other].imm.f);
  const bool open =
      range[0] == -kInfinity && range[1] == kInfinity;  // zero point, minimum and maximum, in order
  if (number != number || (in.op != TapeOp::kMin && !open) || range[1] != kInfinity) return false;
  if (in.op == TapeOp::kAdd && range[3] == 0 && !by) {
    range[3] = number;
  } else if (in.op == TapeOp::kMax) {
    range[0] = number;
  } else if (in.op == TapeOp::kMin) {
    range[1] = number;
  } else {
    return false;
  }
  return true;
}

// Makes the last instruction give the bytes that a store writes.
bool QuantiseToBytes(const Engine& engine, const Access& to, const TapeInst& store,
                     const GrowingList<TapeInst>& tape, Inst* last) {
  if (!Is8Bit(to.dtype) || !to.plain || tape[store.a].type != TapeType::kF32) return false;
  for (const Quantisers* how : {&engine.quantise, &engine.quantise_scaled, &engine.quantise_by}) {
    if (last->fn != how->to_floats) continue;
    last->fn = to.dtype == DType::kI8 ? how->to_i8 : how->to_u8;
    return last->exact = true;
  }
  return false;
}

// Whether lanes are in memory as in a register.
bool InPlace(const Access& access) {
  return access.dtype == DType::kF32 && access.plain && access.lane.kind == LaneKind::kUnit;
}

}  // namespace

Status CheckInst(const PartContext& c, const TapeInst& in, size_t k, const GrowingList<TapeInst>& tape) {
  const uint16_t reads[3] = {in.a, in.b, in.c};
  for (int r = 0; r < Inputs(in.op); ++r) {
    if (reads[r] >= k) return c.Fail("a tape that reads a register before it is set");
    if (IsEffect(tape[reads[r]].op)) return c.Fail("a tape that reads the register of an effect");
  }
  if (in.op == TapeOp::kAcc && in.arg >= (c.part.rhs.empty() ? 1 : c.part.rhs.size())) {
    return c.Fail("a tape that reads an accumulator which its skeleton does not have");
  }
  const bool slot = in.op == TapeOp::kScalar || in.op == TapeOp::kKept || in.op == TapeOp::kKeep ||
                    in.op == TapeOp::kSetScalar || Reduces(in.op);
  if (slot && in.arg >= kMaxSlots) return c.Fail("more than 16 row scalars or kept rows");
  if (in.op == TapeOp::kIndex && in.arg >= c.part.loops.size()) {
    return c.Fail("a tape that reads the counter of a loop which the part does not have");
  }
  return Status::Ok();
}

namespace {

// Whether all points read the same element of the operand, and the part does not write it.
bool IsOneNumber(const PartContext& c, uint16_t operand) {
  if (operand >= c.part.operands.size()) return false;
  const Operand& o = c.part.operands[operand];
  bool one = o.mode == Mode::kRead && o.guards.empty() && o.indirects.empty();
  for (size_t d = 0; d < c.part.loops.size(); ++d) one &= c.part.loops[d] == 1 || o.strides[d] == 0;
  return one;
}

// Whether the operand depends only on loops that every tile contains as a whole, for example a value of each
// column where a tile is several rows.
bool IsSameInTiles(const PartContext& c, uint16_t operand, const Tiling& tiling) {
  if (operand >= c.part.operands.size() || tiling.chunk == 1) return false;
  const Operand& o = c.part.operands[operand];
  bool same = o.mode == Mode::kRead && o.guards.empty() && o.indirects.empty();
  for (size_t d = 0; d < c.part.loops.size(); ++d) {
    const int loop = c.nest.nest_loop[d];
    same &= c.part.loops[d] == 1 || o.strides[d] == 0 || (loop > tiling.split && loop < tiling.end);
  }
  return same;
}

// Whether a load is done before the first tile, for all of them.
bool LoadsOnce(const PartContext& c, const TapeInst& inst, const Tiling& tiling, const TapeUse& use) {
  return inst.op == TapeOp::kLoad &&
         (IsOneNumber(c, inst.arg) || (use.loads_once && IsSameInTiles(c, inst.arg, tiling)));
}

// Whether every lane reads the same value: one element, or a scalar of the row along which lanes run.
bool IsSame(const PartContext& c, const TapeInst& inst) {
  if (inst.op == TapeOp::kScalar) return c.lanes_in_a_row;
  return inst.op == TapeOp::kLoad && IsOneNumber(c, inst.arg);
}

// Puts loads that are the same for all tiles first, so that any instruction may read them, then the numbers
// of the row. False if out of memory.
bool OneNumbersFirst(const PartContext& c, const Tiling& tiling, const TapeUse& use,
                     GrowingList<TapeInst>* tape, GrowingList<const float*>* tables) {
  GrowingList<TapeInst> ordered;
  GrowingList<const float*> tables_ordered;
  GrowingList<uint16_t> moved = GrowingList<uint16_t>::Filled(tape->size(), 0);
  if (!moved.ok()) return false;
  const auto rank = [&](const TapeInst& inst) {
    return LoadsOnce(c, inst, tiling, use) ? 0 : IsSame(c, inst) ? 1 : 2;
  };
  for (const int place : {0, 1, 2}) {
    for (size_t k = 0; k < tape->size(); ++k) {
      TapeInst inst = (*tape)[k];
      if (rank(inst) != place) continue;
      moved[k] = static_cast<uint16_t>(ordered.size());
      uint16_t* const reads[3] = {&inst.a, &inst.b, &inst.c};
      for (int r = 0; r < Inputs(inst.op); ++r) *reads[r] = moved[*reads[r]];
      ordered.push_back(inst);
      tables_ordered.push_back((*tables)[k]);
    }
  }
  *tape = std::move(ordered);
  *tables = std::move(tables_ordered);
  return tape->ok() && tables->ok();
}

}  // namespace

Status BuildInst(PartContext& c, const TapeInst& in, const GrowingList<TapeInst>& tape, const Tiling& tiling,
                 Inst* out, bool moves) {
  out->op = in.op;
  out->type = in.type;
  out->of = Inputs(in.op) > 0 ? tape[in.a].type : in.type;
  out->arg = in.arg;
  out->imm.i = in.imm.i;
  switch (in.op) {
    case TapeOp::kLoad:
    case TapeOp::kStore: {
      const bool load = in.op == TapeOp::kLoad;
      out->kind = load ? InstKind::kLoad : InstKind::kStore;
      const TapeType type = load ? in.type : out->of;
      const bool as_float = type == TapeType::kF32 && c.IsPlainByte(in.arg);
      const LoadAs as = moves ? LoadAs::kByte : as_float ? LoadAs::kFloat : LoadAs::kNatural;
      RONDO_RETURN_IF_ERROR(c.BuildAccess(in.arg, tiling, &out->access, 0, as));
      if (NaturalType(out->access->dtype) != type && !as_float) {
        return c.Fail("a load or store whose register has another type than its operand");
      }
      return Status::Ok();
    }
    case TapeOp::kCombineMax:
    case TapeOp::kCombineMin: {
      out->kind = InstKind::kCombine;
      RONDO_RETURN_IF_ERROR(c.BuildAccess(in.arg, tiling, &out->access));
      const Access& cell = *out->access;
      if (out->of != TapeType::kF32 || cell.dtype != DType::kF32 || !cell.plain || cell.num_loops > 0 ||
          cell.lane.kind != LaneKind::kSame)
        return c.Fail("a tape that combines into anything but one element of f32");
      return Status::Ok();
    }
    case TapeOp::kIndex: {
      out->kind = InstKind::kIndex;
      const int loop = c.nest.nest_loop[in.arg];
      out->fixed = loop < 0;
      if (out->fixed) return Status::Ok();
      int64_t coefficients[kMaxNest] = {}, least, greatest;
      coefficients[loop] = 1;
      out->arg = static_cast<uint16_t>(loop);
      if (loop < tiling.first || loop >= tiling.end) return Status::Ok();
      if (!MakeLane(c.nest, tiling, coefficients, c.arena, &out->lane, &least, &greatest, &c.overflow)) {
        return c.NoMemory();
      }
      return Status::Ok();
    }
    case TapeOp::kAcc: out->kind = InstKind::kAcc; return Status::Ok();
    case TapeOp::kScalar: out->kind = InstKind::kScalar; return Status::Ok();
    case TapeOp::kKept: out->kind = InstKind::kKept; return Status::Ok();
    case TapeOp::kYield: out->kind = InstKind::kYield; return Status::Ok();
    case TapeOp::kSetScalar: out->kind = InstKind::kSetScalar; return Status::Ok();
    case TapeOp::kKeep: out->kind = InstKind::kKeep; return Status::Ok();
    case TapeOp::kAssertFinite: out->kind = InstKind::kAssert; return Status::Ok();
    default: break;
  }
  if (Reduces(in.op)) {
    out->kind = ReducesToPosition(in.op) ? InstKind::kReduceArg : InstKind::kReduce;
    return Status::Ok();
  }
  out->kind = InstKind::kOp;
  out->fn = c.engine.find_op(in.op, in.type, out->of);
  if (out->fn == nullptr) return c.Fail("a tape instruction with these types");
  return Status::Ok();
}

Status FinishProgram(PartContext& c, const GrowingList<Inst>& once, const GrowingList<Inst>& body,
                     Program* out) {
  if (!once.ok() || !body.ok()) return c.NoMemory();
  Span<const Inst> once_copy = c.arena.Copy(once), body_copy = c.arena.Copy(body);
  if (once_copy.data() == nullptr || body_copy.data() == nullptr) return c.NoMemory();
  out->once = once_copy.data();
  out->num_once = static_cast<uint32_t>(once.size());
  out->body = body_copy.data();
  out->num_body = static_cast<uint32_t>(body.size());
  return Status::Ok();
}

Status BuildTape(PartContext& c, Tape source, const Tiling& tiling, const TapeUse& use, Program* out) {
  GrowingList<TapeInst> tape(source.begin(), source.size());
  if (!tape.ok() || !use.keep.ok()) return c.NoMemory();
  for (size_t k = 0; k < tape.size(); ++k) {
    RONDO_RETURN_IF_ERROR(CheckInst(c, tape[k], k, tape));
    SimplifyPow(tape, tape[k]);
  }
  GrowingList<const float*> tables;
  if (use.keep.empty()) {
    RONDO_RETURN_IF_ERROR(MakeFloatTables(c, &tape, &tables));
    LoadBytesAsFloats(c, tape);
    StoreFloatsAsBytes(c, tape);
    KeepBytesAsFloats(tape);
    if (!OneNumbersFirst(c, tiling, use, &tape, &tables)) return c.NoMemory();
  }
  GrowingList<uint8_t> same = GrowingList<uint8_t>::Filled(tape.size(), 0);
  const GrowingList<uint8_t> moves =
      use.keep.empty() ? OnlyMovesBytes(c, tape) : GrowingList<uint8_t>::Filled(tape.size(), 0);
  if (!same.ok() || !moves.ok()) return c.NoMemory();
  for (size_t k = 0; k < tape.size(); ++k) same[k] = tape[k].type == TapeType::kF32 && IsSame(c, tape[k]);
  const GrowingList<int> last = LastUses(tape, use.keep);
  if (!last.ok()) return c.NoMemory();
  bool narrow = c.part.acc_type == TapeType::kF32;  // every register is f32
  for (size_t k = 0; k < tape.size(); ++k)
    narrow &= IsEffect(tape[k].op) || last[k] < 0 || tape[k].type == TapeType::kF32;
  // Numbers that all tiles read stay in their registers.
  size_t same_loads = 0;
  while (use.keep.empty() && !c.part.sequential && same_loads < tape.size() &&
         LoadsOnce(c, tape[same_loads], tiling, use))
    ++same_loads;
  const uint32_t slot = narrow ? kLanes * 4 : kLanes * 8;
  GrowingList<uint32_t> at = GrowingList<uint32_t>::Filled(tape.size(), 0);
  if (!at.ok()) return c.NoMemory();
  // A value read after a store may have been overwritten by it.
  int first_store = static_cast<int>(tape.size()) - 1;
  for (int k = first_store; k >= 0; --k) first_store = tape[k].op == TapeOp::kStore ? k : first_store;
  GrowingList<uint32_t> free;
  uint32_t slots = static_cast<uint32_t>(use.pinned);
  GrowingList<Inst> once, body;
  uint16_t before = 0;  // the tape's register that the last instruction of `body` defines
  for (size_t k = 0; k < tape.size(); ++k) {
    const TapeInst& in = tape[k];
    if (!IsEffect(in.op) && last[k] < 0) continue;
    const bool follows = !body.empty() && !IsEffect(in.op) && last[before] == static_cast<int>(k) &&
                         ((Inputs(in.op) == 1 && in.a == before) ||
                          (Inputs(in.op) == 2 && (in.a == before || in.b == before)));
    if (follows && (ClampSum(c.engine, tape, in, before, &body.back()) ||
                    JoinQuantisation(c.engine, tape, same, at, in, before, &body.back()))) {
      at[k] = at[before];
      before = static_cast<uint16_t>(k);
      continue;
    }
    Inst inst;
    RONDO_RETURN_IF_ERROR(BuildInst(c, in, tape, tiling, &inst, moves[k] != 0));
    if (use.keep.empty() && tables[k] != nullptr) {
      inst.fn = c.engine.table;
      inst.imm.table = tables[k];
    }
    const uint16_t reads[3] = {in.a, in.b, in.c};
    uint32_t* from[3] = {&inst.a, &inst.b, &inst.c};
    for (int r = 0; r < Inputs(in.op); ++r) *from[r] = at[reads[r]];
    // An op with a result as wide as its operands may overwrite one of them.
    const bool in_place = WorksInPlace(in.op) && inst.type == inst.of;
    if (!IsEffect(in.op) && !in_place) at[k] = TakeSlot(in.op, slot, &free, &slots);
    for (int r = 0; r < Inputs(in.op); ++r) {
      const uint16_t reg = reads[r];
      bool again = false;  // a register named twice is freed once
      for (int earlier = 0; earlier < r; ++earlier) again |= reads[earlier] == reg;
      const bool stays = tape[reg].op == TapeOp::kConst || reg < same_loads;
      if (!again && last[reg] == static_cast<int>(k) && !stays) {
        free.push_back(at[reg]);
      }
    }
    if (!IsEffect(in.op) && in_place) at[k] = TakeSlot(in.op, slot, &free, &slots);
    inst.out = at[k];
    if (in.op == TapeOp::kLoad) {
      inst.exact = moves[k] != 0 && inst.access->lane.kind == LaneKind::kUnit;
      inst.direct = last[k] <= first_store && (inst.exact || InPlace(*inst.access));
    }
    if (in.op == TapeOp::kStore && in.a == before && last[in.a] == static_cast<int>(k) && !body.empty() &&
        body.back().kind == InstKind::kOp) {
      body.back().direct = InPlace(*inst.access);
      if (!body.back().direct && QuantiseToBytes(c.engine, *inst.access, in, tape, &body.back())) {
        body.back().direct = inst.access->lane.kind == LaneKind::kUnit;  // in place
        if (!body.back().direct)
          RONDO_RETURN_IF_ERROR(c.BuildAccess(in.arg, tiling, &inst.access, 0, LoadAs::kByte));
      }
    }
    if (in.op == TapeOp::kYield) out->yield = inst.a;
    (in.op == TapeOp::kConst ? once : body).push_back(inst);
    if (k < same_loads) ++out->num_same;
    if (in.op != TapeOp::kConst) before = static_cast<uint16_t>(k);
  }
  out->slot_bytes = slot;
  out->slots = slots + 1;
  while ((1u << out->slot_shift) < slot) ++out->slot_shift;
  out->registers_at = c.Take(static_cast<int64_t>(slot) * out->slots);
  out->table_at = c.Take(static_cast<int64_t>(sizeof(char*)) * out->slots);
  if (!free.ok()) return c.NoMemory();
  if (use.at != nullptr) *use.at = std::move(at);
  return FinishProgram(c, once, body, out);
}

}  // namespace rondo::host
