// The elements that a part's operands reach: overflow-checked arithmetic for the verifier and the checker.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace rondo {

// The limit, in elements, of any address, guard coordinate or partial sum.
inline constexpr int64_t kMaxReach = int64_t{1} << 56;

// A set of loops of a part, one bit each.
using LoopMask = uint32_t;
constexpr LoopMask LoopRange(int first, int count) { return ((LoopMask{1} << count) - 1) << first; }
constexpr LoopMask AllLoops(const Part& part) { return LoopRange(0, static_cast<int>(part.loops.size())); }

// Elements [first, end) from the start of the bound region; empty (first == end) if no point of the
// part ever exists for the operand.
struct ElementRange {
  int64_t first = 0;
  int64_t end = 0;
  bool empty() const { return first >= end; }
};

// The smallest range that holds all elements that `operand` may touch: guards are clamped to [0, extent) and
// to what their loops reach, indirects to [0, extent). False if a number involved exceeds kMaxReach. Needs
// one stride for each loop and loops >= 1.
bool Reach(const Part& part, const Operand& operand, ElementRange* out);

// Loops of extent > 1 that the address of `operand` depends on, through strides and guards, and, unless
// `affine_only`, through the operands of its indirects.
LoopMask DependsOn(const Part& part, const Operand& operand, bool affine_only);

// Stride of `operand` along `loop`, guards included, in elements.
int64_t EffectiveStride(const Operand& operand, size_t loop);

}  // namespace rondo
