// Arrangement: a program's op order that passes change, with the limits of each move: where an op may go, and
// within how much memory.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/schedule/memory_curve.h"

namespace rondo {

// Borrows program and model. Ops respect their deps, collectives start in the program's order, and no op
// leaves its segment.
class Arrangement {
 public:
  // `segments`, by op: runs of ops with equal numbers; no op leaves its run (a partition that must end, a
  // loop). `limit`: live bytes that no move may exceed.
  Arrangement(const LoweredProgram& program, const MemoryModel& model, const std::vector<int>& segments,
              int64_t limit);
  // Continues with another order, which respects everything but the limit.
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

  // The range of positions for `op` while all others keep their order.
  int Earliest(int op) const;
  int Latest(int op) const;
  // The op that prevents an earlier (later) position; -1: the end of its segment.
  int KeptFromEarlier(int op) const;
  int KeptFromLater(int op) const;
  // Moves an op to a permitted position. False, and unchanged, if that would exceed the memory limit.
  bool Move(int op, int to);
  // Undoes a move: back to its old position.
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
