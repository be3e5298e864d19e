// SplitEpilogue: splits a kernel of matmuls over one A into a plain matmul and a map over its sums.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/fusion/lowered.h"

namespace rondo {

// `matmul` writes the sums of all accumulators, column after column, to a new value of the type of A and B,
// which `map` reads instead. Together they do the same as the op, except that sums are rounded to that type.
struct SplitOp {
  LoweredValue sums;
  LoweredOp matmul;  // binds `sums` last; has the op's deps
  LoweredOp map;     // binds `sums` last; has the op's deps, and depends on the matmul
  int64_t m = 0, n = 0, k = 0, batches = 0;
};

// No value if a part has a prologue, if A and B are not strided matrices, if the As of parts and accumulators
// differ, or if the Bs are not adjacent columns of one matrix. `value` is the index that `sums` will have;
// kernels lie in the program's arena.
std::optional<SplitOp> SplitEpilogue(const LoweredProgram& program, const LoweredOp& op, int value);

}  // namespace rondo
