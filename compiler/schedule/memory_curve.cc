#include "compiler/schedule/memory_curve.h"

#include <algorithm>
#include <utility>

namespace rondo {

MemoryCurve::MemoryCurve(const MemoryModel& model, std::vector<int> order)
    : model_(model),
      position_(order.size()),
      users_(model.touch_count.size()),
      first_(model.touch_count.size(), -1),
      last_(model.touch_count.size(), -1),
      during_(order.size(), 0),
      before_(order.size() + 1, 0) {
  for (int op : order) {
    for (const MemoryModel::Touch& touch : model_.touches[Index(op)])
      users_[Index(touch.value)].push_back(op);
  }
  before_[0] = model_.start_bytes;
  Take(std::move(order));
}

void MemoryCurve::Take(std::vector<int> order) {
  order_ = std::move(order);
  for (size_t p = 0; p < order_.size(); ++p) position_[Index(order_[p])] = static_cast<int>(p);
  for (size_t v = 0; v < users_.size(); ++v) FindEnds(static_cast<int>(v));
  Sweep(0, static_cast<int>(order_.size()) - 1);
}

void MemoryCurve::FindEnds(int value) {
  const std::vector<int>& users = users_[Index(value)];
  if (users.empty()) return;
  const auto earlier = [&](int a, int b) { return position(a) < position(b); };
  const auto [first, last] = std::minmax_element(users.begin(), users.end(), earlier);
  first_[Index(value)] = *first;
  last_[Index(value)] = *last;
  // The input that a collective overwrites ends at its start if no other op reads it later.
  if (model_.start_of.empty()) return;
  const int start = model_.start_of[Index(*last)];
  if (start < 0 || model_.at_start[Index(start)].read != value) return;
  const bool alone = std::all_of(users.begin(), users.end(), [&](int user) {
    return user == *last || position(user) <= position(start);
  });
  if (alone) last_[Index(value)] = start;
}

// Bytes that `op` writes over values that it is the last to read.
int64_t MemoryCurve::InPlace(int op) const {
  return BytesTakenOver(model_.take_overs[Index(op)], [&](const TakeOver& pair) {
    return last_[Index(pair.read)] == op && model_.to_end[Index(pair.read)] == 0 &&
           first_[Index(pair.write)] == op && model_.from_start[Index(pair.write)] == 0;
  });
}

// Starts from the bytes that live before position `from`.
int64_t MemoryCurve::Sweep(int from, int to) {
  int64_t most = 0;
  for (int p = from; p <= to; ++p) {
    const int op = order_[Index(p)];
    int64_t begun = 0, ended = 0;
    for (const auto& [value, bytes] : model_.touches[Index(op)]) {
      if (first_[Index(value)] == op && model_.from_start[Index(value)] == 0) begun += bytes;
      if (last_[Index(value)] == op && model_.to_end[Index(value)] == 0) ended += bytes;
    }
    during_[Index(p)] = before_[Index(p)] + begun - InPlace(op);
    before_[Index(p) + 1] = before_[Index(p)] + begun - ended;
    most = std::max(most, during_[Index(p)]);
  }
  return most;
}

int64_t MemoryCurve::Move(int from, int to) {
  const int op = order_[Index(from)];
  const auto begin = order_.begin();
  if (to > from) {
    std::rotate(begin + from, begin + from + 1, begin + to + 1);
  } else {
    std::rotate(begin + to, begin + from, begin + from + 1);
  }
  const auto [low, high] = std::minmax(from, to);
  for (int p = low; p <= high; ++p) position_[Index(order_[Index(p)])] = p;
  // The end of a value may have moved: the sweep covers that place too.
  int first = low, last = high;
  for (const MemoryModel::Touch& touch : model_.touches[Index(op)]) {
    const int ended = last_[Index(touch.value)];
    FindEnds(touch.value);
    const int ends = last_[Index(touch.value)];
    if (ends == ended || model_.start_of.empty()) continue;
    for (int at : {position(ended), position(ends)}) {
      first = std::min(first, at);
      last = std::max(last, at);
    }
  }
  return Sweep(first, last);
}

int64_t MemoryCurve::peak() const {
  int64_t peak = before_[0];
  for (int64_t bytes : during_) peak = std::max(peak, bytes);
  return peak;
}

}  // namespace rondo
