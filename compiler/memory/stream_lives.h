// StreamLives: whether one value's contents are dead before another's begin to matter, on any timing.
//
// A value is used by the ops that bind it: for the duration of an op, from a collective's start to its wait,
// and by a loop that uses it for the whole loop (but see Life::local). Value `a` comes before `b` if every
// use of `a` is over before any use of `b` begins (StreamOrder). Two values conflict if neither comes before
// the other: they must not share memory.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/memory/lifetimes.h"
#include "compiler/memory/stream_order.h"

namespace rondo {

// Borrows the order. Inputs are written before every op, and outputs read after all of them; those that no op
// touches count as used by the first op, and by the last.
class StreamLives {
 public:
  // `lives` are Lifetimes(program).
  StreamLives(const LoweredProgram& program, const StreamOrder& order, const std::vector<Life>& lives);

  bool Before(size_t a, size_t b) const;
  bool Conflict(size_t a, size_t b) const { return !Before(a, b) && !Before(b, a); }
  // From now on, `into` is in use whenever `other` is.
  void Merge(size_t into, size_t other);
  // The last op in list order that may begin while `v` is in use; -1: none.
  int LastBeside(size_t v) const;

 private:
  size_t Slot(size_t v, size_t stream) const { return v * order_.streams() + stream; }
  void Use(size_t v, int begin, int end);

  const StreamOrder& order_;
  // By value and stream: how many of the stream's ops are complete when the value's first use begins, and how
  // many must be complete for its last use to be over.
  std::vector<uint32_t> begin_, end_;
  std::vector<bool> before_all_, after_all_;  // by value: used before every op, after all of them
};

}  // namespace rondo
