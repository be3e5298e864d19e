// What tapes make of one byte: a table of 256 bytes, computed once by the very functions that would run.
#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr size_t kMostSteps = 64;  // of a tape that becomes a table
constexpr size_t kBytes = 256;
static_assert(kBytes <= kLanes);

bool IsPure(TapeOp op) { return ClassOf(op) != OpClass::kLeaf && ClassOf(op) != OpClass::kEffect; }

}  // namespace

// The steps that depend on register `root`, and the store that they end in: empty where they read anything
// else but constants, or end otherwise. Not ok() when out of memory.
GrowingList<uint16_t> PartBuilder::StepsFrom(Tape tape, size_t root) const {
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
    const bool store = inst.op == TapeOp::kStore && !stored && IsPlainByte(inst.arg) &&
                       tape[inst.a].op == TapeOp::kCast && tape[inst.a].type == TapeType::kI64;
    if (!known || (!store && !IsPure(inst.op)) || steps.size() == kMostSteps) return {};
    stored |= store;
    depends[k] = 1;
    steps.push_back(static_cast<uint16_t>(k));
  }
  if (!stored) return {};
  return steps;
}

// Of `steps` from register `root`, which holds bytes of `dtype` as i64 or, if `floats`, as f32.
Status PartBuilder::MakeByteTable(Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                                  const uint8_t** table) {
  Span<uint8_t> made = arena_.New<uint8_t>(kBytes);
  GrowingList<uint16_t> place = GrowingList<uint16_t>::Filled(tape.size(), 0);
  // A place for the root, for each step, and for the constants of one.
  GrowingList<int64_t> lanes = GrowingList<int64_t>::Filled((steps.size() + 4) * kLanes, 0);
  if (made.data() == nullptr || !place.ok() || !lanes.ok()) return NoMemory();
  const auto at = [&](size_t p) { return &lanes[p * kLanes]; };
  for (size_t i = 0; i < kBytes; ++i) {
    const int64_t number = dtype == DType::kI8 ? static_cast<int8_t>(i) : static_cast<int64_t>(i);
    at(0)[i] = number;
    if (tape[root].type == TapeType::kF32) reinterpret_cast<float*>(at(0))[i] = static_cast<float>(number);
  }
  const GrowingList<TapeInst> all(tape.begin(), tape.size());
  if (!all.ok()) return NoMemory();
  size_t last = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    const TapeInst& step = tape[steps[s]];
    if (step.op == TapeOp::kStore) {
      last = place[step.a];
      continue;
    }
    Inst inst;
    RONDO_RETURN_IF_ERROR(BuildInst(step, all, out_->tiling, &inst));
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
      RONDO_RETURN_IF_ERROR(BuildInst(tape[reads[r]], all, out_->tiling, &number));
      number.fn({constant, constant, constant, constant}, number, kLanes);
    }
    place[steps[s]] = static_cast<uint16_t>(s + 1);
    inst.fn({at(s + 1), from[0], from[1], from[2]}, inst, kLanes);
  }
  for (size_t i = 0; i < kBytes; ++i) made[i] = static_cast<uint8_t>(at(last)[i]);
  *table = made.data();
  return Status::Ok();
}

}  // namespace rondo::host
