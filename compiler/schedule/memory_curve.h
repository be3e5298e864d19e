// MemoryCurve: the live bytes at every op of an order, updated while single ops move.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/live_bytes.h"

namespace rondo {

// The results of LiveBytes for the whole order, op by op; a move costs the distance between the op's old and
// new position. Orders are permutations of the ops of `model`, which must outlive this.
class MemoryCurve {
 public:
  MemoryCurve(const MemoryModel& model, std::vector<int> order);

  void Take(std::vector<int> order);

  const std::vector<int>& order() const { return order_; }
  int position(int op) const { return position_[Index(op)]; }
  // Moves the op at position `from` to position `to`. Returns the most bytes alive between the two positions,
  // or further if anything changes there.
  int64_t Move(int from, int to);
  int64_t live(int position) const { return during_[Index(position)]; }
  int64_t peak() const;

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }
  void FindEnds(int value);
  int64_t InPlace(int op) const;
  int64_t Sweep(int from, int to);

  const MemoryModel& model_;
  std::vector<int> order_, position_;
  std::vector<std::vector<int>> users_;   // by value: the ops that touch it
  std::vector<int> first_, last_;         // by value: the first and last of those in the order
  std::vector<int64_t> during_, before_;  // by position: bytes alive during the op, and just before it
};

}  // namespace rondo
