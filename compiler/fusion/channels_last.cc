// Decides which tensors are stored with channels last on a GPU: tensor cores, and the template of depthwise
// convolutions, want the channels of a pixel to be contiguous.
#include <algorithm>

#include "compiler/fusion/context.h"
#include "core/element.h"

namespace rondo::fusion {

namespace {

// Pixels of eight channels, or the four of an image, are read as vectors.
bool CanLieChannelsLast(const Node& node) {
  return node.shape.rank >= 3 && (node.shape[1] % 8 == 0 || node.shape[1] == 4);
}

constexpr char kPicture = 1;  // [n, c, spatial...]
constexpr char kPixels = 2;   // [n, spatial..., c], which convolutions and pools read as an image
constexpr char kOfBytes = 4;  // an image between convolutions of 8-bit integers or FP8

// Whether it is the maximum or minimum along spatial axes, which keep extent 1.
bool IsExtremeOfPicture(const ir::Graph& graph, const Node& node) {
  if (node.op != Op::kReduce) return false;
  const ir::ReduceAttrs& attrs = node.As<ir::ReduceAttrs>();
  const Shape& picture = graph.node(node.inputs[0]).shape;
  return (attrs.kind == ir::ReduceKind::kMax || attrs.kind == ir::ReduceKind::kMin) &&
         node.shape.rank == picture.rank && node.shape[0] == picture[0] && node.shape[1] == picture[1];
}

// Spreads from the inputs and outputs of convolutions and pools to all pointwise work and concatenations of
// them and, between byte convolutions, to the extremes by which their input is quantised.
class Pictures {
 public:
  explicit Pictures(const Context& context)
      : c_(context), found_(static_cast<size_t>(context.graph.size()), 0) {}

  std::vector<char> Find() {
    for (NodeId id : c_.order) {
      const Node& node = c_.node(id);
      if (node.op == Op::kConv || node.op == Op::kPool) {
        const bool bytes =
            node.op == Op::kConv && (node.dtype == DType::kI32 || IsFp8(c_.node(node.inputs[0]).dtype));
        const char found = bytes ? kPicture | kOfBytes : kPicture;
        Add(id, found);
        TryInput(node, 0, found);
        TryPixels(node.inputs[0]);
      }
      if (node.op == Op::kMatMul && ReadsPixels(node.inputs[0])) Add(c_.base(node.inputs[0]), kPicture);
      if (node.op == Op::kPointwise && ReadsMatmulOfPixels(node)) Add(id, kPicture);
    }
    while (!work_.empty()) {
      const NodeId id = work_.back();
      work_.pop_back();
      const Node& node = c_.node(id);
      const char found = found_[static_cast<size_t>(id)];
      if (Spreads(node)) {
        for (size_t k = 0; k < node.inputs.size(); ++k) TryInput(node, k, found);
      }
      for (NodeId reader : c_.readers[id]) {
        const Node& next = c_.node(reader);
        const bool spreads = Spreads(next) || ((found & kOfBytes) != 0 && IsExtremeOfPicture(c_.graph, next));
        if (spreads && ReadsAsItIs(next, id)) Add(reader, found);
      }
    }
    return std::move(found_);
  }

 private:
  static bool Spreads(const Node& node) { return node.op == Op::kPointwise || IsConcat(node); }
  static bool IsConcat(const Node& node) {
    return node.op == Op::kConcat && node.As<ir::ConcatAttrs>().axis == 1;
  }

  // Whether `input` shows [n, c, spatial...] as a matrix of pixels by channels, or one for each image: a
  // convolution that has become a matmul.
  bool ReadsPixels(NodeId input) const {
    const Shape& shape = c_.node(c_.base(input)).shape;
    const View& view = c_.graph.ViewOf(input);
    const int rank = view.shape().rank, least = rank == 2 ? 3 : 4;
    if (shape.rank < least || !view.affine() || rank < 2 || rank > 3 || view.shape()[rank - 1] != shape[1])
      return false;
    int64_t points = 1;
    for (int d = 2; d < shape.rank; ++d) points *= shape[d];
    constexpr int kOrder[] = {0, 2, 1};
    const View pixels =
        ir::Transpose(ir::Reshape(ir::DenseView(shape), Shape{shape[0], shape[1], points}), kOrder);
    return points > 1 && view == ir::Reshape(pixels, view.shape());
  }

  // Whether it computes [n, c, spatial...] from what such a matmul computes for each pixel.
  bool ReadsMatmulOfPixels(const Node& node) const {
    return node.shape.rank >= 4 && std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
             return c_.node(c_.base(input)).op == Op::kMatMul && c_.node(input).shape == node.shape &&
                    c_.graph.ViewOf(input) == ChannelsLast(node.shape);
           });
  }

