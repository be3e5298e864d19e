#include "compiler/schedule/live_bytes.h"

#include <algorithm>

namespace rondo {
namespace {

int64_t RoundedUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The peak of one round of a loop, without its inputs and outputs.
int64_t BytesOfARound(const LoweredLoop& loop) {
  LoweredProgram body = loop.body;
  for (LoweredValue& value : body.values) {
    if (IsInput(value.kind) || IsOutput(value.kind)) value.kind = BufferKind::kState;
  }
  std::vector<int> order(body.ops.size());
  for (size_t op = 0; op < order.size(); ++op) order[op] = static_cast<int>(op);
  return CostOf(MemoryModel(body), order).peak;
}

}  // namespace

MemoryModel::MemoryModel(const LoweredProgram& program, TakeOvers counted)
    : touches(program.ops.size()),
      take_overs(MayTakeOver(program)),
      touch_count(program.values.size(), 0),
      from_start(program.values.size()),
      to_end(program.values.size()) {
  for (size_t v = 0; v < program.values.size(); ++v) {
    from_start[v] = IsInput(program.values[v].kind);
    to_end[v] = IsOutput(program.values[v].kind);
  }
  std::vector<int> ended(program.collectives.size(), -1);  // the value that ends at the collective's start
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    if (take_overs[i].size() > kMostTakeOvers) take_overs[i].resize(kMostTakeOvers);
    for (TakeOver& pair : take_overs[i]) {
      pair.bytes = RoundedUp(pair.bytes);
      if (pair.at_start) ended[static_cast<size_t>(op.collective)] = pair.read;
    }
    const bool waits = op.kind == LoweredKind::kCollectiveWait;
    for (const LoweredBinding& param : op.params) {
      const size_t v = static_cast<size_t>(param.value);
      const bool seen = std::any_of(touches[i].begin(), touches[i].end(),
                                    [&](const Touch& t) { return t.value == param.value; });
      if (seen || !InArena(program.values[v].kind) ||
          (waits && ended[static_cast<size_t>(op.collective)] == param.value))
        continue;
      touches[i].push_back({param.value, RoundedUp(program.values[v].bytes)});
      if (touch_count[v]++ == 0 && from_start[v] != 0) start_bytes += touches[i].back().bytes;
    }
    if (op.kind == LoweredKind::kLoop) AddValueOf(i, BytesOfARound(*op.rounds));
  }
  if (counted == TakeOvers::kByOrder) AddTakeOversAtStarts(program);
}

void MemoryModel::AddTakeOversAtStarts(const LoweredProgram& program) {
  at_start.assign(program.ops.size(), {});
  start_of.assign(program.ops.size(), -1);
  std::vector<int> start_of_collective(program.collectives.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    const size_t c = static_cast<size_t>(op.collective);
    if (op.kind == LoweredKind::kCollectiveStart && take_overs[i].size() == 1 && !take_overs[i][0].at_start) {
      at_start[i] = take_overs[i][0];
      start_of_collective[c] = static_cast<int>(i);
    }
    if (op.kind == LoweredKind::kCollectiveWait) start_of[i] = start_of_collective[c];
  }
}

// Adds a value that only this op touches.
void MemoryModel::AddValueOf(size_t op, int64_t bytes) {
  touches[op].push_back({static_cast<int>(touch_count.size()), bytes});
  touch_count.push_back(1);
  from_start.push_back(0);
  to_end.push_back(0);
}

MemoryModel MemoryModel::Reversed() const {
  LiveBytes live(*this);
  for (size_t op = 0; op < touches.size(); ++op) live.Run(static_cast<int>(op));
  MemoryModel reversed = *this;
  reversed.start_bytes = live.live();
  reversed.from_start.swap(reversed.to_end);
  for (auto& pairs : reversed.take_overs) {
    for (TakeOver& pair : pairs) std::swap(pair.write, pair.read);
  }
  std::reverse(reversed.touches.begin(), reversed.touches.end());
  std::reverse(reversed.take_overs.begin(), reversed.take_overs.end());
  return reversed;
}

std::vector<MemoryModel> MemoryModel::Split(const std::vector<int>& seams) const {
  std::vector<MemoryModel> parts;
  std::vector<int> local(touch_count.size(), -1);
  LiveBytes live(*this);
  for (size_t k = 0; k + 1 < seams.size(); ++k) {
    const auto first = static_cast<size_t>(seams[k]), end = static_cast<size_t>(seams[k + 1]);
    MemoryModel part;
    part.start_bytes = live.live();
    std::vector<int> values;
    for (size_t op = first; op < end; ++op) {
      for (const Touch& touch : touches[op]) {
        const size_t v = static_cast<size_t>(touch.value);
        if (local[v] < 0) {
          local[v] = static_cast<int>(values.size());
          values.push_back(touch.value);
          part.from_start.push_back(from_start[v] != 0 || live.remaining(touch.value) < touch_count[v]);
        }
      }
      live.Run(static_cast<int>(op));
    }
    for (int v : values) part.to_end.push_back(to_end[static_cast<size_t>(v)] != 0 || live.remaining(v) > 0);
    part.Take(*this, first, end, local);
    for (int v : values) local[static_cast<size_t>(v)] = -1;
    parts.push_back(std::move(part));
  }
  return parts;
}

