// Masks of attention scores: combines values that are added to scores, or replace them, into one mask of
// kAttention.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"

namespace rondo::passes {

// A mask's "minus much": added to scores, or replacing them, it makes keys as good as absent, because exp(it
// - any other score) is 0 if scores differ by less than 9,880. This covers all values that exporters write
// (-1e4, -6e4, -65504, -1e9, a type's lowest, -inf), also rounded to bf16, where -1e4 is -9984. The result of
// a row without any key still depends on which one it is.
inline constexpr double kMinusMuch = -9984;
constexpr bool IsMinusMuch(double value) { return value <= kMinusMuch; }
// Whether adding this finite value to scores below 1e21 makes them all equal in f32.
constexpr bool Absorbs(double value) { return value <= -1e30; }

// A mask's value in f32 if scores are multiplied after it.
double ScaledMask(double value, double factor);

// One operation on scores: a tensor is added to them; or `dropped` replaces them where `mask` (bool) is
// false; or, if `mask` is kNoNode, they become at least `dropped`, which absorbs scores. With the scores'
// shape, up to reshapes.
struct Masking {
  ir::NodeId mask = ir::kNoNode;
  bool added = true;
  double dropped = 0;
};

// The effect of select node `id` on scores, which are its input `scores` (1 or 2), if it replaces them by
// "minus much". `later`: subsequent operations, the last first, with the factor of scores by then. No value
// if rows without any key would give another result: where a finite value replaces scores, nothing may be
// added later (unless the value absorbs it), nor may another value replace them.
std::optional<Masking> ReplacedScores(ir::Graph* graph, ir::NodeId id, size_t scores,
                                      const std::vector<Masking>& later, double factor);

// All of them, the last first, combined into one mask of `shape`, bool or added; kNoNode if there are none.
ir::NodeId CombinedMask(ir::Graph* graph, ir::Builder* b, const std::vector<Masking>& masks,
                        const Shape& shape);

}  // namespace rondo::passes
