// Work: bounds the time that a hostile plan can take to verify and to check.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo {

// Everything that can take more than a few steps for each byte of a plan spends them here as it does them:
// about one for each nanosecond.
class Work {
 public:
  // The budget is proportional to the plan's size in memory, and so, by the decoder's limit, to its file's
  // size: less than a second for each megabyte.
  explicit Work(const PlanData& plan);
  bool Spend(uint64_t amount) { return amount <= left_ ? (left_ -= amount, true) : (left_ = 0, false); }
  bool over() const { return left_ == 0; }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
};

}  // namespace rondo