// Takes ops [first, end) of `whole`; `local` holds the values' numbers here. A value that lives all the time
// is only counted in start_bytes.
void MemoryModel::Take(const MemoryModel& whole, size_t first, size_t end, const std::vector<int>& local) {
  auto always = [&](int v) {
    return from_start[static_cast<size_t>(v)] != 0 && to_end[static_cast<size_t>(v)] != 0;
  };
  touch_count.assign(from_start.size(), 0);
  for (size_t op = first; op < end; ++op) {
    touches.emplace_back();
    for (const Touch& touch : whole.touches[op]) {
      const int v = local[static_cast<size_t>(touch.value)];
      if (always(v)) continue;
      touches.back().push_back({v, touch.bytes});
      ++touch_count[static_cast<size_t>(v)];
    }
    take_overs.emplace_back();
    for (const TakeOver& pair : whole.take_overs[op]) {
      const int write = local[static_cast<size_t>(pair.write)], read = local[static_cast<size_t>(pair.read)];
      if (!always(write) && !always(read)) take_overs.back().push_back({write, read, pair.bytes});
    }
  }
}

void LiveBytes::Reset(const MemoryModel& model) {
  model_ = &model;
  remaining_ = model.touch_count;
  live_ = model.start_bytes;
}

// Bytes that `op` writes over values that it is the last to read.
int64_t LiveBytes::TakenOver(int op) const {
  return BytesTakenOver(model_->take_overs[static_cast<size_t>(op)], [&](const TakeOver& pair) {
    const size_t w = static_cast<size_t>(pair.write), r = static_cast<size_t>(pair.read);
    return remaining_[r] == 1 && model_->to_end[r] == 0 && remaining_[w] == model_->touch_count[w] &&
           model_->from_start[w] == 0;
  });
}

// Bytes that a collective's start takes over from a value that only its wait touches afterwards.
int64_t LiveBytes::TakenOverAtStart(int op) const {
  if (model_->at_start.empty()) return 0;
  const TakeOver& pair = model_->at_start[static_cast<size_t>(op)];
  if (pair.read < 0 || remaining_[static_cast<size_t>(pair.read)] != 2) return 0;
  const size_t w = static_cast<size_t>(pair.write);
  return remaining_[w] == model_->touch_count[w] ? pair.bytes : 0;
}

LiveBytes::Effect LiveBytes::Try(int op) const {
  int64_t begun = 0, freed = 0;
  for (const auto& [value, bytes] : model_->touches[static_cast<size_t>(op)]) {
    const size_t v = static_cast<size_t>(value);
    if (remaining_[v] == model_->touch_count[v] && model_->from_start[v] == 0) begun += bytes;
    if (remaining_[v] == 1 && model_->to_end[v] == 0) freed += bytes;
  }
  const int64_t over = TakenOverAtStart(op);
  return {live_ + begun - TakenOver(op) - over, live_ + begun - freed - over};
}

void LiveBytes::Count(int op, int by) {
  for (const auto& touch : model_->touches[static_cast<size_t>(op)])
    remaining_[static_cast<size_t>(touch.value)] += by;
}

LiveBytes::Effect LiveBytes::Run(int op) {
  const Effect effect = Try(op);
  if (TakenOverAtStart(op) > 0)
    --remaining_[static_cast<size_t>(model_->at_start[static_cast<size_t>(op)].read)];
  Count(op, -1);
  live_ = effect.after;
  return effect;
}

void LiveBytes::Undo(int op, int64_t live) {
  Count(op, 1);
  live_ = live;
}

OrderCost CostOf(const MemoryModel& model, const std::vector<int>& order, LiveBytes* live) {
  live->Reset(model);
  OrderCost cost{live->live(), 0};
  for (int op : order) {
    const int64_t during = live->Run(op).during;
    cost.peak = std::max(cost.peak, during);
    cost.area += static_cast<double>(during);
  }
  return cost;
}

OrderCost CostOf(const MemoryModel& model, const std::vector<int>& order) {
  LiveBytes live(model);
  return CostOf(model, order, &live);
}

}  // namespace rondo
