// Names of kernel parts for people.
#pragma once

#include "core/plan.h"

namespace rondo {

// The skeleton's name; "pool" for a convolution without weights.
constexpr const char* PartName(const Part& part) {
  const bool pool = part.skeleton == Skeleton::kConvolution && part.rhs.size() == 0;
  return pool ? "pool" : Name(part.skeleton);
}

}  // namespace rondo
