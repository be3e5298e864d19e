// The tiny plan with kernels that practically never end but pass the checks: only a limit ends them.
#pragma once

#include <vector>

#include "tests/runtime/tiny_plan.h"

namespace rondo {

// Programs and ports are TinyPlan's. `pick` (which has no state) and the second step of `add` (which adds to
// the state) take 2^53 rounds. The first step of `add`, and `peek`, are unchanged.
struct EndlessPlan : TinyPlan {
  explicit EndlessPlan(bool split = false)
      : TinyPlan(split), kernels_(data.kernels.begin(), data.kernels.end()) {
    for (size_t k : {size_t{1}, size_t{2}}) {
      Part part = kernels_[k].parts[0];
      part.sequential = true;
      part.outer = 2;
      part.loops = arena.Copy(std::vector<int64_t>{(int64_t{1} << 53) / part.loops[0], part.loops[0]});
      std::vector<Operand> operands(part.operands.begin(), part.operands.end());
      for (Operand& o : operands) o.strides = arena.Copy(std::vector<int64_t>{0, o.strides[0]});
      part.operands = arena.Copy(operands);
      kernels_[k].parts = arena.Copy(std::vector<Part>{part});
    }
    data.kernels = {kernels_.data(), kernels_.size()};
  }

 private:
  std::vector<Kernel> kernels_;
};

}  // namespace rondo
