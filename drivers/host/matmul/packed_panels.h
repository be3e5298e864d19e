// UnpackPanels: unpacks packed weights (core/packed_weights.h) into panels for matmuls with many rows.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {

// Columns unpacked at a time: whole panels of MultiplyPanels.
inline constexpr int kPanelColumns = kBlockColumns > kPackedColumns ? kBlockColumns : kPackedColumns;
static_assert(kPanelColumns <= kMostPanelColumns && kPanelColumns % kBlockColumns == 0);

// Unpacks columns [first, first + columns) (at most kPanelColumns) of the tile at `base` of rhs j, numbers
// [k, k + depth) of each; k is a multiple of kPackedDepth, depth at most that. `out` has room for
// kPanelColumns * depth floats; missing columns get arbitrary values.
void UnpackPanels(const PackedProgram& packed, int j, const Worker& w, int64_t base, int first, int columns,
                  int64_t k, int depth, float* out);

}  // namespace rondo::host::RONDO_ISA
