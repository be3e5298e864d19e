// KernelPlan: kernels made by hand as one plan; each has a step over its own buffers.
#pragma once

#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

class KernelPlan {
 public:
  KernelPlan() = default;
  KernelPlan(const KernelPlan&) = delete;
  KernelPlan& operator=(const KernelPlan&) = delete;

  // Returns the kernel's number. The data that `maker` points into must outlive the plan; put it into
  // `arena`.
  uint32_t Add(PartMaker& maker);

  Arena arena;
  PlanData data;  // has all kernels added so far; no driver's code

 private:
  std::vector<Kernel> kernels_;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  Program program_;
};

}  // namespace rondo::test
