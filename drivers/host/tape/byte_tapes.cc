#include "drivers/host/tape/byte_tapes.h"

#include <cstring>

#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {
namespace {

constexpr size_t kMostSteps = 64;  // of a tape that is replaced by a table
constexpr size_t kBytes = 256;
static_assert(kBytes <= kLanes);

bool IsPure(TapeOp op) { return ClassOf(op) != OpClass::kLeaf && ClassOf(op) != OpClass::kEffect; }

// Whether instruction `cast` makes bytes of floats that are already rounded to such a byte's range.
bool IsByteAsFloat(const GrowingList<TapeInst>& tape, size_t at) {
  const auto number = [&](size_t k) { return static_cast<float>(tape[k].imm.f); };
  const auto bounds = [&](const TapeInst& in, TapeOp op) {
    return in.op == op && in.type == TapeType::kF32 && tape[in.b].op == TapeOp::kConst &&
           number(in.b) == __builtin_truncf(number(in.b));
  };
  const TapeInst& cast = tape[at];
  const bool is_signed = cast.imm.i == static_cast<int64_t>(DType::kI8);
  if (cast.op != TapeOp::kCast || (!is_signed && cast.imm.i != static_cast<int64_t>(DType::kU8)))
    return false;
  const TapeInst& most = tape[cast.a];
  if (!bounds(most, TapeOp::kMin) || !bounds(tape[most.a], TapeOp::kMax)) return false;
  const TapeInst& least = tape[most.a];
  if (number(least.b) < (is_signed ? -128 : 0) || number(most.b) > (is_signed ? 127 : 255)) return false;
  const TapeInst& sum = tape[least.a];
  return tape[bounds(sum, TapeOp::kAdd) ? sum.a : least.a].op == TapeOp::kRound;
}

}  // namespace

void LoadBytesAsFloats(const PartContext& c, GrowingList<TapeInst>& tape) {
  const auto reads = [&](size_t k, size_t reg) {
    const uint16_t regs[3] = {tape[k].a, tape[k].b, tape[k].c};
    bool found = false;
    for (int r = 0; r < Inputs(tape[k].op); ++r) found |= regs[r] == reg;
    return found;
  };
  const auto widens = [&](size_t k) { return tape[k].op == TapeOp::kCast && tape[k].type == TapeType::kF32; };
  for (size_t l = 0; l < tape.size(); ++l) {
    if (tape[l].op != TapeOp::kLoad || !c.IsPlainByte(tape[l].arg)) continue;
    bool all = true;
    for (size_t k = l + 1; k < tape.size(); ++k) all &= !reads(k, l) || widens(k);
    if (!all) continue;
    tape[l].type = TapeType::kF32;
    for (size_t cast = l + 1; cast < tape.size(); ++cast) {
      if (!widens(cast) || tape[cast].a != l) continue;
      for (size_t k = cast + 1; k < tape.size(); ++k) {
        for (uint16_t* reg : {&tape[k].a, &tape[k].b, &tape[k].c}) {
          if (*reg == cast) *reg = static_cast<uint16_t>(l);
        }
      }
    }
  }
}

void StoreFloatsAsBytes(const PartContext& c, GrowingList<TapeInst>& tape) {
  for (TapeInst& store : tape) {
    if (store.op != TapeOp::kStore || !c.IsPlainByte(store.arg)) continue;
    const DType dtype = c.part.operands[store.arg].dtype;
    const float low = dtype == DType::kI8 ? -128 : 0, high = dtype == DType::kI8 ? 127 : 255;
    const TapeInst& cast = tape[store.a];
    if (cast.op != TapeOp::kCast || cast.imm.i != static_cast<int64_t>(dtype)) continue;
    const TapeInst &most = tape[cast.a], &limit = tape[most.b];
    if (most.op != TapeOp::kMin || most.type != TapeType::kF32 || limit.op != TapeOp::kConst) continue;
    const TapeInst &least = tape[most.a], &floor = tape[least.b];
    if (least.op != TapeOp::kMax || floor.op != TapeOp::kConst) continue;
    const float top = static_cast<float>(limit.imm.f), bottom = static_cast<float>(floor.imm.f);
    if (bottom >= low && bottom <= top && top <= high) store.a = cast.a;
  }
}

