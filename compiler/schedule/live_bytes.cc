#include "compiler/schedule/live_bytes.h"

#include <algorithm>

#include "compiler/memory/lifetimes.h"

namespace rondo {
namespace {

constexpr size_t kMostDonations = 64;  // pairs of an op that count; LiveBytes::Donated has a bit for each

int64_t BytesOf(const LoweredProgram& program, int v) {
  return (program.values[static_cast<size_t>(v)].bytes + 63) / 64 * 64;
}

bool Contains(const std::vector<int>& list, int i) {
  return std::find(list.begin(), list.end(), i) != list.end();
}

// By collective: the value read by its start whose memory it takes over at the start, in every order, because
// all other ops that touch the value run earlier; -1 if there is none.
std::vector<int> HandedOverAtStart(const LoweredProgram& program) {
  std::vector<std::vector<int>> touched_by(program.collectives.empty() ? 0 : program.values.size());
  for (size_t i = 0; i < program.ops.size() && !touched_by.empty(); ++i) {
    for (const LoweredBinding& param : program.ops[i].params)
      touched_by[static_cast<size_t>(param.value)].push_back(static_cast<int>(i));
  }
  std::vector<int> handed(program.collectives.size(), -1);
  for (const LoweredOp& op : program.ops) {
    if (op.kind != LoweredKind::kCollectiveStart) continue;
    for (const InPlacePair& pair : op.in_place) {
      const int read = op.params[static_cast<size_t>(pair.read)].value;
      const auto& others = touched_by[static_cast<size_t>(read)];
      const bool alone = std::all_of(others.begin(), others.end(), [&](int other) {
        const LoweredOp& at = program.ops[static_cast<size_t>(other)];
        return at.collective == op.collective || Contains(op.deps, other);
      });
      if (alone && MayTakeOver(program, op, pair)) handed[static_cast<size_t>(op.collective)] = read;
    }
  }
  return handed;
}

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

MemoryModel::MemoryModel(const LoweredProgram& program, TakeOvers take_overs)
    : touches(program.ops.size()),
      donations(program.ops.size()),
      touch_count(program.values.size(), 0),
      from_start(program.values.size()),
      to_end(program.values.size()) {
  const std::vector<int> handed = HandedOverAtStart(program);
  for (size_t v = 0; v < program.values.size(); ++v) {
    from_start[v] = IsInput(program.values[v].kind);
    to_end[v] = IsOutput(program.values[v].kind);
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    for (const LoweredBinding& param : op.params) {
      const size_t v = static_cast<size_t>(param.value);
      const bool seen = std::any_of(touches[i].begin(), touches[i].end(),
                                    [&](const Touch& t) { return t.value == param.value; });
      if (seen || !InArena(program.values[v].kind)) continue;
      if (op.kind == LoweredKind::kCollectiveWait &&
          handed[static_cast<size_t>(op.collective)] == param.value)
        continue;
      touches[i].push_back({param.value, BytesOf(program, param.value)});
      if (touch_count[v]++ == 0 && from_start[v] != 0) start_bytes += touches[i].back().bytes;
    }
    for (const InPlacePair& pair : op.in_place) {
      if (!MayTakeOver(program, op, pair) || donations[i].size() == kMostDonations) continue;
      const int read = op.params[static_cast<size_t>(pair.read)].value;
      donations[i].push_back(
          {op.params[static_cast<size_t>(pair.write)].value, read, BytesOf(program, read)});
    }
    if (op.kind == LoweredKind::kLoop) AddValueOf(i, BytesOfARound(*op.rounds));
  }
  if (take_overs == TakeOvers::kByOrder) AddTakeOversAtStarts(program, handed);
}

void MemoryModel::AddTakeOversAtStarts(const LoweredProgram& program, const std::vector<int>& handed) {
  at_start.assign(program.ops.size(), {-1, -1, 0});
  start_of.assign(program.ops.size(), -1);
  std::vector<int> start_of_collective(program.collectives.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    const size_t c = static_cast<size_t>(op.collective);
    if (op.kind == LoweredKind::kCollectiveStart && handed[c] < 0 && donations[i].size() == 1) {
      at_start[i] = donations[i][0];
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
  for (auto& pairs : reversed.donations) {
    for (Donation& pair : pairs) std::swap(pair.write, pair.read);
  }
  std::reverse(reversed.touches.begin(), reversed.touches.end());
  std::reverse(reversed.donations.begin(), reversed.donations.end());
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
    donations.emplace_back();
    for (const Donation& pair : whole.donations[op]) {
      const int write = local[static_cast<size_t>(pair.write)], read = local[static_cast<size_t>(pair.read)];
      if (!always(write) && !always(read)) donations.back().push_back({write, read, pair.bytes});
    }
  }
}

void LiveBytes::Reset(const MemoryModel& model) {
  model_ = &model;
  remaining_ = model.touch_count;
  live_ = model.start_bytes;
}

// Bytes that `op` writes over values that it is the last to read, each value once.
int64_t LiveBytes::Donated(int op) const {
  const auto& pairs = model_->donations[static_cast<size_t>(op)];
  int64_t bytes = 0;
  uint64_t taken = 0;
  for (size_t p = 0; p < pairs.size(); ++p) {
    const size_t w = static_cast<size_t>(pairs[p].write), r = static_cast<size_t>(pairs[p].read);
    if (remaining_[r] != 1 || model_->to_end[r] != 0) continue;
    if (remaining_[w] != model_->touch_count[w] || model_->from_start[w] != 0) continue;
    bool free = true;
    for (size_t q = 0; q < p && free; ++q) {
      free = (taken >> q & 1) == 0 || (pairs[q].write != pairs[p].write && pairs[q].read != pairs[p].read);
    }
    if (!free) continue;
    taken |= uint64_t{1} << p;
    bytes += pairs[p].bytes;
  }
  return bytes;
}

// Bytes that a collective's start takes over from a value that only its wait touches afterwards.
int64_t LiveBytes::TakenOverAtStart(int op) const {
  if (model_->at_start.empty()) return 0;
  const MemoryModel::Donation& pair = model_->at_start[static_cast<size_t>(op)];
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
  return {live_ + begun - Donated(op) - over, live_ + begun - freed - over};
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
