// Arrangement: an order of a program's ops in the making: where each op may go, and within how much memory.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/schedule/memory_curve.h"

namespace rondo {

// Borrows program and model. Ops keep to their deps, collectives start in the order in which they stand in
// the program, and no op leaves its segment.
class Arrangement {
 public:
  // `segments`, by op: runs of ops of one number; no op leaves its run (a partition that must end, a loop).
  // `limit`: live bytes that no move may exceed.
  Arrangement(const LoweredProgram& program, const MemoryModel& model, const std::vector<int>& segments,
              int64_t limit);
  // The same, in another order that keeps to all of that but the limit.
  void Take(const std::vector<int>& order);

  const LoweredProgram& program() const { return program_; }
  const std::vector<int>& order() const { return curve_.order(); }
  int size() const { return static_cast<int>(order().size()); }
  int position(int op) const { return curve_.position(op); }
  int start(int collective) const { return starts_[static_cast<size_t>(collective)]; }
  int wait(int collective) const { return waits_[static_cast<size_t>(collective)]; }
  int collectives() const { return static_cast<int>(starts_.size()); }
  const std::vector<int>& Before(int op) const { return before_[static_cast<size_t>(op)]; }
  const std::vector<int>& After(int op) const { return after_[static_cast<size_t>(op)]; }
  int segment(int op) const { return segments_[static_cast<size_t>(op)]; }

  // The positions that `op` may have while all others keep their order.
  int Earliest(int op) const;
  int Latest(int op) const;
  // The op that keeps it from an earlier or a later one; -1: the end of its segment.
  int KeptFromEarlier(int op) const;
  int KeptFromLater(int op) const;
  // To a position that it may have. False, and nothing is changed, if that takes more memory than the limit.
  bool Move(int op, int to);
  // Takes a move back: to where it came from.
  void MoveBack(int op, int to) { curve_.Move(position(op), to); }
  int64_t peak() const { return curve_.peak(); }

 private:
  const LoweredProgram& program_;
  const std::vector<int> segments_;
  const int64_t limit_;
  std::vector<std::vector<int>> before_, after_;  // by op
  std::vector<int> starts_, waits_;               // by collective
  std::vector<int> first_of_, end_of_;            // positions of each op's segment
  MemoryCurve curve_;
};

}  // namespace rondo
