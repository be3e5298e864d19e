#include "compiler/codegen/cuda/reduction/stage_repeats.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "compiler/codegen/cuda/reduce_ops.h"
#include "core/tape_ops.h"

namespace rondo::cuda {

namespace {

bool IsSame(const TapeInst& a, const TapeInst& b) {
  return a.op == b.op && a.type == b.type && a.arg == b.arg && a.a == b.a && a.b == b.b && a.c == b.c &&
         a.imm.i == b.imm.i;
}
bool IsSame(const Stage& a, const Stage& b) {
  return a.per_row == b.per_row &&
         std::equal(a.tape.begin(), a.tape.end(), b.tape.begin(), b.tape.end(),
                    [](const TapeInst& x, const TapeInst& y) { return IsSame(x, y); });
}

}  // namespace

Repeat RepeatFrom(Span<const Stage> stages, size_t first) {
  constexpr size_t kMostStages = 8;
  Repeat best;
  for (size_t length = 1; length <= kMostStages; ++length) {
    size_t same = first + length;
    while (same < stages.size() && IsSame(stages[same], stages[same - length])) ++same;
    const size_t times = (same - first) / length;
    if (times > 1 && times * length > best.times * best.stages)
      best = {length, times, (same - first) % length};
  }
  return best;
}

size_t StageThatEnds(Span<const Stage> stages, const Repeat& repeat, size_t first) {
  size_t ends = repeat.stages;
  for (size_t k = 0; k < repeat.stages; ++k) {
    const Stage& stage = stages[first + k];
    if (stage.per_row && ends != repeat.stages) return repeat.stages;
    if (stage.per_row) ends = k;
    for (const TapeInst& inst : stage.tape) {
      const bool lasts = inst.op == TapeOp::kStore || inst.op == TapeOp::kKeep;
      if (lasts || (inst.op == TapeOp::kSetScalar && !stage.per_row)) return repeat.stages;
    }
  }
  return ends;
}

namespace {

// Numbers the values of instructions: equal computations get equal numbers, in any tape.
class Values {
 public:
  std::vector<size_t> Of(Tape tape) {
    std::vector<size_t> numbers;
    for (const TapeInst& inst : tape) {
      const int count = ClassOf(inst.op) == OpClass::kEffect ? 1 : Inputs(inst.op);
      const uint16_t inputs[] = {inst.a, inst.b, inst.c};
      Key key = {
          static_cast<int64_t>(inst.op), static_cast<int64_t>(inst.type), inst.arg, inst.imm.i, -1, -1, -1};
      for (int i = 0; i < count; ++i)
        key[static_cast<size_t>(4 + i)] = static_cast<int64_t>(numbers[inputs[i]]);
      numbers.push_back(known_.try_emplace(key, known_.size()).first->second);
    }
    return numbers;
  }

 private:
  using Key = std::array<int64_t, 7>;
  std::map<Key, size_t> known_;
};

}  // namespace

bool ReducesTheSame(const Stage& before, const Stage& stage) {
  if (before.per_row) return false;
  Values values;
  const std::vector<size_t> there = values.Of(before.tape), wanted = values.Of(stage.tape);
  for (size_t k = 0; k < stage.tape.size(); ++k) {
    if (IsReduction(stage.tape[k].op) && std::find(there.begin(), there.end(), wanted[k]) == there.end())
      return false;
  }
  return true;
}

}  // namespace rondo::cuda
