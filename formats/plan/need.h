// Upper bounds for what kernels and runs need, from contracts alone. In double, so that no plan overflows
// them.
#pragma once

#include "core/plan.h"

namespace rondo {

// The limits of a plan.
inline constexpr double kMostScratch = 0x1p32;
inline constexpr double kMostWork = 0x1p60;  // at a nanosecond each, 36 years

struct Need {
  // Bytes of scratch for a thread of the host driver: registers of tapes, indices, kept rows, packed blocks.
  // At least what drivers/host/part_builder.h takes, except for matmuls whose lanes are more than 32 bits
  // apart.
  double scratch = 0;
  double work = 0;  // tape instructions and accesses
};
Need NeedOf(const Kernel& kernel);

// The work of one run, without collectives and custom ops. `kernels` has one entry for each kernel. A copy
// counts 1 for each 16 bytes.
double WorkOf(const Program& program, Span<const Need> kernels);

}  // namespace rondo
