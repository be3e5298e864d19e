// Tiny plans made by hand, for tests of the runtime.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/plan.h"

namespace rondo {

// A plan of four floats `w` (1, 2, 3, 4), four floats of state `total`, and three programs:
//   add:  y = x * w, then total += y.      inputs x f32 [4], total (state); outputs y, total_out (state)
//   pick: z = w[index].                    input index i64 [1]; output z f32 [1]; index is checked
//   peek: now = total, by a copy step.     output now f32 [4]
// Steps and programs are in this order; sources are `Mul "mul_node"`, `Add "add_node"`,
// `Gather "gather_node"` and `Identity "peek_node"`.
struct TinyPlan {
  // `split` puts each step of `add` in a partition of its own; `synthetic` makes `w` synthetic.
  explicit TinyPlan(bool split = false, bool synthetic = false);
  // The device needs further bytes, and each program as many of the arena.
  void NeedMore(uint64_t more_weights, uint64_t more_arena, uint64_t more_state);

  static constexpr uint32_t kAdd = 0, kPick = 1, kPeek = 2;
  Arena arena;
  PlanData data;
  alignas(64) float weights[4] = {1, 2, 3, 4};
  Span<const uint8_t> weight_bytes() const {
    return {reinterpret_cast<const uint8_t*>(weights), sizeof(weights)};
  }
};

}  // namespace rondo
