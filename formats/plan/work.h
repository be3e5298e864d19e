// Work: bounds the time that a hostile plan can take to verify and to check.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo {

// Whatever can take more than a few steps for each byte of a plan spends them here, where it is done: one for
// each nanosecond or so.
class Work {
 public:
  // In proportion to what the plan takes in memory, and so, by the decoder's limit, to the size of its file:
  // less than a second for each megabyte of it.
  explicit Work(const PlanData& plan);
  bool Spend(uint64_t amount) { return amount <= left_ ? (left_ -= amount, true) : (left_ = 0, false); }
  bool over() const { return left_ == 0; }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
};

}  // namespace rondo
