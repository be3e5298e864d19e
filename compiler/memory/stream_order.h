// StreamOrder: which ops of an ordered program are complete before which others begin, on any timing.
//
// Streams and deps order ops, nothing else. Code generation makes events of those deps that streams do not
// imply (`waits`), so the plan's order is this one. Uses vector clocks over streams (C. Fidge, F. Mattern,
// 1988). The checker (formats/plan/check) derives the order again from the plan's events.
// plan's events.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// A value made from a program, to which it keeps no reference. Ops are numbered in list order. Memory is
// proportional to ops times streams.
class StreamOrder {
 public:
  explicit StreamOrder(const LoweredProgram& program);

  size_t streams() const { return ops_on_.size(); }
  // One stream: list order is the only order.
  bool total() const { return streams() == 1; }
  // True if op `a`, with everything it starts except a collective, is complete before op `b` begins.
  bool Before(int a, int b) const { return position(a) < Complete(b, stream(a)); }
  // How many ops of `stream` are complete when op `b` begins; ops of a stream complete in order.
  uint32_t Complete(int b, size_t stream) const { return clocks_[Index(b) * streams() + stream]; }
  // The op at which the effect of `op` ends: a collective's wait for its start, otherwise the op itself.
  int End(int op) const { return end_[Index(op)]; }
  size_t stream(int op) const { return stream_[Index(op)]; }
  uint32_t position(int op) const { return position_[Index(op)]; }  // on its stream
  const std::vector<int>& OpsOn(size_t stream) const { return ops_on_[stream]; }

  // The ops of other streams that `op` must wait for explicitly; the rest follows from these, from its
  // stream, and from earlier ops. A collective's wait need not name its start.
  const std::vector<int>& Waits(int op) const { return waits_[Index(op)]; }

 private:
  static size_t Index(int op) { return static_cast<size_t>(op); }
  void NumberOps(const LoweredProgram& program);
  void Join(int op, int earlier);
  void Follow(const LoweredProgram& program, int op);

  std::vector<size_t> stream_;      // by op
  std::vector<uint32_t> position_;  // by op
  std::vector<int> end_;            // by op
  std::vector<uint32_t> clocks_;    // by op and stream
  std::vector<std::vector<int>> ops_on_, waits_;
};

}  // namespace rondo
