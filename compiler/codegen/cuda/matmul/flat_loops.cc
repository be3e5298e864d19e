#include "compiler/codegen/cuda/matmul/flat_loops.h"

#include <algorithm>

namespace rondo::cuda {

FlatLoops::FlatLoops(const Part& part, const std::vector<size_t>& loops, const FlatOperand& by)
    : part_(&part) {
  for (size_t l : loops) {
    if (part.loops[l] > 1) loops_.push_back(l);
  }
  std::stable_sort(loops_.begin(), loops_.end(),
                   [&](size_t a, size_t b) { return by.strides[a] > by.strides[b]; });
  for (size_t l : loops_) extent_ *= part.loops[l];
}

std::optional<int64_t> FlatLoops::Stride(const FlatOperand& operand) const {
  if (loops_.empty()) return 0;
  const int64_t stride = operand.strides[loops_.back()];
  int64_t next = stride;
  for (size_t i = loops_.size(); i-- > 0;) {
    if (operand.strides[loops_[i]] != next) return std::nullopt;
    next *= part_->loops[loops_[i]];
  }
  return stride >= 0 ? std::optional<int64_t>(stride) : std::nullopt;
}

void FlatLoops::AddSteps(int64_t scale, std::vector<int64_t>* strides) const {
  for (size_t i = loops_.size(); i-- > 0;) {
    (*strides)[loops_[i]] += scale;
    scale *= part_->loops[loops_[i]];
  }
}

}  // namespace rondo::cuda