  void Add(NodeId id, char found) {
    char& known = found_[static_cast<size_t>(id)];
    if (c_.IsLeaf(id) || known == kPixels || (known & found) == found || !CanLieChannelsLast(c_.node(id)))
      return;
    known |= found;
    work_.push_back(id);
  }

  // A norm over channels, for example, already has them last: it stays so.
  void TryPixels(NodeId input) {
    const NodeId base = c_.base(input);
    const Node& picture = c_.node(input);
    if (c_.IsLeaf(base) || found_[static_cast<size_t>(base)] != 0 || !CanLieChannelsLast(picture)) return;
    if (c_.graph.ViewOf(input) == ChannelsLast(picture.shape)) found_[static_cast<size_t>(base)] = kPixels;
  }

  // Whether an input is an unchanged image, or a slice of one (some channels, for example).
  bool InputAsItIs(const Node& reader, size_t slot) const {
    const NodeId input = reader.inputs[slot];
    const Shape& whole = c_.node(c_.base(input)).shape;
    const View view = c_.graph.ViewOf(input);
    if (!view.affine() || view.shape().rank != whole.rank) return false;
    const ir::ViewStep &shown = view.steps[0], dense = ir::DenseView(whole).steps[0];
    for (int d = 0; d < whole.rank; ++d) {
      if (shown.shape[d] > 1 && shown.strides[d] != dense.strides[d]) return false;
    }
    return true;
  }

  void TryInput(const Node& reader, size_t slot, char found) {
    if (InputAsItIs(reader, slot)) Add(c_.base(reader.inputs[slot]), found);
  }

  bool ReadsAsItIs(const Node& reader, NodeId id) const {
    for (size_t k = 0; k < reader.inputs.size(); ++k) {
      if (c_.base(reader.inputs[k]) == id && InputAsItIs(reader, k)) return true;
    }
    return false;
  }

  const Context& c_;
  std::vector<char> found_;
  std::vector<NodeId> work_;
};

// Whether only matmuls read it, as rows with all numbers of an image, channel by channel.
bool OnlyRowsAreRead(const Context& c, NodeId id) {
  const Shape& picture = c.node(id).shape;
  const auto reads_rows = [&](NodeId reader) {
    const NodeId rows = c.node(reader).inputs[0];
    return c.node(reader).op == Op::kMatMul && c.base(rows) == id && c.node(rows).shape.rank == 2 &&
           c.node(rows).shape[1] > picture[1] && ir::IsDense(c.graph.ViewOf(rows), picture.elements());
  };
  return !c.readers[id].empty() && std::all_of(c.readers[id].begin(), c.readers[id].end(), reads_rows);
}

}  // namespace

bool IsNarrow(DType dtype) {
  return Is16BitFloat(dtype) || IsFp8(dtype) || dtype == DType::kI8 || dtype == DType::kU8;
}

void FindPictures(Context* context) {
  context->pictures.assign(static_cast<size_t>(context->graph.size()), 0);
  if (context->options.target.tensor_cores) context->pictures = Pictures(*context).Find();
}

bool TensorCoresWantOwnOrder(const Context& c, NodeId id) {
  return c.pictures[static_cast<size_t>(id)] == kPixels && Is16BitFloat(c.node(id).dtype);
}

bool TensorCoresWantChannelsLast(const Context& c, NodeId id) {
  const char found = c.pictures[static_cast<size_t>(id)];
  const DType dtype = c.node(id).dtype;
  // Floats that will be quantised have the layout of the bytes, so that both are read as vectors.
  const bool wide = dtype == DType::kF32 && (found & kOfBytes) != 0;
  if ((found & kPicture) == 0 || (!IsNarrow(dtype) && !wide) || OnlyRowsAreRead(c, id)) return false;
  for (NodeId reader : c.readers[id]) {
    if (c.node(reader).op == Op::kConcat && c.pictures[static_cast<size_t>(reader)] == 0) return false;
    if (c.node(reader).op == Op::kCollective && !SentChannelsLast(c, c.node(reader).inputs[0])) return false;
  }
  return true;
}

bool SentChannelsLast(const Context& c, NodeId input) {
  const Node& base = c.node(c.base(input));
  return base.shape.rank >= 3 &&
         ir::IsDense(ir::Compose(ChannelsLast(base.shape), c.graph.ViewOf(input)), base.shape.elements());
}

View ChannelsLast(const Shape& shape) {
  ir::ViewStep step;
  step.shape = shape;
  int64_t run = shape[1];
  step.strides[1] = 1;
  for (int d = shape.rank - 1; d >= 2; --d) {
    step.strides[d] = run;
    run *= shape[d];
  }
  step.strides[0] = run;
  return View{{step}};
}

}  // namespace rondo::fusion
