#include "compiler/passes/score_masks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/passes/match.h"

namespace rondo::passes {

namespace {

// Represents any finite "minus much" that replaces scores and is not changed later. Added to scores below
// 1e29 it makes them all equal; sums of a few of it, or of it and the lowest f32, stay finite.
constexpr double kInPlace = -1e37;

NodeId AsFloat(Builder* b, NodeId mask) {
  if (b->dtype(mask) != DType::kBool) return b->Cast(mask, DType::kF32);
  return b->Select(mask, b->Scalar(DType::kF32, 0),
                   b->Scalar(DType::kF32, -std::numeric_limits<double>::infinity()));
}

}  // namespace

double ScaledMask(double value, double factor) {
  const double scaled = value * factor;
  return scaled < std::numeric_limits<float>::lowest() ? -std::numeric_limits<double>::infinity() : scaled;
}

std::optional<Masking> ReplacedScores(ir::Graph* graph, NodeId id, size_t scores,
                                      const std::vector<Masking>& later, double factor) {
  const std::vector<NodeId> in = graph->node(id).inputs;
  std::optional<double> dropped = UniformValue(*graph, in[3 - scores]);
  if (dropped) dropped = ScaledMask(*dropped, factor);
  if (!dropped || !IsMinusMuch(*dropped)) return std::nullopt;
  const bool same = std::all_of(later.begin(), later.end(), [&](const Masking& masking) {
    if (masking.added || masking.mask == kNoNode) return Absorbs(*dropped);
    return masking.dropped == *dropped || !std::isfinite(masking.dropped);
  });
  if (std::isfinite(*dropped) && !same) return std::nullopt;
  Builder b = BuilderLike(graph, id);
  return Masking{scores == 1 ? in[0] : b.Unary(TapeOp::kNot, in[0]), false, *dropped};
}

NodeId CombinedMask(ir::Graph* graph, Builder* b, const std::vector<Masking>& masks, const Shape& shape) {
  NodeId all = kNoNode;
  for (size_t k = masks.size(); k-- > 0;) {
    if (masks[k].mask == kNoNode) {
      if (all != kNoNode) all = b->BinaryScalar(TapeOp::kMax, AsFloat(b, all), masks[k].dropped);
      continue;
    }
    const NodeId mask = b->Reshape(masks[k].mask, shape);
    if (masks[k].added) {
      all = all == kNoNode ? mask : b->Add(AsFloat(b, all), AsFloat(b, mask));
    } else if (std::isfinite(masks[k].dropped)) {  // a row without keys is uniform, not empty
      const bool alone = std::none_of(masks.begin(), masks.begin() + static_cast<ptrdiff_t>(k),
                                      [](const Masking& later) { return later.added; });
      const NodeId dropped = b->Scalar(DType::kF32, alone ? kInPlace : masks[k].dropped);
      if (all == kNoNode) {
        const NodeId once = b->ViewNode(graph->BaseOf(mask), ShownOnce(graph->ViewOf(mask)));
        all = b->Expand(b->Select(once, b->Scalar(DType::kF32, 0), dropped), shape);
      } else {
        all = b->Select(mask, AsFloat(b, all), dropped);
      }
    } else if (all == kNoNode) {
      all = mask;
    } else if (b->dtype(all) == DType::kBool) {
      all = b->Binary(TapeOp::kBitAnd, all, mask);
    } else {
      all = b->Select(mask, AsFloat(b, all), b->Scalar(DType::kF32, masks[k].dropped));
    }
  }
  return all;
}

}  // namespace rondo::passes
