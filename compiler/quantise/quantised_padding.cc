#include "compiler/quantise/quantised_padding.h"

#include "compiler/passes/match.h"

namespace rondo::passes {

namespace {

// The steps of QuantizeLinear and the like, as imported, from the last to the first.
constexpr TapeOp kSteps[] = {TapeOp::kCast, TapeOp::kMin,   TapeOp::kMax,
                             TapeOp::kAdd,  TapeOp::kRound, TapeOp::kDiv};
constexpr size_t kAdded = 3, kDivided = 5;

// The quantisation steps, by single numbers, that end in `numbers`; empty if there are others.
std::vector<const Node*> StepsOf(const ir::Graph& g, NodeId numbers) {
  std::vector<const Node*> steps;
  NodeId x = numbers;
  for (TapeOp op : kSteps) {
    const Node* step = AsPointwise(g, x, op);
    if (step == nullptr || !(step->shape == g.node(numbers).shape)) return {};
    for (size_t k = 1; k < step->inputs.size(); ++k) {
      if (g.node(g.BaseOf(step->inputs[k])).shape.elements() != 1) return {};
    }
    steps.push_back(step);
    x = step->inputs[0];
  }
  return steps;
}

// Whether it is a number, or a replacement where that is 0.
bool IsNever0(const ir::Graph& g, NodeId id) {
  const Node* select = AsPointwise(g, id, TapeOp::kSelect);
  if (select == nullptr) return false;
  const Node* compared = AsPointwise(g, g.BaseOf(select->inputs[0]), TapeOp::kEqual);
  if (compared == nullptr || g.BaseOf(compared->inputs[0]) != g.BaseOf(select->inputs[2])) return false;
  const std::optional<double> with = UniformValue(g, compared->inputs[1]),
                              instead = UniformValue(g, select->inputs[1]);
  return with && *with == 0 && instead && *instead != 0;
}

// An image padded with 0: the value of reads out of range.
NodeId PaddedByIndex(Builder& b, NodeId x, const std::vector<int64_t>& before,
                     const std::vector<int64_t>& after) {
  const Shape picture = b.shape(x);
  const ir::View dense = ir::DenseView(picture);
  Shape padded = picture;
  for (int d = 0; d < picture.rank; ++d)
    padded[d] += before[static_cast<size_t>(d)] + after[static_cast<size_t>(d)];
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(padded);
  std::vector<NodeId> indices;
  for (int d = 0; d < picture.rank; ++d) {
    int64_t& stride = attrs.map.steps[0].strides[d];
    stride = padded[d] == picture[d] ? dense.steps[0].strides[d] : 0;
    if (padded[d] == picture[d]) continue;
    attrs.dims.push_back({dense.steps[0].strides[d], picture[d], false, false});
    Shape along = padded;
    for (int other = 0; other < along.rank; ++other) along[other] = other == d ? padded[d] : 1;
    std::vector<int64_t> places;
    for (int64_t i = 0; i < padded[d]; ++i) places.push_back(i - before[static_cast<size_t>(d)]);
    indices.push_back(b.Ints(DType::kI32, along, places));
  }
  return b.IndexedRead(x, indices, attrs, padded);
}

}  // namespace

NodeId QuantisedPadded(Builder& b, NodeId numbers, NodeId zero, const std::vector<int64_t>& before,
                       const std::vector<int64_t>& after) {
  const ir::Graph& g = b.graph();
  const std::vector<const Node*> steps = StepsOf(g, numbers);
  if (steps.empty()) return kNoNode;
  const Node* added = AsPointwise(g, g.BaseOf(steps[kAdded]->inputs[1]), TapeOp::kCast);
  if (added == nullptr || g.BaseOf(added->inputs[0]) != g.BaseOf(zero) ||
      !IsNever0(g, g.BaseOf(steps[kDivided]->inputs[1])))
    return kNoNode;
  NodeId y = PaddedByIndex(b, steps[kDivided]->inputs[0], before, after);
  for (size_t s = steps.size(); s-- > 0;) {
    std::vector<NodeId> inputs = {y};
    for (size_t k = 1; k < steps[s]->inputs.size(); ++k)
      inputs.push_back(b.Reshape(g.BaseOf(steps[s]->inputs[k]), Shape{}));
    const ir::PointwiseAttrs step = steps[s]->As<ir::PointwiseAttrs>();
    y = b.Pointwise(step, steps[s]->dtype, inputs);
  }
  return y;
}

}  // namespace rondo::passes
