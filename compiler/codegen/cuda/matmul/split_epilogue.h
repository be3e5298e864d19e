// SplitEpilogue: a kernel of matmuls over one A as a plain matmul and a map over its sums.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/fusion/lowered.h"

namespace rondo {

// `matmul` writes the sums of all accumulators, column after column, to a new value of the type of A and B,
// which `map` reads in their place. The two do what the op did, but that sums are rounded to that type.
struct SplitOp {
  LoweredValue sums;
  LoweredOp matmul;  // binds `sums` last; its deps are the op's
  LoweredOp map;     // binds `sums` last; its deps are the op's: the matmul comes on top
  int64_t m = 0, n = 0, k = 0, batches = 0;
};

// None where a part has a prologue, where A and B are no strided matrices, where the As of parts and
// accumulators differ, or the Bs are not neighbouring columns of one matrix. `value` is the
// number that `sums` will have; kernels lie in the program's arena.
std::optional<SplitOp> SplitEpilogue(const LoweredProgram& program, const LoweredOp& op, int value);

}  // namespace rondo