void KeepBytesAsFloats(GrowingList<TapeInst>& tape) {
  for (size_t wide = 0; wide < tape.size(); ++wide) {
    if (tape[wide].op != TapeOp::kCast || tape[wide].type != TapeType::kF32) continue;
    if (!IsByteAsFloat(tape, tape[wide].a)) continue;
    const TapeInst& cast = tape[tape[wide].a];
    for (size_t k = wide + 1; k < tape.size(); ++k) {
      for (uint16_t* reg : {&tape[k].a, &tape[k].b, &tape[k].c}) {
        if (*reg == wide) *reg = cast.a;
      }
    }
  }
}

GrowingList<uint8_t> OnlyMovesBytes(const PartContext& c, const GrowingList<TapeInst>& tape) {
  GrowingList<uint8_t> moves = GrowingList<uint8_t>::Filled(tape.size(), 0);
  if (!moves.ok()) return moves;
  for (size_t l = 0; l < tape.size(); ++l) {
    if (tape[l].op != TapeOp::kLoad || tape[l].type != TapeType::kI64 || !c.IsPlainByte(tape[l].arg))
      continue;
    const DType dtype = c.part.operands[tape[l].arg].dtype;
    bool all = true;
    for (size_t k = l + 1; k < tape.size(); ++k) {
      const uint16_t reads[3] = {tape[k].a, tape[k].b, tape[k].c};
      for (int r = 0; r < Inputs(tape[k].op); ++r) {
        all &= reads[r] != l || (tape[k].op == TapeOp::kStore && c.IsPlainByte(tape[k].arg) &&
                                 c.part.operands[tape[k].arg].dtype == dtype);
      }
    }
    moves[l] = all;
    for (size_t k = l + 1; k < tape.size(); ++k)
      moves[k] |= all && tape[k].op == TapeOp::kStore && tape[k].a == l;
  }
  return moves;
}

GrowingList<uint16_t> StepsFrom(const PartContext& c, Tape tape, size_t root, bool to_floats) {
  GrowingList<uint16_t> steps;
  GrowingList<uint8_t> depends = GrowingList<uint8_t>::Filled(tape.size(), 0);
  if (!depends.ok()) return steps;
  depends[root] = 1;
  bool stored = false;
  for (size_t k = root + 1; k < tape.size(); ++k) {
    const TapeInst& inst = tape[k];
    const uint16_t reads[3] = {inst.a, inst.b, inst.c};
    bool some = false, known = true;
    for (int r = 0; r < Inputs(inst.op); ++r) {
      some |= depends[reads[r]] != 0;
      known &= depends[reads[r]] != 0 || tape[reads[r]].op == TapeOp::kConst;
    }
    if (!some) continue;
    const bool of_bytes = !to_floats && c.IsPlainByte(inst.arg) && tape[inst.a].op == TapeOp::kCast &&
                          tape[inst.a].type == TapeType::kI64;
    const bool of_floats = to_floats && c.IsPlainFloat(inst.arg) && tape[inst.a].type == TapeType::kF32;
    const bool store = inst.op == TapeOp::kStore && !stored && (of_bytes || of_floats);
    if (!known || (!store && !IsPure(inst.op)) || steps.size() == kMostSteps) return {};
    stored |= store;
    depends[k] = 1;
    steps.push_back(static_cast<uint16_t>(k));
  }
  if (!stored) return {};
  return steps;
}

