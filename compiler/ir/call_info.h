// CallInfo: one node of the model that calls a custom op, as plain data. Plain functions of it; no state.
#pragma once

#include <memory>
#include <string>

#include "core/arena.h"
#include "core/plan.h"

namespace rondo::ir {

// Immutable, shared by the call and its results.
struct CallInfo {
  CustomOp op;                        // what it points to lies in `keep`
  bool side_effects = false;          // runs even if nothing reads its outputs
  std::string key;                    // equal for calls that do the same with the same inputs
  std::shared_ptr<const Arena> keep;  // may be null: `op` then points elsewhere

  // The outputs among the op's arguments, including its workspace, which nothing reads.
  uint32_t num_outputs() const { return static_cast<uint32_t>(op.arguments.size()) - op.num_inputs; }
  const CustomArgument& output(uint32_t i) const { return op.arguments[op.num_inputs + i]; }
  // The slot of the op's input `argument` among the node's inputs, which leave absent ones out.
  size_t SlotOf(uint32_t argument) const {
    size_t slot = 0;
    for (uint32_t i = 0; i < argument; ++i) slot += !op.arguments[i].absent;
    return slot;
  }
  // Whether output `i` is the new version of an input that the op changes; PassesThrough: whether it is an
  // unchanged input.
  bool IsVersion(uint32_t i) const { return output(i).alias != kNone && output(i).mode == Mode::kWrite; }
  bool PassesThrough(uint32_t i) const { return output(i).alias != kNone && output(i).mode == Mode::kRead; }
  // Whether the op changes input `slot` of the node.
  bool Changes(size_t slot) const {
    for (uint32_t i = 0; i < op.num_inputs; ++i) {
      if (!op.arguments[i].absent && SlotOf(i) == slot) return op.arguments[i].mode != Mode::kRead;
    }
    return false;
  }
  // Whether two equal calls with equal inputs can be merged.
  bool IsPure() const {
    bool pure = !side_effects;
    for (uint32_t i = 0; i < num_outputs(); ++i) pure = pure && !IsVersion(i);
    return pure;
  }
};

// A text that is equal for ops that are called in the same way: all fields of `op`.
std::string KeyOf(const CustomOp& op);

}  // namespace rondo::ir
