// IntegerMatmuls: matmuls of numbers quantised to 8-bit integers multiply the integers:
//   sum (a - za)(w - zw) = sum a w - za sum w - zw sum a + count za zw,
// so the integer matmul is exact in i32, sums of a constant weight are constants, and the scales multiply the
// sums.
#include <algorithm>
#include <cstring>

#include "compiler/ir/shares.h"
#include "compiler/passes/rewrite.h"
#include "compiler/quantise/lowering.h"
#include "compiler/quantise/quantised_padding.h"
#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

constexpr int64_t kMostDepth = 32768;  // of a convolution: sums stay within 32 bits
// Channels of a group, if there are several: vectors along more channels pay.
constexpr int64_t kFewChannels = 16;

class Rewriter : public Lowering {
 public:
  // `few`: includes groups of few channels.
  Rewriter(Graph* graph, NodeId id, bool integers, bool few)
      : Lowering(graph, id), integers_(integers), few_(few) {}

  // The same computation on integers; kNoNode if an input is not quantised.
  NodeId Rewritten() {
    const Node& node = g_.node(id_);
    Quantised a, w;
    if (node.shape.elements() == 0 || !(node.op == Op::kMatMul ? SuitsMatMul(node) : SuitsConv(node)) ||
        !ReadFactors(&a, &w) || !Is8BitInteger(g_.node(a.codes).dtype) ||
        !Is8BitInteger(g_.node(w.codes).dtype) || !FollowSums(a, w))
      return kNoNode;
    return node.op == Op::kMatMul ? MatMul(node, a, w) : Conv(node, a, w);
  }

 private:
  // A zero point as i32: exact.
  NodeId Whole(NodeId zero) { return zero == kNoNode ? zero : b_.Cast(zero, DType::kI32); }

  // The bytes of a weight as signed: 128 is subtracted from u8 codes and from their zero point. Null if it is
  // not constant.
  Data Signed(Quantised* w) {
    const Data value = Known(w->codes);
    if (value == nullptr || value->dtype == DType::kI8) return value;
    std::vector<uint8_t> bytes(value->bytes.begin(), value->bytes.end());
    for (uint8_t& byte : bytes) byte ^= 0x80;
    const NodeId offset = b_.Scalar(DType::kI32, 128);
    w->zero = w->zero == kNoNode ? b_.Unary(TapeOp::kNeg, offset) : b_.Sub(Whole(w->zero), offset);
    if (UniformValue(g_, w->zero) == 0.0) w->zero = kNoNode;
    return ConstantData::Own(DType::kI8, value->shape, std::move(bytes));
  }

  // ------------------------------------------------------------------------------------ matmul

  // The weight with k innermost; if it is constant, also the sums of its columns, [..., 1, n].
  NodeId MatMulWeight(Quantised* w, NodeId* sums) {
    Quantised own = *w;
    const Data data = Signed(&own);
    const NodeId weight = data == nullptr ? kNoNode : LinesAlongK(data, w->codes);
    if (weight == kNoNode) return w->codes;
    *w = own;
    Shape summed = data->shape;
    const size_t k = static_cast<size_t>(summed[summed.rank - 2]);
    summed[summed.rank - 2] = 1;
    const uint8_t* const lines = g_.node(g_.BaseOf(weight)).As<ir::ConstantAttrs>().data->bytes.data();
    std::vector<int64_t> columns(data->bytes.size() / k, 0);
    ir::InShares(static_cast<int64_t>(columns.size()), 1, [&](int64_t first, int64_t last) {
      for (size_t column = static_cast<size_t>(first); column < static_cast<size_t>(last); ++column) {
        for (size_t i = 0; i < k; ++i) columns[column] += static_cast<int8_t>(lines[column * k + i]);
      }
    });
    *sums = b_.Ints(DType::kI32, summed, columns);
    return weight;
  }

