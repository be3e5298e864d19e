// StreamOrder: which ops of an ordered program are complete before which others begin, whatever the timing.
//
// What orders ops are the streams that they are on and their deps, nothing else: code generation makes events
// of those deps that streams do not imply (`waits`), and so the plan's order is this one. By vector clocks
// over streams (C. Fidge, F. Mattern, 1988). The checker (formats/plan/check) works it out again, from the
// plan's events.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// A value made from a program; keeps nothing of it. Ops are numbered as they stand there. Takes memory for
// ops times streams.
class StreamOrder {
 public:
  explicit StreamOrder(const LoweredProgram& program);

  size_t streams() const { return ops_on_.size(); }
  // One stream: the order in which ops stand is the only one.
  bool total() const { return streams() == 1; }
  // True if op `a`, and all that it starts but a collective, is complete before op `b` begins.
  bool Before(int a, int b) const { return position(a) < Complete(b, stream(a)); }
  // How many ops of `stream` are complete when op `b` begins: those that are enqueued there first.
  uint32_t Complete(int b, size_t stream) const { return clocks_[Index(b) * streams() + stream]; }
  // The op with which what `op` does is over: of a collective's start its wait, of others itself.
  int End(int op) const { return end_[Index(op)]; }
  size_t stream(int op) const { return stream_[Index(op)]; }
  uint32_t position(int op) const { return position_[Index(op)]; }  // on its stream
  const std::vector<int>& OpsOn(size_t stream) const { return ops_on_[stream]; }

  // Ops of other streams that `op` must be made to wait for; everything else that it comes after follows from
  // these, from its stream, and from those before it. A collective's wait has no need of its start's name.
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
