// What a part of a kernel is called where people read it.
#pragma once

#include "core/plan.h"

namespace rondo {

// Its skeleton, and "pool" of a convolution without weights.
constexpr const char* PartName(const Part& part) {
  const bool pool = part.skeleton == Skeleton::kConvolution && part.rhs.size() == 0;
  return pool ? "pool" : Name(part.skeleton);
}

}  // namespace rondo
