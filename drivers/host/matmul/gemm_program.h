// The prepared form of packed matmuls (Variant::kGemm). Words: see program.h.
#pragma once

#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host {

// Panels of B are packed by tiles of n and of k.
struct PackedGemm : GemmPart {
  int64_t panels = 0;  // floats of the panels of one tile of n and one of k
  // With several blocks of rows, the panels of all tiles are kept for the next block, unless they are too
  // many (kept_tiles is then 0). kept_at: for each tile of n, the outer point whose panels are there.
  int64_t kept_tiles = 0, kept_at = 0;
};

}  // namespace rondo::host
