#include "compiler/schedule/live_bytes.h"

#include <algorithm>

#include "compiler/memory/lifetimes.h"

namespace rondo {

MemoryModel::MemoryModel(const LoweredProgram& program)
    : touches(program.ops.size()),
      donations(program.ops.size()),
      touch_count(program.values.size(), 0),
      kinds(program.values.size()) {
  for (size_t v = 0; v < program.values.size(); ++v) kinds[v] = program.values[v].kind;
  auto bytes_of = [&](int v) { return (program.values[static_cast<size_t>(v)].bytes + 63) / 64 * 64; };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    for (const LoweredBinding& param : op.params) {
      const bool seen = std::any_of(touches[i].begin(), touches[i].end(),
                                    [&](const Touch& t) { return t.value == param.value; });
      if (seen || !InArena(kinds[static_cast<size_t>(param.value)])) continue;
      touches[i].push_back({param.value, bytes_of(param.value)});
      ++touch_count[static_cast<size_t>(param.value)];
    }
    std::vector<int> used_writes;
    for (const InPlacePair& pair : op.in_place) {
      const int write = op.params[static_cast<size_t>(pair.write)].value;
      const int read = op.params[static_cast<size_t>(pair.read)].value;
      if (kinds[static_cast<size_t>(write)] != BufferKind::kTemporary) continue;
      if (kinds[static_cast<size_t>(read)] != BufferKind::kTemporary) continue;
      if (bytes_of(write) != bytes_of(read)) continue;
      if (std::find(used_writes.begin(), used_writes.end(), write) != used_writes.end()) continue;
      used_writes.push_back(write);
      donations[i].push_back({read, bytes_of(read)});
    }
  }
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (kinds[v] == BufferKind::kInput && touch_count[v] > 0) input_bytes += bytes_of(static_cast<int>(v));
  }
}

void LiveBytes::Reset(const MemoryModel& model) {
  model_ = &model;
  remaining_ = model.touch_count;
  live_ = model.input_bytes;
}

template <bool kCommit>
LiveBytes::Effect LiveBytes::Step(int op, std::vector<int>* remaining) const {
  Effect effect{live_, live_};
  int64_t freed = 0;
  for (const auto& [value, bytes] : model_->touches[static_cast<size_t>(op)]) {
    const size_t v = static_cast<size_t>(value);
    const BufferKind kind = model_->kinds[v];
    if (remaining_[v] == model_->touch_count[v] && kind != BufferKind::kInput) effect.during += bytes;
    if (remaining_[v] == 1 && kind != BufferKind::kOutput) freed += bytes;
  }
  for (const auto& [value, bytes] : model_->donations[static_cast<size_t>(op)]) {
    if (remaining_[static_cast<size_t>(value)] != 1) continue;
    effect.during -= bytes;
    freed -= bytes;
  }
  effect.after = effect.during - freed;
  if constexpr (kCommit) {
    for (const auto& touch : model_->touches[static_cast<size_t>(op)]) {
      --(*remaining)[static_cast<size_t>(touch.value)];
    }
  }
  return effect;
}

LiveBytes::Effect LiveBytes::Try(int op) const { return Step<false>(op, nullptr); }

LiveBytes::Effect LiveBytes::Run(int op) {
  const Effect effect = Step<true>(op, &remaining_);
  live_ = effect.after;
  return effect;
}

}  // namespace rondo
