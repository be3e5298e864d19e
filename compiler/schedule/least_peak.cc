#include "compiler/schedule/least_peak.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace rondo {
namespace {

constexpr int kMostOps = 16'384;

// A set of ops for each op.
class OpSets {
 public:
  explicit OpSets(size_t ops) : words_((ops + 63) / 64), bits_(ops * words_, 0) {}
  uint64_t* of(size_t op) { return bits_.data() + op * words_; }
  bool has(size_t op, int other) const {
    return (bits_[op * words_ + static_cast<size_t>(other) / 64] >> (other % 64) & 1) != 0;
  }
  // Gives each op a set of itself and the sets of all ops in its `near` list, which come earlier in `order`.
  template <typename Order>
  void Close(const std::vector<std::vector<int>>& near, const Order& order) {
    for (size_t op : order) {
      of(op)[op / 64] |= uint64_t{1} << (op % 64);
      for (int other : near[op]) Join(static_cast<size_t>(other), of(op));
    }
  }
  void Join(size_t op, uint64_t* into) {
    const uint64_t* from = of(op);
    for (size_t w = 0; w < words_; ++w) into[w] |= from[w];
  }
  size_t words() const { return words_; }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

class MustLive {
 public:
  MustLive(const MemoryModel& model, const Dependences& deps)
      : model_(model),
        count_(deps.before.size()),
        upto_(count_),
        from_(count_),
        touched_by_(model.touch_count.size()),
        bytes_of_(model.touch_count.size(), 0) {
    std::vector<size_t> order(count_);
    for (size_t op = 0; op < count_; ++op) order[op] = op;
    upto_.Close(deps.before, order);
    std::reverse(order.begin(), order.end());
    from_.Close(deps.after, order);
    for (size_t op = 0; op < count_; ++op) {
      for (const auto& touch : model.touches[op]) {
        touched_by_[static_cast<size_t>(touch.value)].push_back(static_cast<int>(op));
        bytes_of_[static_cast<size_t>(touch.value)] = touch.bytes;
      }
    }
  }

  int64_t Peak() {
    const size_t words = upto_.words();
    std::vector<int64_t> bytes(words * 64, model_.start_bytes), whole(words, 0);
    std::vector<uint64_t> begun(words), needed(words);
    for (size_t v = 0; v < touched_by_.size(); ++v) {
      if (touched_by_[v].empty()) continue;
      std::fill(begun.begin(), begun.end(), model_.from_start[v] != 0 ? ~uint64_t{0} : 0);
      std::fill(needed.begin(), needed.end(), model_.to_end[v] != 0 ? ~uint64_t{0} : 0);
      for (int op : touched_by_[v]) {
        from_.Join(static_cast<size_t>(op), begun.data());
        upto_.Join(static_cast<size_t>(op), needed.data());
      }
      // Values that live before the first op are part of start_bytes.
      const int64_t add = model_.from_start[v] != 0 ? -bytes_of_[v] : bytes_of_[v];
      for (size_t w = 0; w < words; ++w) {
        uint64_t there = begun[w] & needed[w];
        if (add < 0) there = ~there;
        if (there == ~uint64_t{0}) {
          whole[w] += add;
          continue;
        }
        for (; there != 0; there &= there - 1) {
          bytes[w * 64 + static_cast<size_t>(__builtin_ctzll(there))] += add;
        }
      }
    }
    int64_t peak = model_.start_bytes;
    for (size_t op = 0; op < count_; ++op)
      peak = std::max(peak, bytes[op] + whole[op / 64] - MostTakenOver(op));
    return peak;
  }

 private:
  // Whether `op` may be the last to touch `value`, or the first if `sets` are those of the other direction.
  bool MayBeAtEnd(const OpSets& sets, size_t op, int value) const {
    const auto& all = touched_by_[static_cast<size_t>(value)];
    return std::none_of(all.rbegin(), all.rend(),
                        [&](int other) { return static_cast<size_t>(other) != op && sets.has(op, other); });
  }

  int64_t MostTakenOver(size_t op) const {
    return BytesTakenOver(model_.take_overs[op], [&](const TakeOver& pair) {
      const size_t w = static_cast<size_t>(pair.write), r = static_cast<size_t>(pair.read);
      return model_.to_end[r] == 0 && model_.from_start[w] == 0 && MayBeAtEnd(from_, op, pair.read) &&
             MayBeAtEnd(upto_, op, pair.write);
    });
  }

  const MemoryModel& model_;
  size_t count_;
  OpSets upto_, from_;  // of each op: itself, and the ops before it or after it in every order
  std::vector<std::vector<int>> touched_by_;  // by value
  std::vector<int64_t> bytes_of_;             // by value
};

// The most bytes that one op touches if everything possible is written in place.
int64_t MostTouched(const MemoryModel& model) {
  int64_t most = model.start_bytes;
  for (size_t op = 0; op < model.touches.size(); ++op) {
    int64_t bytes = 0;
    for (const auto& touch : model.touches[op]) bytes += touch.bytes;
    for (const auto& pair : model.take_overs[op]) bytes -= pair.bytes;
    most = std::max(most, bytes);
  }
  return most;
}

// The bytes of the cheapest op without dependences: such an op runs first.
int64_t LeastWhileFirst(const MemoryModel& model, const Dependences& deps) {
  const LiveBytes live(model);
  int64_t least = deps.before.empty() ? 0 : std::numeric_limits<int64_t>::max();
  for (size_t op = 0; op < deps.before.size(); ++op) {
    if (deps.before[op].empty()) least = std::min(least, live.Try(static_cast<int>(op)).during);
  }
  return least;
}

}  // namespace

int64_t LeastPeak(const MemoryModel& model, const Dependences& deps) {
  const int64_t peak = deps.count() > kMostOps ? MostTouched(model) : MustLive(model, deps).Peak();
  const int64_t first = LeastWhileFirst(model, deps);
  return std::max({peak, first, LeastWhileFirst(model.Reversed(), deps.Reversed())});
}

}  // namespace rondo