Status TakeSteps(PartContext& c, Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                 int64_t (&results)[kLanes]) {
  GrowingList<uint16_t> place = GrowingList<uint16_t>::Filled(tape.size(), 0);
  // Room for the root, each step, and the constants of one step.
  GrowingList<int64_t> lanes = GrowingList<int64_t>::Filled((steps.size() + 4) * kLanes, 0);
  if (!place.ok() || !lanes.ok()) return c.NoMemory();
  const auto at = [&](size_t p) { return &lanes[p * kLanes]; };
  for (size_t i = 0; i < kBytes; ++i) {
    const int64_t number = dtype == DType::kI8 ? static_cast<int8_t>(i) : static_cast<int64_t>(i);
    at(0)[i] = number;
    if (tape[root].type == TapeType::kF32) reinterpret_cast<float*>(at(0))[i] = static_cast<float>(number);
  }
  const GrowingList<TapeInst> all(tape.begin(), tape.size());
  if (!all.ok()) return c.NoMemory();
  size_t last = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    const TapeInst& step = tape[steps[s]];
    if (step.op == TapeOp::kStore) {
      last = place[step.a];
      continue;
    }
    Inst inst;
    RONDO_RETURN_IF_ERROR(BuildInst(c, step, all, c.tiling, &inst));
    const uint16_t reads[3] = {step.a, step.b, step.c};
    const void* from[3] = {at(0), at(0), at(0)};
    for (size_t r = 0; r < static_cast<size_t>(Inputs(step.op)); ++r) {
      int64_t* constant = at(steps.size() + 1 + r);
      from[r] = constant;
      if (tape[reads[r]].op != TapeOp::kConst) {
        from[r] = at(place[reads[r]]);
        continue;
      }
      Inst number;
      RONDO_RETURN_IF_ERROR(BuildInst(c, tape[reads[r]], all, c.tiling, &number));
      number.fn({constant, constant, constant, constant}, number, kLanes);
    }
    place[steps[s]] = static_cast<uint16_t>(s + 1);
    inst.fn({at(s + 1), from[0], from[1], from[2]}, inst, kLanes);
  }
  std::memcpy(results, at(last), sizeof(results));
  return Status::Ok();
}

Status MakeByteTable(PartContext& c, Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                     const uint8_t** table) {
  Span<uint8_t> made = c.arena.New<uint8_t>(kBytes);
  if (made.data() == nullptr) return c.NoMemory();
  int64_t results[kLanes];
  RONDO_RETURN_IF_ERROR(TakeSteps(c, tape, root, steps, dtype, results));
  for (size_t i = 0; i < kBytes; ++i) made[i] = static_cast<uint8_t>(results[i]);
  *table = made.data();
  return Status::Ok();
}

Status MakeFloatTables(PartContext& c, GrowingList<TapeInst>* tape, GrowingList<const float*>* tables) {
  constexpr int kLookUp = 24;  // cost of a look-up, in additions
  *tables = GrowingList<const float*>::Filled(tape->size(), nullptr);
  if (!tables->ok()) return c.NoMemory();
  for (size_t root = 0; root < tape->size(); ++root) {
    if (!IsByteAsFloat(*tape, root)) continue;
    const Tape all(tape->data(), tape->size());
    const GrowingList<uint16_t> steps = StepsFrom(c, all, root);
    if (!steps.ok()) return c.NoMemory();
    int cost = 0;
    size_t store = 0;
    for (uint16_t step : steps) {
      const TapeInst& inst = all[step];
      const bool function = AccuracyOf(inst.op) == Accuracy::kFunction;
      cost += function ? 16 : inst.op == TapeOp::kDiv || inst.op == TapeOp::kSqrt ? 8 : 1;
      if (inst.op == TapeOp::kStore) store = step;
    }
    if (steps.empty() || cost < kLookUp || all[store].a == root) continue;
    const bool is_signed = all[root].imm.i == static_cast<int64_t>(DType::kI8);
    const bool to_signed = c.part.operands[all[store].arg].dtype == DType::kI8;
    const uint8_t* bytes = nullptr;
    RONDO_RETURN_IF_ERROR(MakeByteTable(c, all, root, steps, is_signed ? DType::kI8 : DType::kU8, &bytes));
    Span<float> table = c.arena.New<float>(kBytes);
    if (table.data() == nullptr) return c.NoMemory();
    for (size_t i = 0; i < kBytes; ++i)
      table[i] = to_signed ? static_cast<float>(static_cast<int8_t>(bytes[i])) : static_cast<float>(bytes[i]);
    const uint16_t last = all[store].a;
    TapeInst& look_up = (*tape)[last];
    look_up = TapeInst();
    look_up.op = TapeOp::kAbs;  // of one float, as a look-up is
    look_up.type = TapeType::kF32;
    look_up.a = all[root].a;
    (*tables)[last] = table.data();
    root = store;
  }
  return Status::Ok();
}

}  // namespace rondo::host
