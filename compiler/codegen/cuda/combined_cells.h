// Values that all points of a part combine into one element of memory (kCombineMax, kCombineMin): each thread
// accumulates a share, and when all points of a block are done, its threads combine their shares
// (device/combine.cuh).
//
// So the body of the part, in which threads may return early, becomes a function of its own with the shares
// as its last parameters. Internal to compiler/codegen/cuda.
#pragma once

#include <string>
#include <vector>

#include "core/kernel.h"

namespace rondo::cuda {

// For each operand that the part combines into: one such instruction.
std::vector<TapeInst> CombinedCells(const Part& part);

// The thread's share for the instruction's operand, and the share combined with `value`.
std::string CombinedShare(const TapeInst& inst);
std::string CombinedText(const TapeInst& inst, const std::string& value);

// The device header that such texts need.
inline constexpr char kCombineHeader[] = "combine";

// "float& share3, ..." and "share3, ...".
std::string DeclaredShares(const std::vector<TapeInst>& cells);
std::string PassedShares(const std::vector<TapeInst>& cells);
// The lines before the call of the body, and after it; all `threads` of the block execute them.
std::string StartText(const std::vector<TapeInst>& cells);
std::string EndText(const Part& part, const std::vector<TapeInst>& cells, uint32_t threads);

}  // namespace rondo::cuda
