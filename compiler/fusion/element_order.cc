// The order of results' elements in memory.
#include <algorithm>

#include "compiler/fusion/context.h"

namespace rondo::fusion {

namespace {

bool IsConvolution(const Context& c, NodeId id) {
  const int group = c.group_of[id];
  return group >= 0 && c.groups[group].skeleton == Skeleton::kConvolution;
}

bool IsPicture(DType t) { return IsFloat(t) || t == DType::kI8 || t == DType::kU8; }

bool VectorsWantChannelsLast(const Context& c, NodeId id, int depth = 0);

// Whether the group outputs an image with channels like `shape`, possibly padded, that should have them last.
// A group around a reduction may output several.
bool HandsOnChannelsLast(const Context& c, int group, const Shape& shape, int depth) {
  const auto like_it = [&](const Shape& other) {
    return other.rank == shape.rank && other[0] == shape[0] && other[1] == shape[1] &&
           other.elements() >= shape.elements();
  };
  const auto leaves = [&](NodeId member) {
    return std::any_of(c.readers[member].begin(), c.readers[member].end(),
                       [&](NodeId reader) { return !c.InGroup(reader, group); });
  };
  const std::vector<NodeId>& members = c.groups[group].nodes;
  return std::any_of(members.begin(), members.end(), [&](NodeId member) {
    return like_it(c.node(member).shape) && leaves(member) && VectorsWantChannelsLast(c, member, depth);
  });
}

// On the host: all inputs and outputs of convolutions and pools, and what lies between them, since loops then
// run along the channels. Only if all readers see images and channels unchanged, however they count the
// points.
bool VectorsWantChannelsLast(const Context& c, NodeId id, int depth) {
  const Node& node = c.node(id);
  constexpr int kMostDepth = 4;  // of pointwise kernels and concatenations up to the convolution
  if (node.shape.rank < 3 || node.shape[1] == 1 || !IsPicture(node.dtype) || depth > kMostDepth) return false;
  const auto same = [&](NodeId input) {
    const Shape& shape = c.node(input).shape;
    return shape.rank >= 3 && shape[0] == node.shape[0] && shape[1] == node.shape[1] &&
           ir::IsDense(c.graph.ViewOf(input), node.shape.elements());
  };
  bool wanted = IsConvolution(c, id);
  for (NodeId reader : c.readers[id]) {
    const Node& r = c.node(reader);
    for (NodeId input : r.inputs) {
      if (c.base(input) != id || (r.op == Op::kCollective && SentChannelsLast(c, input))) continue;
      if (!same(input) || r.op == Op::kCall || r.op == Op::kCollective) return false;
    }
    if (wanted) continue;
    const int group = c.group_of[reader];
    wanted = r.op == Op::kConv || r.op == Op::kPool ||
             (r.op == Op::kConcat && VectorsWantChannelsLast(c, reader, depth + 1)) ||
             (group >= 0 && group != c.group_of[id] && HandsOnChannelsLast(c, group, node.shape, depth + 1));
  }
  return wanted;
}

bool WantsChannelsLast(const Context& c, NodeId id) {
  return c.options.target.tensor_cores ? TensorCoresWantChannelsLast(c, id) : VectorsWantChannelsLast(c, id);
}

// Whether input `k` of `reader` is a B that GPUs multiply in lines along K: 8-bit integers or FP8.
bool WantsLinesAlongK(const Context& c, NodeId reader, size_t k) {
  const Node& node = c.node(reader);
  const DType dtype = c.node(node.inputs[k]).dtype;
  return node.op == Op::kMatMul && k == 1 && (dtype == DType::kI8 || dtype == DType::kU8 || IsFp8(dtype)) &&
         c.options.target.tensor_cores;
}

// Whether such a reader reads `id`; other readers accept any layout.
bool HasReaderAlongK(const Context& c, NodeId id) {
  return std::any_of(c.readers[id].begin(), c.readers[id].end(), [&](NodeId reader) {
    const std::vector<NodeId>& inputs = c.node(reader).inputs;
    return inputs.size() > 1 && c.base(inputs[1]) == id && WantsLinesAlongK(c, reader, 1);
  });
}

// The order in which `reader` reads its input `k`: that of its own result, which may have channels last.
View OrderRead(const Context& c, NodeId reader, size_t k) {
  const Node& node = c.node(reader);
  const NodeId input = node.inputs[k];
  View view = c.graph.ViewOf(input);
  if (WantsLinesAlongK(c, reader, k)) {
    int order[kMaxRank] = {0};
    const int rank = view.shape().rank;
    for (int d = 0; d < rank; ++d) order[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
    return ir::Transpose(view, Span<const int>(order, static_cast<size_t>(rank)));
  }
  if (node.op != Op::kPointwise || !(c.node(input).shape == node.shape) || !WantsChannelsLast(c, reader))
    return view;
  int order[kMaxRank] = {0};
  for (int d = 1; d + 1 < node.shape.rank; ++d) order[d] = d + 1;
  order[node.shape.rank - 1] = 1;
  return ir::Transpose(view, Span<const int>(order, static_cast<size_t>(node.shape.rank)));
}

// Whether convolutions that compute pieces of concatenation `id` there could still do so with its elements in
// this order: their loops are those of their own dims.
bool ConvolutionsCanWrite(const Context& c, NodeId id, const View& placement) {
  const Node& node = c.node(id);
  return node.op != Op::kConcat || std::all_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
           const NodeId piece = c.base(input);
           const Place& place = c.places[piece];
           if (place.how != Place::How::kPart || place.in != id) return true;
           const View at = ir::Compose(placement, place.at);
           return IsConvolution(c, piece) ? at.affine() : ConvolutionsCanWrite(c, piece, at);
         });
}

// Whether a reduction on a GPU would write the elements of its rows far apart. Matmuls, and reductions along
// other axes, read rows across just as well.
bool ScattersRows(const Context& c, NodeId id, const View& placement) {
  const int group = c.group_of[id], last = placement.shape().rank - 1;
  return c.options.target.tensor_cores && group >= 0 && last >= 0 &&
         c.groups[group].skeleton == Skeleton::kReduction && c.groups[group].domain == c.node(id).shape &&
         c.groups[group].reduced[last] == 1 && placement.shape()[last] > 1 &&
         placement.steps[0].strides[last] != 1 &&
         std::all_of(c.readers[id].begin(), c.readers[id].end(), [&](NodeId reader) {
           const Node& r = c.node(reader);
           return r.op == Op::kReduce || (r.op == Op::kMatMul && ByteSize(c.node(id).dtype) == 2);
         });
}

}  // namespace

