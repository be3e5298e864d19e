// Kernels that quantise an image by its range compute that range themselves, from the extremes of its lines.
//
// Otherwise a tiny kernel would reduce these to one scale and zero point, between the range reduction and the
// quantisation. A line is as long as the image is high, so there are as many extremes as elements in a row of
// the image: each row reduces all of them itself, and is quantised in the same part. Extremes of lines along
// several axes also serve, if they exist (scaled_ranges.cc). Other readers of scale and zero point use the
// first row's. For small images even the lines cost more than they save: those are treated as one row, whose
// range is found at once.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

constexpr int kMostSteps = 64;                // from extremes to a scale or zero point
constexpr int64_t kMostInRow = 16 << 10;      // which the threads of one block read at once
constexpr int64_t kMostScaledRows = 1 << 10;  // with more, a kernel for the range is faster
// Elements of a small image: with the blocks of a cluster, and with one block.
constexpr int64_t kMostAtOnce = 64 << 10, kMostAtOnceInBlock = 4 << 10;
constexpr int64_t kMostAtOncePadded = 8 << 10;  // elements at places given by indices are read one by one

bool IsExtreme(const Node& node) {
  if (node.op != Op::kReduce) return false;
  const ir::ReduceKind kind = node.As<ir::ReduceAttrs>().kind;
  return kind == ir::ReduceKind::kMax || kind == ir::ReduceKind::kMin;
}

// The range of a number: the image, and the axes along which its lines run.
struct Range {
  NodeId picture = kNoNode;
  std::vector<int> axes;
  bool scaled = false;  // the image is not read for the extremes of its lines
  bool Has(int axis) const { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }
  bool operator==(const Range&) const = default;
};

class Rows {
 public:
  Rows(Graph* graph, bool clusters)
      : g_(*graph), most_at_once_(clusters ? kMostAtOnce : kMostAtOnceInBlock) {}

  int64_t Run() {
    std::vector<NodeId> maps;
    for (NodeId id : g_.TopologicalOrder()) {
      if (g_.node(id).op == Op::kPointwise && g_.node(id).shape.elements() > 1) maps.push_back(id);
    }
    for (NodeId id : maps) FindAtOnce(id);
    for (NodeId id : maps) Quantise(id);
    for (const auto& [key, rows] : rows_) {
      const NodeId one = key.first;
      if (g_.node(one).dead) continue;
      Builder b = BuilderLike(&g_, one);
      NodeId first = rows;
      for (int d = 0; d < g_.node(rows).shape.rank; ++d) first = b.Slice(first, d, 0, 1, 1);
      first = b.Reshape(first, g_.node(one).shape);
      if (g_.CanReplace(one, first)) g_.Replace(one, first);
    }
    return pictures_;
  }

