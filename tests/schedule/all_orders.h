// All orders of a small program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/least_memory.h"

namespace rondo {

// Calls `visit` with each order in which every op comes after its deps and collectives keep the order of
// their starts.
template <typename Visit>
class OrderWalk {
 public:
  OrderWalk(const LoweredProgram& program, Visit visit) : program_(program), visit_(std::move(visit)) {
    Extend(0);
  }

 private:
  void Extend(int started) {
    if (order_.size() == taken_.size()) return visit_(order_);
    for (size_t i = 0; i < taken_.size(); ++i) {
      const LoweredOp& op = program_.ops[i];
      const bool start = op.kind == LoweredKind::kCollectiveStart;
      const bool ready = !taken_[i] && std::all_of(op.deps.begin(), op.deps.end(),
                                                   [&](int d) { return taken_[static_cast<size_t>(d)]; });
      if (!ready || (start && op.collective != started)) continue;
      taken_[i] = true;
      order_.push_back(static_cast<int>(i));
      Extend(started + start);
      order_.pop_back();
      taken_[i] = false;
    }
  }
  const LoweredProgram& program_;
  Visit visit_;
  std::vector<int> order_;
  std::vector<bool> taken_ = std::vector<bool>(program_.ops.size(), false);
};

template <typename Visit>
void ForEachOrder(const LoweredProgram& program, Visit visit) {
  OrderWalk<Visit>(program, std::move(visit));
}

// Whether the program in that order needs at most `limit` bytes of arena.
inline bool FitsIn(const LoweredProgram& program, const std::vector<int>& order, int64_t limit) {
  LoweredProgram ordered = program;
  Reorder(order, &ordered);
  return PlanMemory(ordered).arena_bytes <= limit;
}

}  // namespace rondo
