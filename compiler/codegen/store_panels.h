// StorePanels: constant weights lie in the plan as a host's matmuls and convolutions read them
// (core/weight_panels.h).
#pragma once

#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// Changes the programs' constants, and the strides of the operands that read them; parts get one loop more,
// or count panels as groups of a convolution. A constant changes only if all kernels of all programs that
// read it want it in the same order. It keeps its order if one of them has too few rows (it then streams the
// weight), walks it in another order, or is a custom op; if its columns are no multiple of a panel's; or if
// its bytes are not at hand (synthetic weights) or many. Returns a text for reports.
std::string StorePanels(const std::vector<LoweredProgram*>& programs);

}  // namespace rondo
