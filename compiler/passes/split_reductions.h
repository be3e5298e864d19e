// SplitReductions: reductions that would use a part of a GPU become two. For GPUs only.
#pragma once

#include "compiler/passes/pass.h"

namespace rondo::passes {

struct SplitOptions {
  // The GPU: multiprocessors that a kernel should fill, blocks that can share a row, the bytes of a row that
  // one multiprocessor keeps in registers, and whether images of narrow types lie channels last.
  int64_t processors = 0, row_blocks = 1, row_bytes = 0;
  bool channels_last = true;
  // Elements of a slice: of columns, each thread reads 32 or more; of a row, two vectors or more.
  int64_t least_slice = 4096, most_slice = 16384;
  // What a reduction must save to be worth a kernel more: bytes that memory delivers in its 2.5 us.
  int64_t worth = 11 << 20;
};

// A reduction that would use a part of the machine, or of each sector, over rows too long to be kept on chip,
// is one over slices of its rows and a small one over the slices' results. Sums of 16-bit floats are f32
// between the two; positions of extremes stay whole.
Result<PassResult> SplitReductions(ir::Graph* graph, const SplitOptions& options);

}  // namespace rondo::passes