  // An rhs of ones, with which a matmul sums its lhs, for every column.
  NodeId Ones(DType type, const Shape& shape) { return b_.Expand(b_.Scalar(type, 1), shape); }

  // Sums of 8-bit numbers along one axis.
  NodeId Sums(NodeId numbers, int axis, DType type) {
    return b_.Reduce(ir::ReduceKind::kSum, b_.Cast(numbers, type), {axis}, true);
  }

  static bool SuitsMatMul(const Node& node) { return node.dtype == DType::kI32 || IsFloat(node.dtype); }
  NodeId MatMul(const Node& node, const Quantised& a, Quantised w) {
    const NodeId left = node.inputs[0], right = node.inputs[1];
    const DType type = node.dtype;
    const int r = node.shape.rank;
    if (type == DType::kI32 && (a.scale != kNoNode || w.scale != kNoNode)) return kNoNode;
    const int64_t k = g_.node(left).shape[r - 1];
    NodeId columns = kNoNode;
    const NodeId weight = MatMulWeight(&w, &columns);
    NodeId y = b_.MatMul(a.codes, weight);
    // Short sums are exact in f32, which is faster on most GPUs.
    constexpr int64_t kShort = (1 << 24) / (2 * 255 * 255);
    const DType whole = k <= kShort && IsFloat(type) && !integers_ ? DType::kF32 : DType::kI32;
    y = b_.Cast(y, whole);
    const auto of = [&](NodeId x) { return x == kNoNode ? x : b_.Cast(x, whole); };
    // The host sums rows of the lhs while it multiplies them.
    const bool beside = integers_ && columns == kNoNode && g_.node(weight).shape == g_.node(right).shape;
    if (a.zero != kNoNode) {
      columns = of(columns == kNoNode ? ColumnSums(w.codes, whole) : columns);
      y = b_.Sub(y, b_.Mul(of(a.zero), Centred(columns, of(w.zero), k)));
    }
    if (w.zero != kNoNode) {
      const NodeId rows = beside ? b_.MatMul(a.codes, Ones(g_.node(weight).dtype, g_.node(weight).shape))
                                 : Sums(a.codes, r - 1, whole);
      y = b_.Sub(y, b_.Mul(of(w.zero), rows));
    }
    return Scaled(y, a.scale, w.scale);
  }

  // The sums of the columns of an rhs, [..., 1, n]: on the host a matmul with one row of ones, which reads
  // bytes like other matmuls.
  NodeId ColumnSums(NodeId numbers, DType type) {
    Shape row = g_.node(numbers).shape;
    if (!integers_) return Sums(numbers, row.rank - 2, type);
    row[row.rank - 1] = row[row.rank - 2];
    row[row.rank - 2] = 1;
    return b_.MatMul(Ones(DType::kU8, row), numbers);
  }

  // Sums of `count` numbers, minus their zero point times `count`; both have the same type.
  NodeId Centred(NodeId sums, NodeId zero, int64_t count) {
    if (zero == kNoNode) return sums;
    return b_.Sub(sums, b_.BinaryScalar(TapeOp::kMul, zero, static_cast<double>(count)));
  }

  // ------------------------------------------------------------------------------- convolution

  // The sums over the channels of each group: [n, groups, ...], integers below 2^24.
  NodeId ChannelSums(const Quantised& a, int64_t channels, int64_t groups) {
    const Shape shape = g_.node(a.codes).shape;
    Shape split{shape[0], groups, channels}, grouped = shape;
    grouped[1] = groups;
    split.dims[split.rank++] = shape.elements() / (shape[0] * shape[1]);
    const NodeId x =
        b_.Reduce(ir::ReduceKind::kSum, b_.Reshape(b_.Cast(a.codes, DType::kF32), split), {2}, false);
    return b_.Reshape(x, grouped);
  }

