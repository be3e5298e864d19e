// What kernels and runs need at most, by their contracts alone. In double, so that no plan makes it overflow.
#pragma once

#include "core/plan.h"

namespace rondo {

// The most that a plan may need of each.
inline constexpr double kMostScratch = 0x1p32;
inline constexpr double kMostWork = 0x1p60;  // at a nanosecond each, 36 years

struct Need {
  // Bytes that a thread of the host driver works in: registers of tapes, indices, kept rows, packed blocks.
  // Not less than what drivers/host/part_builder.h takes, but for products whose lanes lie further apart than
  // 32 bits can say.
  double scratch = 0;
  double work = 0;  // tape instructions and accesses
};
Need NeedOf(const Kernel& kernel);

// The work of one run, collectives and custom ops aside; `kernels` has one entry a kernel. Of copies: one for
// each 16 bytes.
double WorkOf(const Program& program, Span<const Need> kernels);

}  // namespace rondo
