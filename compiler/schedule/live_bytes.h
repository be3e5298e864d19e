// LiveBytes: the live bytes of a program's arena while its ops run one by one in any order. All scheduling
// methods compare orders with this memory model.
//
// Live bytes after a set of ops do not depend on their order, and the bytes that an op adds can only shrink
// with what ran before: the searches rely on both.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/memory/in_place.h"

namespace rondo {

// The part that does not depend on the order: which ops touch which values, and their sizes. A plain value;
// LiveBytes borrows it.
struct MemoryModel {
  struct Touch {
    int value;
    int64_t bytes;
  };
  // Per op: the arena values it touches, each once; for a loop also one more value, for what its rounds hold.
  std::vector<std::vector<Touch>> touches;
  std::vector<std::vector<TakeOver>> take_overs;  // per op, at most kMostTakeOvers
  // With TakeOvers::kByOrder. `at_start`, per op: for a collective's start whose result may overwrite its
  // input if all other readers are done: that pair, which is also among its take-overs, and the input is then
  // dead; for others `read` is -1. `start_of`, per op: for that collective's wait its start; otherwise -1.
  std::vector<TakeOver> at_start;
  std::vector<int> start_of;
  std::vector<int> touch_count;          // per value, the number of ops that touch it
  std::vector<char> from_start, to_end;  // per value: alive before the first op, after the last
  int64_t start_bytes = 0;               // alive before the first op

  // kInEveryOrder: collectives overwrite their inputs only if they may in every order, so that live bytes
  // after a set of ops do not depend on the order. kByOrder: wherever the order permits, as memory planning
  // does; then there is no Reversed, Split or Undo.
  enum class TakeOvers : uint8_t { kInEveryOrder, kByOrder };

  MemoryModel() = default;
  explicit MemoryModel(const LoweredProgram& program, TakeOvers counted = TakeOvers::kInEveryOrder);

  // The same ops in reversed time, with the last one as number 0: during each op of the reversed order, as
  // many bytes are alive.
  MemoryModel Reversed() const;

  // One for each part: ops [seams[k], seams[k + 1]) alone, between what runs before and after them. Numbers
  // of ops and values begin at 0 in each. Ops must be in a valid order.
  std::vector<MemoryModel> Split(const std::vector<int>& seams) const;

 private:
  void AddValueOf(size_t op, int64_t bytes);
  void AddTakeOversAtStarts(const LoweredProgram& program);
  void Take(const MemoryModel& whole, size_t first, size_t end, const std::vector<int>& local);
};

constexpr size_t kMostTakeOvers = 64;

// The bytes of those of an op's take-overs, at most kMostTakeOvers, that `happens` permits: in order, each
// value once.
template <typename Happens>
int64_t BytesTakenOver(const std::vector<TakeOver>& pairs, const Happens& happens) {
  int64_t bytes = 0;
  uint64_t taken = 0;
  for (size_t p = 0; p < pairs.size(); ++p) {
    bool free = happens(pairs[p]);
    for (size_t q = 0; q < p && free; ++q)
      free = (taken >> q & 1) == 0 || (pairs[q].write != pairs[p].write && pairs[q].read != pairs[p].read);
    if (!free) continue;
    taken |= uint64_t{1} << p;
    bytes += pairs[p].bytes;
  }
  return bytes;
}

class LiveBytes {
 public:
  // `model` must outlive this.
  explicit LiveBytes(const MemoryModel& model) { Reset(model); }
  void Reset(const MemoryModel& model);

  // The effect of running `op` next: bytes alive while it runs, and after it.
  struct Effect {
    int64_t during = 0, after = 0;
  };
  Effect Try(int op) const;
  Effect Run(int op);
  // Undoes Run(op), the last one not undone; `live` was live() before it.
  void Undo(int op, int64_t live);
  int64_t live() const { return live_; }
  int remaining(int value) const { return remaining_[static_cast<size_t>(value)]; }

 private:
  void Count(int op, int by);
  int64_t TakenOver(int op) const;
  int64_t TakenOverAtStart(int op) const;
  const MemoryModel* model_ = nullptr;
  std::vector<int> remaining_;  // per value, the remaining ops that touch it
  int64_t live_ = 0;
};

// The cost of an order: its peak, then the sum of live bytes over all steps (which matters for packing and
// for caches).
struct OrderCost {
  int64_t peak = std::numeric_limits<int64_t>::max();
  double area = 0;
  bool operator<(const OrderCost& other) const {
    return peak != other.peak ? peak < other.peak : area < other.area;
  }
};

// The cost of `order`, a permutation of the model's ops that respects their dependences.
OrderCost CostOf(const MemoryModel& model, const std::vector<int>& order);
// The same with a LiveBytes that is reused between calls.
OrderCost CostOf(const MemoryModel& model, const std::vector<int>& order, LiveBytes* live);

}  // namespace rondo