  // Whether the windows are exactly the single pixels of the input.
  static bool IsEveryPixel(const Shape& weight, const ir::ConvAttrs& attrs) {
    const auto all = [](const auto& of, int64_t value) {
      return std::all_of(of.begin(), of.end(), [&](int64_t each) { return each == value; });
    };
    return std::all_of(weight.begin() + 2, weight.end(), [](int64_t taps) { return taps == 1; }) &&
           all(attrs.strides, 1) && all(attrs.pads_begin, 0) && all(attrs.pads_end, 0);
  }
  // The sum of each window of the input, minus the zero point, for each output channel: [n, o, ...] as i32.
  NodeId WindowSums(const Quantised& a, const Shape& weight, const ir::ConvAttrs& attrs) {
    NodeId x = ChannelSums(a, weight[1], attrs.groups);
    if (a.zero != kNoNode) {
      const NodeId zero = b_.Cast(b_.Reshape(a.zero, Shape{}), g_.node(x).dtype);
      x = b_.Sub(x, b_.BinaryScalar(TapeOp::kMul, zero, static_cast<double>(weight[1])));
    }
    return OfAllOutputs(SumsOverWindows(x, weight, attrs), weight[0]);
  }
  NodeId SumsOverWindows(NodeId x, const Shape& weight, const ir::ConvAttrs& attrs) {
    if (IsEveryPixel(weight, attrs)) return b_.Cast(x, DType::kI32);
    ir::PoolAttrs pool;
    pool.kind = Combine::kSum;
    pool.kernel.assign(weight.begin() + 2, weight.end());
    pool.strides = attrs.strides;
    pool.dilations = attrs.dilations;
    pool.pads_begin = attrs.pads_begin;
    pool.pads_end = attrs.pads_end;
    return b_.Cast(b_.Pool(b_.Cast(x, DType::kF32), pool), DType::kI32);
  }
  // Repeats each group's value for all of its output channels.
  NodeId OfAllOutputs(NodeId sums, int64_t outputs) {
    Shape each = g_.node(sums).shape, all = each;
    all[1] = outputs;
    if (each[1] == 1) return b_.Expand(sums, all);
    const Shape flat{each[0], each[1], 1, each.elements() / (each[0] * each[1])};
    const NodeId spread = b_.Expand(b_.Reshape(sums, flat), {flat[0], flat[1], all[1] / flat[1], flat[3]});
    return b_.Reshape(spread, all);
  }

  // Whether it is computed by sliding windows over each channel: on GPUs in vectors of channels, with sums in
  // floats; on the host in 32 bits.
  bool Slides(const Shape& weight, const ir::ConvAttrs& attrs) const {
    constexpr int64_t kMostTaps = 256;
    return weight[0] == attrs.groups && weight[1] == 1 && (integers_ || weight[0] % 8 == 0) &&
           weight.elements() <= weight[0] * kMostTaps;
  }

  // A weight minus its zero points, if those are constant: in 8 bits if they suffice, otherwise in 16. For
  // sliding windows, separate sums are not cheaper than the multiplications.
  Data LessZeroPoints(Quantised* w) {
    const Data value = Known(w->codes);
    std::vector<int64_t> zeros;
    if (value == nullptr || !b_.ConstantInts(Whole(w->zero), &zeros)) return nullptr;
    const size_t outputs = static_cast<size_t>(value->shape[0]), count = value->bytes.size() / outputs;
    const int64_t most = integers_ ? 32767 : 255;  // floats hold the sums exactly (Slides)
    std::vector<uint8_t> narrow;
    std::vector<int16_t> wide;
    bool fits = true;
    for (size_t i = 0; i < value->bytes.size(); ++i) {
      const uint8_t byte = value->bytes[i];
      const int64_t number = value->dtype == DType::kI8 ? static_cast<int8_t>(byte) : byte;
      const int64_t less = number - zeros[zeros.size() == 1 ? 0 : i / count];
      if (std::abs(less) > most) return nullptr;
      fits &= less >= -128 && less <= 127;
      narrow.push_back(static_cast<uint8_t>(less));
      wide.push_back(static_cast<int16_t>(less));
    }
    w->zero = kNoNode;
    if (fits) return ConstantData::Own(DType::kI8, value->shape, std::move(narrow));
    std::vector<uint8_t> bytes(wide.size() * sizeof(int16_t));
    std::memcpy(bytes.data(), wide.data(), bytes.size());
    return ConstantData::Own(DType::kI16, value->shape, std::move(bytes));
  }