// The placement of a node: if all readers outside its group read it through the same permutation, the order
// in which it is read, so that the readers see dense rows. Otherwise its own order.
View PlacementFor(const Context& c, NodeId id) {
  const Node& node = c.node(id);
  View own = ir::DenseView(node.shape);
  if (node.op == Op::kCollective || node.op == Op::kCall || node.op == Op::kCallResult ||
      node.op == Op::kLoopResult || c.places[id].own_order) {
    return own;
  }
  for (NodeId reader : c.readers[id]) {
    if (c.node(reader).op == Op::kLoop) return own;
  }
  if (WantsChannelsLast(c, id)) return ChannelsLast(node.shape);
  if (TensorCoresWantOwnOrder(c, id)) return own;
  const bool along_k = HasReaderAlongK(c, id);
  bool first = true;
  View read = own;
  for (NodeId reader : c.readers[id]) {
    if (c.group_of[id] >= 0 && c.InGroup(reader, c.group_of[id])) continue;
    if (c.node(reader).op == Op::kConcat || c.node(reader).op == Op::kCall) return own;
    for (size_t k = 0; k < c.node(reader).inputs.size(); ++k) {
      if (c.base(c.node(reader).inputs[k]) != id || (along_k && !WantsLinesAlongK(c, reader, k))) continue;
      View view = OrderRead(c, reader, k);
      if (!first && !(view == read)) return own;
      read = view;
      first = false;
    }
  }
  // The rest after the permutation (merged heads, for example) reads the dense tensor that it describes.
  if (first || read.steps[0].offset != 0) return own;
  const ir::ViewStep& step = read.steps[0];
  struct Dim {
    int64_t extent, stride, place;
  };
  std::vector<Dim> dims;
  int64_t place = 1;
  for (int d = step.shape.rank - 1; d >= 0; --d) {
    if (step.shape[d] != 1) dims.push_back({step.shape[d], step.strides[d], place});
    place *= step.shape[d];
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  int64_t run = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    if (dims[k].stride != run) return own;
    run *= dims[k].extent;
  }
  if (run != node.shape.elements() || dims.size() > static_cast<size_t>(kMaxRank)) return own;
  ir::ViewStep inverse;
  for (const Dim& dim : dims) {
    inverse.strides[inverse.shape.rank] = dim.place;
    inverse.shape.dims[inverse.shape.rank++] = dim.extent;
  }
  View placement = ir::Reshape(View{{inverse}}, node.shape);
  if (!placement.affine() || !ConvolutionsCanWrite(c, id, placement)) return own;
  return ScattersRows(c, id, placement) ? own : placement;
}

}  // namespace rondo::fusion
