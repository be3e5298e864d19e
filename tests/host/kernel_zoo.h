// Zoo: one kernel for each path of the host driver, with random memory.
#pragma once

#include <deque>
#include <vector>

#include "tests/host/kernel_plan.h"

namespace rondo::test {

// Attention of f32, without a mask: queries [heads, queries, width], keys and values [heads, keys, width],
// result [queries, heads, width].
PartMaker MakeAttention(Arena& arena, int64_t heads, int64_t queries, int64_t keys, int64_t width);

struct Zoo {
  Zoo();

  KernelPlan plan;
  std::deque<PartMaker> makers;  // by kernel
  std::vector<Memory> memory;    // of each kernel's parameters
};

}  // namespace rondo::test