  // The sums of the weights of each output channel, [o, c, kernel...] of i8 or i16.
  static std::vector<int64_t> SumsOfOutputs(const ConstantData& weight) {
    const size_t size = static_cast<size_t>(ByteSize(weight.dtype)), count = weight.bytes.size() / size;
    std::vector<int64_t> sums(static_cast<size_t>(weight.shape[0]), 0);
    for (size_t i = 0; i < count; ++i) {
      int16_t number = static_cast<int8_t>(weight.bytes[i * size]);
      if (size == sizeof(number)) std::memcpy(&number, &weight.bytes[i * size], sizeof(number));
      sums[i / (count / sums.size())] += number;
    }
    return sums;
  }

  bool SuitsConv(const Node& node) const {
    const Shape& weight = g_.node(node.inputs[1]).shape;
    const ir::ConvAttrs& attrs = node.As<ir::ConvAttrs>();
    const bool few = attrs.groups > 1 && weight[1] < kFewChannels && !Slides(weight, attrs);
    return IsFloat(node.dtype) && (!few || few_) && weight.elements() / weight[0] <= kMostDepth;
  }
  NodeId Conv(const Node& node, const Quantised& a, Quantised w) {
    const Shape weight_shape = g_.node(node.inputs[1]).shape;
    ir::ConvAttrs attrs = node.As<ir::ConvAttrs>();
    const bool slides = attrs.groups > 1 && Slides(weight_shape, attrs);
    const Data data = slides && w.zero != kNoNode ? LessZeroPoints(&w) : Signed(&w);
    if (data == nullptr || !(data->shape == weight_shape)) return kNoNode;
    const int64_t outputs = weight_shape[0];
    const std::vector<int64_t> sums = SumsOfOutputs(*data);
    const NodeId weight_zero = AlongChannels(w.zero);
    const ir::ConvAttrs windows = attrs;
    const NodeId x = Padded(a, &attrs);
    NodeId y = b_.Conv(x, Weight(data, w.codes), attrs);
    // Window sums are computed while the input is read, by a weight of ones, where positions outside the
    // input count. On GPUs that takes tiles of several columns, and the fourth channel of an image
    // (pad_channels) would count outside as well.
    constexpr int64_t kColumns = 8, kPicture = 3;
    const bool tiles =
        outputs / windows.groups >= kColumns && (weight_shape[1] > kPicture || attrs.absent == 0);
    const bool beside = weight_zero != kNoNode && (integers_ || tiles);
    if (a.zero != kNoNode) {
      NodeId all = AlongChannels(b_.Ints(DType::kI32, Shape{outputs}, sums));
      if (beside) all = Centred(all, Whole(weight_zero), weight_shape.elements() / outputs);
      y = b_.Sub(y, b_.Mul(b_.Reshape(Whole(a.zero), Shape{}), all));
    }
    if (weight_zero != kNoNode) {
      const NodeId rows =
          beside ? b_.Conv(x, Ones(DType::kI8, weight_shape), attrs) : WindowSums(a, weight_shape, windows);
      y = b_.Sub(y, b_.Mul(Whole(weight_zero), rows));
    }
    return Scaled(y, AlongChannels(a.scale), AlongChannels(w.scale));
  }