 private:
  // If the node quantises the image, makes it read the range's numbers from its own row.
  void Quantise(NodeId id) {
    for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
      const NodeId one = g_.BaseOf(g_.node(id).inputs[k]);
      Range range;
      int steps = 0;
      if (!IsOfRange(one, &range, &steps) || range.axes.empty()) continue;
      const NodeId read = Read(id, range);
      const Shape shape = g_.node(id).shape;
      if (read == kNoNode || !(g_.node(read).shape == shape) ||
          !(IsAtOnce(read, range) || HasRows(read, range)) || IsFoundByOther(read, range))
        continue;
      pictures_ += quantised_.emplace(id, read).second && IsReadBy(read, id);
      const NodeId rows = Row(one, range, read);
      g_.SetInput(id, k, BuilderLike(&g_, one).Expand(rows, shape));
    }
    // The next step.
    for (NodeId input : g_.node(id).inputs) {
      const auto before = quantised_.find(input);
      if (before != quantised_.end()) quantised_.emplace(id, before->second);
    }
  }
  // Records the image if the node quantises it unpadded, and so finds its range at once.
  void FindAtOnce(NodeId id) {
    for (NodeId input : g_.node(id).inputs) {
      Range range;
      int steps = 0;
      if (!IsOfRange(g_.BaseOf(input), &range, &steps) || range.axes.empty()) continue;
      const NodeId read = Read(id, range);
      if (read != kNoNode && IsSame(read, range.picture) && IsAtOnce(read, range)) at_once_.push_back(read);
    }
  }
  // Whether `read` is padded, and a quantising reader of the unpadded image finds the range at once.
  bool IsFoundByOther(NodeId read, const Range& range) const {
    return !IsSame(read, range.picture) && std::any_of(at_once_.begin(), at_once_.end(), [&](NodeId picture) {
      return IsSame(picture, range.picture);
    });
  }
  bool IsReadBy(NodeId read, NodeId id) const {
    const std::vector<NodeId>& inputs = g_.node(id).inputs;
    return std::find(inputs.begin(), inputs.end(), read) != inputs.end();
  }

  // The node through which `id`, or its inputs, read the image, unchanged or padded; kNoNode: none.
  NodeId Read(NodeId id, const Range& range) const {
    for (NodeId input : g_.node(id).inputs) {
      const auto before = quantised_.find(input);
      if (before != quantised_.end()) return before->second;
      if (IsSame(input, range.picture) || IsPadded(input, range)) return input;
    }
    return kNoNode;
  }
  bool IsSame(NodeId a, NodeId b) const {
    return g_.BaseOf(a) == g_.BaseOf(b) && g_.ViewOf(a) == g_.ViewOf(b);
  }
  // Whether it shows the whole image, padded with 0.
  bool IsPadded(NodeId id, const Range& range) const {
    const Node& node = g_.node(id);
    if (node.op != Op::kIndexedRead || range.axes.size() != 1 || !IsSame(node.inputs[0], range.picture))
      return false;
    const ir::View &map = node.As<ir::IndexedAttrs>().map,
                   picture = ir::DenseView(g_.node(range.picture).shape);
    const Shape& shape = picture.shape();
    if (node.shape.rank != shape.rank || !map.affine() || map.steps[0].offset != 0) return false;
    size_t indices = 0;
    for (int d = 0; d < shape.rank; ++d) {
      const size_t index = IndexAlong(node, d);
      const bool as_it_is = node.shape[d] == shape[d] &&
                            (shape[d] == 1 || map.steps[0].strides[d] == picture.steps[0].strides[d]);
      if (index == 0 ? !as_it_is : !CountsAll(node.inputs[index], shape[d])) return false;
      indices += index != 0;
    }
    return indices == node.As<ir::IndexedAttrs>().dims.size();
  }
  // The input with the index along axis `d` of the image; 0: none.
  size_t IndexAlong(const Node& read, int d) const {
    const ir::IndexedAttrs& attrs = read.As<ir::IndexedAttrs>();
    const ir::View picture = ir::DenseView(g_.node(read.inputs[0]).shape);
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      const ir::IndexedDim& dim = attrs.dims[k];
      const Shape& index = g_.node(g_.BaseOf(read.inputs[k + 1])).shape;
      const bool along =
          index.rank == read.shape.rank && index[d] == read.shape[d] && index.elements() == read.shape[d];
      if (along && read.shape[d] > 1 && dim.stride == picture.steps[0].strides[d] &&
          dim.extent == picture.shape()[d] && !dim.fault && !dim.wrap && attrs.map.steps[0].strides[d] == 0)
        return k + 1;
    }
    return 0;
  }
  // Whether it is a constant that contains each number below `extent`.
  bool CountsAll(NodeId index, int64_t extent) const {
    std::vector<int64_t> values;
    if (!Builder(&g_).ConstantInts(g_.BaseOf(index), &values)) return false;
    for (int64_t i = 0; i < extent; ++i) {
      if (std::find(values.begin(), values.end(), i) == values.end()) return false;
    }
    return true;
  }

  // Whether it is derived from extremes of one image, found line by line, with ranges that include 0, and
  // from constants.
  bool IsOfRange(NodeId id, Range* range, int* steps) const {
    const Node& node = g_.node(id);
    if (node.shape.elements() != 1 || ++*steps > kMostSteps) return false;
    if (node.op == Op::kConstant) return true;
    if (node.op != Op::kPointwise) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
      const NodeId base = g_.BaseOf(input);
      if (!IsExtreme(g_.node(base))) return IsOfRange(base, range, steps);
      const Range own = RangeOf(g_.node(base));
      if (own.axes.empty() || !Has0(node, g_.node(base)) || (!range->axes.empty() && !(own == *range)))
        return false;
      *range = own;
      return true;
    });
  }
  // Whether `node` includes 0 in the range of `extreme`: then a padded image has the same range.
  bool Has0(const Node& node, const Node& extreme) const {
    const bool max = extreme.As<ir::ReduceAttrs>().kind == ir::ReduceKind::kMax;
    const std::optional<ScalarUse> use = WithScalar(g_, node.id, max ? TapeOp::kMax : TapeOp::kMin);
    return use && use->value == 0;
  }
  // For an extreme over extremes of lines.
  Range RangeOf(const Node& all) const {
    const NodeId input = all.inputs[0];
    const Node& lines = g_.node(g_.BaseOf(input));
    if (all.shape.elements() == 1 && g_.node(input).shape.elements() == lines.shape.elements()) {
      if (const std::optional<ScaledLines> scaled = ScaledLinesOf(g_, lines.id))
        return {scaled->picture, scaled->axes, true};
    }
    if (all.shape.elements() != 1 || !IsExtreme(lines) ||
        lines.As<ir::ReduceAttrs>().kind != all.As<ir::ReduceAttrs>().kind ||
        g_.node(input).shape.elements() != lines.shape.elements())
      return {};
    const std::vector<int>& axes = lines.As<ir::ReduceAttrs>().axes;
    const Shape& picture = g_.node(lines.inputs[0]).shape;
    if (axes.size() != 1 || axes[0] == picture.rank - 1 || lines.shape.rank != picture.rank) return {};
    return {lines.inputs[0], axes, false};
  }
  bool IsAtOnce(NodeId read, const Range& range) const {
    if (range.scaled) return false;
    const bool padded = g_.node(read).op == Op::kIndexedRead;
    const int64_t most = padded ? std::min(most_at_once_, kMostAtOncePadded) : most_at_once_;
    return g_.node(read).shape.elements() <= most;
  }
  // Whether the image has rows, none of them too long.
  bool HasRows(NodeId read, const Range& range) const {
    const Shape& shape = g_.node(read).shape;
    int64_t rows = 1;
    for (int axis : range.axes) rows *= shape[axis];
    const int64_t row = shape.elements() / rows;
    return rows > 1 && row > 1 && row <= kMostInRow && (!range.scaled || rows <= kMostScaledRows);
  }

  // `id`, one number of the range, computed separately for each row of the image that is read.
  NodeId Row(NodeId id, const Range& range, NodeId read) {
    if (g_.node(id).op == Op::kConstant) return BuilderLike(&g_, id).Reshape(id, Shape{});
    const auto known = rows_.find({id, read});
    if (known != rows_.end()) return known->second;
    const NodeId made = IsExtreme(g_.node(id)) ? Extreme(id, range, read) : Computed(id, range, read);
    rows_[{id, read}] = made;
    return made;
  }
  NodeId Computed(NodeId id, const Range& range, NodeId read) {
    std::vector<NodeId> inputs = g_.node(id).inputs;
    for (NodeId& input : inputs) input = Row(g_.BaseOf(input), range, read);
    const ir::PointwiseAttrs attrs = g_.node(id).As<ir::PointwiseAttrs>();
    return BuilderLike(&g_, id).Pointwise(attrs, g_.node(id).dtype, inputs);
  }
  NodeId Extreme(NodeId id, const Range& range, NodeId read) {
    Builder b = BuilderLike(&g_, id);
    const ir::ReduceKind kind = g_.node(id).As<ir::ReduceAttrs>().kind;
    const Shape shape = g_.node(read).shape;
    std::vector<int> all, others;
    for (int d = 0; d < shape.rank; ++d) {
      all.push_back(d);
      if (!range.Has(d)) others.push_back(d);
    }
    if (IsAtOnce(read, range)) return b.Reduce(kind, read, all, true);
    NodeId lines = g_.BaseOf(g_.node(id).inputs[0]);
    if (!IsSame(read, range.picture)) lines = PaddedLines(b, lines, range, read);
    return b.Reduce(kind, b.Expand(lines, shape), others, true);
  }
  // The lines of the padded image; those outside the image are 0.
  NodeId PaddedLines(Builder& b, NodeId lines, const Range& range, NodeId read) {
    Shape shape = g_.node(read).shape;
    shape[range.axes[0]] = 1;
    const ir::View dense = ir::DenseView(g_.node(lines).shape);
    ir::IndexedAttrs attrs;
    attrs.map = ir::DenseView(shape);
    std::vector<NodeId> indices;
    for (int d = 0; d < shape.rank; ++d) {
      attrs.map.steps[0].strides[d] = dense.steps[0].strides[d];
      const size_t index = range.Has(d) ? 0 : IndexAlong(g_.node(read), d);
      if (index == 0) continue;
      attrs.map.steps[0].strides[d] = 0;
      attrs.dims.push_back({dense.steps[0].strides[d], g_.node(lines).shape[d], false, false});
      Shape along = shape;
      for (int other = 0; other < shape.rank; ++other) along[other] = other == d ? shape[d] : 1;
      indices.push_back(b.Reshape(g_.BaseOf(g_.node(read).inputs[index]), along));
    }
    return attrs.dims.empty() ? lines : b.IndexedRead(lines, indices, attrs, shape);
  }

  Graph& g_;
  const int64_t most_at_once_;
  std::map<std::pair<NodeId, NodeId>, NodeId> rows_;  // by the original number, and the node read
  std::vector<NodeId> at_once_;                       // images whose range a quantising reader finds at once
  std::map<NodeId, NodeId> quantised_;                // the image read, by the steps of its quantisation
  int64_t pictures_ = 0;
};

}  // namespace

int64_t FindRangesInReaders(Graph* graph, bool clusters) { return Rows(graph, clusters).Run(); }

}  // namespace rondo::passes
