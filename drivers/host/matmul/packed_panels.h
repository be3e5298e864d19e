// UnpackPanels: packed weights (core/packed_weights.h) as the panels that products of many rows read.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {

// Columns that are unpacked before rows are multiplied by them: whole panels of MultiplyPanels.
inline constexpr int kPanelColumns = kBlockColumns > kPackedColumns ? kBlockColumns : kPackedColumns;
static_assert(kPanelColumns <= kMostPanelColumns && kPanelColumns % kBlockColumns == 0);

// Columns `first` to `first` + `columns` (at most kPanelColumns) of the tile that lies at `base` of right
// side j, numbers [k, k + depth) of each; k is a multiple of kPackedDepth, depth at most that. `out`: room
// for kPanelColumns * depth floats; columns that there are none of may be anything finite or not.
void UnpackPanels(const PackedProgram& packed, int j, const Worker& w, int64_t base, int first, int columns,
                  int64_t k, int depth, float* out);

}  // namespace rondo::host::RONDO_ISA
