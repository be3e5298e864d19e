// What all points of a part combine into one element of memory: each thread has a share of its own, and when
// all points of a block are done, its threads put theirs together (device/combine.cuh).
//
// The body of the part, which may end early in some threads, is a function of its own for that, with the
// shares as its last parameters. Internal to compiler/codegen/cuda.
#pragma once

#include <string>
#include <vector>

#include "core/kernel.h"

namespace rondo::cuda {

// The instruction of each operand that the part combines into, once.
std::vector<TapeInst> CombinedCells(const Part& part);

// The share of the thread in what the instruction combines into, and what it becomes with `value`.
std::string CombinedShare(const TapeInst& inst);
std::string CombinedText(const TapeInst& inst, const std::string& value);

// The name of the device header that texts with such instructions need.
inline constexpr char kCombineHeader[] = "combine";

// "float& share3, ..." and "share3, ...".
std::string DeclaredShares(const std::vector<TapeInst>& cells);
std::string PassedShares(const std::vector<TapeInst>& cells);
// Lines before the body is called, and after: by all `threads` of the block.
std::string StartText(const std::vector<TapeInst>& cells);
std::string EndText(const Part& part, const std::vector<TapeInst>& cells, uint32_t threads);

}  // namespace rondo::cuda