  // Outside the input is its zero point: an attribute if it is constant, otherwise memory.
  NodeId Padded(const Quantised& a, ir::ConvAttrs* attrs) {
    const bool none =
        std::all_of(attrs->pads_begin.begin(), attrs->pads_begin.end(), [](auto p) { return p == 0; }) &&
        std::all_of(attrs->pads_end.begin(), attrs->pads_end.end(), [](auto p) { return p == 0; });
    if (a.zero == kNoNode || none) return a.codes;
    const std::optional<double> known = UniformValue(g_, a.zero);
    if (known) {
      attrs->absent = static_cast<int64_t>(*known);
      return a.codes;
    }
    std::vector<int64_t> before = {0, 0}, after = {0, 0};
    before.insert(before.end(), attrs->pads_begin.begin(), attrs->pads_begin.end());
    after.insert(after.end(), attrs->pads_end.begin(), attrs->pads_end.end());
    const DType type = g_.node(a.codes).dtype;
    if (integers_) {  // its kernels write the numbers to their places
      std::fill(attrs->pads_begin.begin(), attrs->pads_begin.end(), 0);
      std::fill(attrs->pads_end.begin(), attrs->pads_end.end(), 0);
      return b_.PadConstant(a.codes, b_.Cast(b_.Reshape(a.zero, Shape{}), type), before, after);
    }
    const NodeId quantised = QuantisedPadded(b_, a.codes, a.zero, before, after);
    if (quantised != kNoNode) {
      std::fill(attrs->pads_begin.begin(), attrs->pads_begin.end(), 0);
      std::fill(attrs->pads_end.begin(), attrs->pads_end.end(), 0);
      return quantised;
    }
    const NodeId inside = b_.PadConstant(a.codes, b_.Scalar(type, 0), before, after);
    // By position: 1 outside the input, 0 inside.
    const Shape& all = g_.node(inside).shape;
    Shape places = all;
    places[0] = places[1] = 1;
    std::vector<int64_t> outside(static_cast<size_t>(places.elements()), 0);
    for (size_t at = 0; at < outside.size(); ++at) {
      int64_t rest = static_cast<int64_t>(at);
      for (int d = places.rank - 1; d >= 2; rest /= places[d--]) {
        const int64_t i = rest % places[d], last = places[d] - after[static_cast<size_t>(d)];
        if (i < before[static_cast<size_t>(d)] || i >= last) outside[at] = 1;
      }
    }
    b_.FoldConstants(false);  // one byte for each position
    const NodeId around = b_.Mul(b_.Cast(b_.Ints(DType::kU8, places, outside), DType::kF32),
                                 b_.Cast(b_.Reshape(a.zero, Shape{}), DType::kF32));
    b_.FoldConstants(true);
    const NodeId padded = b_.Cast(b_.Add(b_.Cast(inside, DType::kF32), around), type);
    std::fill(attrs->pads_begin.begin(), attrs->pads_begin.end(), 0);
    std::fill(attrs->pads_end.begin(), attrs->pads_end.end(), 0);
    return padded;
  }

  const bool integers_, few_;
};

// Whether groups of few channels, which are faster as floats on the host, have so many weights that all
// weights together would grow by more than a tenth.
bool FewChannelsAreMany(const ir::Graph& graph) {
  int64_t all = 0, few = 0;
  for (NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (node.op == Op::kConstant) all += node.As<ir::ConstantAttrs>().data->byte_size();
    if (node.op != Op::kConv || node.As<ir::ConvAttrs>().groups == 1) continue;
    const Shape& weight = graph.node(node.inputs[1]).shape;
    if (weight[1] > 1 && weight[1] < kFewChannels) few += weight.elements();
  }
  return 10 * 3 * few > all;
}

}  // namespace

int64_t LowerToIntegers(Graph* graph, const TargetTraits& target) {
  const bool few = target.integer_epilogues && FewChannelsAreMany(*graph);
  const auto on_integers = [&](Match& m) {
    return Rewriter(graph, m.root(), target.integer_epilogues, few).Rewritten();
  };
  return Total(ApplyOnce(graph, {{Op::kMatMul, on_integers}, {Op::kConv, on_integers}}));
}

}  // namespace rondo::passes
