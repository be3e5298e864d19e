// LiveBytes: the live bytes of a program's arena while its ops are run one by one, in whatever order.
// The one model of memory that all scheduling methods compare orders with.
//
// What lives after a set of ops does not depend on their order, and what an op adds to it only falls with
// what ran before: the searches for orders build on both.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// What stays the same whatever the order: who touches what, and how large it is. A plain value; LiveBytes
// borrows it.
struct MemoryModel {
  struct Touch {
    int value;
    int64_t bytes;
  };
  // The op may write `write` over `read`, which it then reads for the last time.
  struct Donation {
    int write, read;
    int64_t bytes;
  };
  // Per op, values of the arena, each once; of a loop, as one value more, what its rounds hold.
  std::vector<std::vector<Touch>> touches;
  std::vector<std::vector<Donation>> donations;  // per op
  // With TakeOvers::kByOrder, per op. Of a collective's start whose result may lie over what it reads where
  // all other readers are done by then: that pair, also among its donations, and what it reads is then over;
  // of others `read` is -1. And per op, of that collective's wait: the start; or -1.
  std::vector<Donation> at_start;
  std::vector<int> start_of;
  std::vector<int> touch_count;          // per value, ops that touch it
  std::vector<char> from_start, to_end;  // per value: lives before the first op, after the last
  int64_t start_bytes = 0;               // live before the first op

  // Whether collectives lie over what they read only where that is so in every order, which is what makes
  // live bytes after a set of ops the same in each; or wherever the order lets them, as memory is planned. Of
  // the latter there is no Reversed, Split, nor Undo.
  enum class TakeOvers : uint8_t { kInEveryOrder, kByOrder };

  MemoryModel() = default;
  explicit MemoryModel(const LoweredProgram& program, TakeOvers take_overs = TakeOvers::kInEveryOrder);

  // The same ops when time runs backwards, the last one being number 0: as many bytes live during each op of
  // the reversed order.
  MemoryModel Reversed() const;

  // One a part: ops [seams[k], seams[k + 1]) alone, between what runs before and after them. Their numbers,
  // and those of values, begin at 0 in each. Ops must stand in a valid order.
  std::vector<MemoryModel> Split(const std::vector<int>& seams) const;

 private:
  void AddValueOf(size_t op, int64_t bytes);
  void AddTakeOversAtStarts(const LoweredProgram& program, const std::vector<int>& handed);
  void Take(const MemoryModel& whole, size_t first, size_t end, const std::vector<int>& local);
};

class LiveBytes {
 public:
  // `model` must outlive this.
  explicit LiveBytes(const MemoryModel& model) { Reset(model); }
  void Reset(const MemoryModel& model);

  // What running `op` next would do: bytes alive while it runs, and bytes alive after it.
  struct Effect {
    int64_t during = 0, after = 0;
  };
  Effect Try(int op) const;
  Effect Run(int op);
  // Takes back Run(op), the last that was not taken back; `live` was live() before it.
  void Undo(int op, int64_t live);
  int64_t live() const { return live_; }
  int remaining(int value) const { return remaining_[static_cast<size_t>(value)]; }

 private:
  void Count(int op, int by);
  int64_t Donated(int op) const;
  int64_t TakenOverAtStart(int op) const;
  const MemoryModel* model_ = nullptr;
  std::vector<int> remaining_;  // per value, ops still to come that touch it
  int64_t live_ = 0;
};

// How good an order is: its peak, then the sum of live bytes over all steps (what the offsets' packing and
// the caches feel).
struct OrderCost {
  int64_t peak = std::numeric_limits<int64_t>::max();
  double area = 0;
  bool operator<(const OrderCost& other) const {
    return peak != other.peak ? peak < other.peak : area < other.area;
  }
};

// Of `order`, a permutation of the model's ops that respects their dependences.
OrderCost CostOf(const MemoryModel& model, const std::vector<int>& order);
// The same with a LiveBytes that is kept between calls.
OrderCost CostOf(const MemoryModel& model, const std::vector<int>& order, LiveBytes* live);

}  // namespace rondo
