// Masks of attention's scores: what is added to scores, or put in their place, as one mask of kAttention.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"

namespace rondo::passes {

// "Minus much": what a mask adds to scores, or puts in their place, so that their keys are as good as absent:
// exp(it - any other score) is 0 where scores differ by less than 9,880. All that exporters write are (-1e4,
// -6e4, -65504, -1e9, a type's lowest, -inf), also rounded to bf16, in which -1e4 is -9984. What comes of a
// row that keeps no key still depends on which of them it is.
inline constexpr double kMinusMuch = -9984;
constexpr bool IsMinusMuch(double value) { return value <= kMinusMuch; }
// Whether scores below 1e21, if a finite value is added, are all equal in f32.
constexpr bool Absorbs(double value) { return value <= -1e30; }

// What a mask's value becomes in f32 where scores are multiplied after it.
double ScaledMask(double value, double factor);

// One thing that happens to scores: a tensor is added to them, or, where `mask` (bool) does not keep them,
// `dropped` takes their place, or (`mask` is kNoNode) they become at least `dropped`, which absorbs scores.
// Of the scores' shape, up to reshapes.
struct Masking {
  ir::NodeId mask = ir::kNoNode;
  bool added = true;
  double dropped = 0;
};

// What select node `id` does to scores that are its input `scores` (1 or 2), if what it puts in their place
// is "minus much". `later`: what happens afterwards, the last first, with a factor that scores have by then.
// None, too, if rows that keep no key would come out otherwise: where a finite value takes the place of
// scores, nothing may be added later (unless the value absorbs it), nor another put.
std::optional<Masking> ReplacedScores(ir::Graph* graph, ir::NodeId id, size_t scores,
                                      const std::vector<Masking>& later, double factor);

// All of them, the last first, as one mask of `shape`, bool or added; kNoNode if there are none.
ir::NodeId CombinedMask(ir::Graph* graph, ir::Builder* b, const std::vector<Masking>& masks,
                        const Shape& shape);

}  // namespace rondo::passes
