#include "compiler/ir/sizes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "compiler/ir/evaluate.h"
#include "core/scalar.h"

namespace rondo::ir {

Shape ExtentsOf(const Dims& dims) {
  Shape shape;
  for (const Size& dim : dims) shape.dims[shape.rank++] = dim.extent();
  return shape;
}

Sizes::Row Sizes::RowOf(NodeId id) const {
  if (const auto found = rows_.find(id); found != rows_.end()) return found->second;
  const Shape& shape = graph_->node(id).shape;
  return {shape.begin(), shape.end()};
}

void Sizes::SetRow(NodeId id, Row row) {
  const auto plain = [](const std::optional<Size>& dim) { return dim && dim->known(); };
  rows_.erase(id);
  if (!std::all_of(row.begin(), row.end(), plain)) rows_.emplace(id, std::move(row));
}

Size Sizes::Of(NodeId id, int d) const {
  const auto found = rows_.find(id);
  const Size extent = graph_->node(id).shape[d];
  return found == rows_.end() ? extent : found->second[static_cast<size_t>(d)].value_or(extent);
}

Dims Sizes::Of(NodeId id) const {
  Dims dims;
  for (int d = 0; d < graph_->node(id).shape.rank; ++d) dims.push_back(Of(id, d));
  return dims;
}

bool Sizes::AreKnown(NodeId id) const {
  const Dims dims = Of(id);
  return std::all_of(dims.begin(), dims.end(), [](const Size& dim) { return dim.known(); });
}

bool Sizes::Are(NodeId id, const Dims& dims) const { return RowOf(id) == Row(dims.begin(), dims.end()); }

void Sizes::Set(NodeId id, const Dims& dims) { SetRow(id, Row(dims.begin(), dims.end())); }

void Sizes::Lose(NodeId id) {
  Dims dims;
  for (const int64_t extent : graph_->node(id).shape) dims.push_back(Size::Unknown(extent));
  Set(id, dims);
}

NodeId Sizes::NodeOf(const Size& size) const {
  const auto found = nodes_.find(size);
  return found == nodes_.end() || graph_->node(found->second).dead ? kNoNode : found->second;
}

void Sizes::SetNode(const Size& size, NodeId node) {
  const auto lost = [](const auto& entry) {
    const std::optional<Dims>& numbers = entry.second;
    return !numbers ||
           std::any_of(numbers->begin(), numbers->end(), [](const Size& x) { return x.unknown(); });
  };
  // Numbers computed from the new name may be known now.
  if (size.terms().size() == 1 && size.names().size() == 1) std::erase_if(numbers_, lost);
  nodes_[size] = node;
  numbers_[node] = Dims{size};
  const NodeId base = graph_->BaseOf(node);  // other views of the base show it too
  if (graph_->node(base).shape.elements() == 1) numbers_[base] = Dims{size};
}

// -------------------------------------------------------------------------------------------- dims

namespace {

// The dim of two operands that agree. A model may have the number 5 beside min(5, total), which assumes that
// the total is no less. Other numbers beside a size come from a handler that used an extent.
Size Together(const Size& a, const Size& b) {
  const auto is_least = [](const Size& least, const Size& number) {
    return number.known() && !least.unknown() && !least.is_sum() && Min(least, number) == least;
  };
  if (a == b || is_least(a, b)) return a;
  return is_least(b, a) ? b : Size::Unknown(std::max(a.extent(), b.extent()));
}

}  // namespace

Dims Sizes::Merged(const std::vector<NodeId>& xs, const Shape& shape) const {
  Row out(static_cast<size_t>(shape.rank));
  for (const NodeId x : xs) {
    const Row row = RowOf(x);
    const Shape& from = graph_->node(x).shape;
    const int before = shape.rank - from.rank;
    for (int d = 0; d < from.rank; ++d) {
      const std::optional<Size>& one = row[static_cast<size_t>(d)];
      std::optional<Size>& all = out[static_cast<size_t>(before + d)];
      if (!one || (from[d] == 1 && shape[before + d] != 1)) continue;
      all = all ? Together(*all, *one) : *one;
    }
  }
  Dims dims;
  for (int d = 0; d < shape.rank; ++d) dims.push_back(out[static_cast<size_t>(d)].value_or(shape[d]));
  return dims;
}

// The dims of a convolution or pool. If one window covers all positions, the dim is 1.
template <typename A>
Dims Sizes::Windows(const Node& node, const A& attrs, const Shape& window) const {
  Dims dims = Of(node.inputs[0]);
  if (std::is_same_v<A, ConvAttrs>) dims[1] = node.shape[1];
  for (size_t i = 0; i + 2 < dims.size(); ++i) {
    Size& dim = dims[i + 2];
    const int64_t reach = attrs.dilations[i] * (window[static_cast<int>(i) + 2] - 1) + 1;
    const int64_t pads = attrs.pads_begin[i] + attrs.pads_end[i];
    const bool all = !dim.known() && reach == dim.extent() && pads == 0;
    dim = all ? Size(1) : FloorDiv(dim + (pads - reach + attrs.strides[i]), attrs.strides[i]);
  }
  return dims;
}

Dims Sizes::After(const Node& node) const {
  Dims dims(node.shape.begin(), node.shape.end());
  const auto known = [&](NodeId in) { return rows_.count(in) == 0; };
  if (std::all_of(node.inputs.begin(), node.inputs.end(), known)) return dims;
  const auto of = [&](size_t input, int d) { return Of(node.inputs[input], d); };
  switch (node.op) {
    case Op::kPointwise: return Merged(node.inputs, node.shape);
    case Op::kReduce:
      dims = Of(node.inputs[0]);
      for (const int axis : node.As<ReduceAttrs>().axes) dims[static_cast<size_t>(axis)] = 1;
      return dims;
    case Op::kMatMul: {
      const int m = node.shape.rank - 2, n = node.shape.rank - 1;
      dims = Merged(node.inputs, node.shape);
      const bool fits = of(0, n) == of(1, m);
      dims[static_cast<size_t>(m)] = fits ? of(0, m) : Size::Unknown(node.shape[m]);
      dims[static_cast<size_t>(n)] = of(1, n);
      return dims;
    }
    case Op::kConcat: {
      const auto axis = static_cast<size_t>(node.As<ConcatAttrs>().axis);
      dims = Of(node.inputs[0]);
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        const Dims more = Of(node.inputs[i]);
        for (size_t d = 0; d < dims.size(); ++d)
          dims[d] = d == axis ? dims[d] + more[d] : Together(dims[d], more[d]);
      }
      return dims;
    }
    case Op::kConv:
      if (rows_.count(node.inputs[1]) != 0) break;
      return Windows(node, node.As<ConvAttrs>(), graph_->node(node.inputs[1]).shape);
    case Op::kPool: {
      const PoolAttrs& pool = node.As<PoolAttrs>();
      Shape window = node.shape;  // in the weights' layout
      std::copy(pool.kernel.begin(), pool.kernel.end(), window.dims + 2);
      return Windows(node, pool, window);
    }
    case Op::kIndexedWrite: return Of(node.inputs[0]);
    case Op::kTopK:
      dims = Of(node.inputs[0]);
      dims.back() = node.shape[node.shape.rank - 1];
      return dims;
    case Op::kAttention: {
      const AttentionInputs in = AttentionInputsOf(node);
      Size keys = Together(Of(in.k, 2), Of(in.v, 2));
      if (in.mask != kNoNode && RowOf(in.mask)[3]) keys = Together(keys, Of(in.mask, 3));
      dims = Of(in.q);
      dims[3] = keys.unknown() ? Size::Unknown(node.shape[3]) : Of(in.v, 3);
      return dims;
    }
    case Op::kIndexedRead:
      if (known(node.inputs[0])) return Merged({node.inputs.begin() + 1, node.inputs.end()}, node.shape);
      break;
    default: break;
  }
  for (Size& dim : dims) dim = Size::Unknown(dim.extent());
  return dims;
}

void Sizes::Transposed(NodeId id, NodeId x, const std::vector<int>& perm) {
  const Row row = RowOf(x);
  Row out;
  for (const int d : perm) out.push_back(row[static_cast<size_t>(d)]);
  SetRow(id, std::move(out));
}

void Sizes::Sliced(NodeId id, NodeId x, int axis, int64_t start, int64_t step) {
  Row row = RowOf(x);
  const int64_t count = graph_->node(id).shape[axis];
  std::optional<Size>& dim = row[static_cast<size_t>(axis)];
  const bool all = start == 0 && step == 1 && count == graph_->node(x).shape[axis];
  if (!all) dim = !dim || dim->known() ? Size(count) : Size::Unknown(count);
  SetRow(id, std::move(row));
}

void Sizes::Expanded(NodeId id, NodeId x) {
  const Shape &from = graph_->node(x).shape, &to = graph_->node(id).shape;
  const Row row = RowOf(x);
  Row out;
  for (int d = 0; d < to.rank; ++d) {
    const int at = d - (to.rank - from.rank);
    const bool repeats = (at < 0 ? 1 : from[at]) != to[d];
    out.push_back(repeats ? std::nullopt : at < 0 ? Size(1) : row[static_cast<size_t>(at)]);
  }
  SetRow(id, std::move(out));
}

// Walks both shapes in groups of dims with equal numbers of elements. In a group the sizes have the same
// product, so all but one of the new dims are known.
void Sizes::Reshaped(NodeId id, NodeId x) {
  const Shape &from = graph_->node(x).shape, &to = graph_->node(id).shape;
  const Dims sizes = Of(x);
  Row out(to.begin(), to.end());
  int a = 0, b = 0;
  const auto skip_ones = [](const Shape& shape, int* d) {
    while (*d < shape.rank && shape[*d] == 1) ++*d;
  };
  for (skip_ones(from, &a), skip_ones(to, &b); a < from.rank && b < to.rank;
       skip_ones(from, &a), skip_ones(to, &b)) {
    const int first = b;
    int64_t in = from[a], made = to[b++];
    Size product = sizes[static_cast<size_t>(a++)];
    while (in != made && (made < in ? b < to.rank : a < from.rank)) {
      if (made < in) {
        made *= to[b++];
      } else {
        in *= from[a];
        product = product * sizes[static_cast<size_t>(a++)];
      }
    }
    if (product.known()) continue;
    int fitting = 0;
    for (int d = first; d < b; ++d) {
      const std::optional<Size> rest = Size::Divide(product, made / to[d]);
      if (to[d] == 1 || !rest || rest->extent() != to[d]) continue;
      out[static_cast<size_t>(d)] = *rest;
      ++fitting;
    }
    for (int d = first; fitting != 1 && d < b; ++d) out[static_cast<size_t>(d)] = Size::Unknown(to[d]);
  }
  // If a dim of extent 1 has a symbolic size, its place in the new shape is unclear.
  for (int d = 0; d < from.rank; ++d) {
    if (from[d] == 1 && !sizes[static_cast<size_t>(d)].known()) return Lose(id);
  }
  SetRow(id, std::move(out));
}

// ----------------------------------------------------------------------------------------- numbers

namespace {

constexpr int64_t kMostNumbers = 64;

// The extent of numbers that are not known as sizes; nothing reads it.
const int64_t kNoExtent = 0;

Size Truth(bool always, bool never) { return always ? Size(1) : never ? Size(0) : Size::Unknown(kNoExtent); }

bool Holds(DType dtype, const Size& x) {
  const int64_t most = dtype == DType::kI64   ? std::numeric_limits<int64_t>::max()
                       : dtype == DType::kI32 ? std::numeric_limits<int32_t>::max()
                       : dtype == DType::kF64 ? int64_t{1} << 53
                       : dtype == DType::kF32 ? int64_t{1} << 24
                                              : 255;
  const bool is_unsigned = dtype == DType::kU8 || dtype == DType::kU32 || dtype == DType::kU64;
  return x.most() <= most &&
         x.least() >= (is_unsigned   ? 0
                       : most == 255 ? -128
                                     : -most) &&
         (dtype != DType::kI8 || x.most() <= 127);
}

Size Scalar(const Node& node, const std::vector<Size>& x) {
  const TapeOp op = node.As<PointwiseAttrs>().op;
  const bool floats = IsFloat(node.dtype);
  const Size lost = Size::Unknown(kNoExtent);
  switch (op) {
    case TapeOp::kSelect:
      if (x[0].known()) return *x[0].value() != 0 ? x[1] : x[2];
      return x[1] == x[2] ? x[1] : lost;
    case TapeOp::kCast:
      if (node.dtype != DType::kBool) return Holds(node.dtype, x[0]) ? x[0] : lost;
      return Truth(x[0].least() > 0 || x[0].most() < 0, x[0] == Size(0));
    case TapeOp::kFloor:
    case TapeOp::kCeil:
    case TapeOp::kRound:
    case TapeOp::kTrunc: return x[0];
    case TapeOp::kNeg: return Size(0) - x[0];
    case TapeOp::kAbs: return Max(x[0], Size(0) - x[0]);
    case TapeOp::kNot: return Truth(x[0] == Size(0), x[0] == Size(1));
    case TapeOp::kAdd: return x[0] + x[1];
    case TapeOp::kSub: return x[0] - x[1];
    case TapeOp::kMul: return x[0] * x[1];
    case TapeOp::kMin: return Min(x[0], x[1]);
    case TapeOp::kMax: return Max(x[0], x[1]);
    case TapeOp::kDiv:
      if (floats) return Size::Divide(x[0], x[1]).value_or(lost);
      return x[0].least() >= 0 ? FloorDiv(x[0], x[1]) : lost;
    case TapeOp::kMod: return floats || x[0].least() < 0 ? lost : Mod(x[0], x[1]);
    case TapeOp::kBitAnd:
    case TapeOp::kBitOr: {
      if (node.dtype != DType::kBool || !x[0].known() || !x[1].known()) return lost;
      const bool a = *x[0].value() != 0, b = *x[1].value() != 0;
      return op == TapeOp::kBitAnd ? (a && b ? 1 : 0) : (a || b ? 1 : 0);
    }
    case TapeOp::kEqual:
    case TapeOp::kLess:
    case TapeOp::kLessEqual: {
      const Size apart = x[1] - x[0];
      const int64_t least = apart.least(), most = apart.most();
      if (op == TapeOp::kEqual) return Truth(least == 0 && most == 0, least > 0 || most < 0);
      if (op == TapeOp::kLess) return Truth(least > 0, most <= 0);
      return Truth(least >= 0, most < 0);
    }
    default: return lost;
  }
}

// By element of the node's result: the number of the input element that it copies. Evaluates the node over
// the elements' numbers. None if the node computes new elements.
std::optional<std::vector<int64_t>> Moved(const Graph& graph, const Node& node) {
  Values inputs;
  int64_t first = 0;
  const size_t moved = node.op == Op::kView || node.op == Op::kIndexedRead ? 1
                       : node.op == Op::kIndexedWrite                      ? 2
                       : node.op == Op::kConcat                            ? node.inputs.size()
                                                                           : 0;
  if (moved == 0) return std::nullopt;
  if (node.op == Op::kIndexedWrite && node.As<IndexedAttrs>().combine != ScatterCombine::kNone)
    return std::nullopt;
  Node numbered = node;
  numbered.dtype = DType::kI64;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Node& in = graph.node(node.inputs[i]);
    if (i < moved) {
      std::vector<int64_t> places(static_cast<size_t>(in.shape.elements()));
      std::iota(places.begin(), places.end(), first);
      first += in.shape.elements();
      const auto* bytes = reinterpret_cast<const uint8_t*>(places.data());
      inputs.push_back(ConstantData::Own(DType::kI64, in.shape, {bytes, bytes + places.size() * 8}));
      continue;
    }
    const NodeId base = graph.BaseOf(in.id);
    if (!graph.IsConstant(base)) return std::nullopt;
    std::shared_ptr<const ConstantData> value = graph.node(base).As<ConstantAttrs>().data;
    if (in.op == Op::kView) {
      auto shown = EvaluateNode(in, {value});
      if (!shown.ok()) return std::nullopt;
      value = shown.Take();
    }
    inputs.push_back(std::move(value));
  }
  const auto made = EvaluateNode(numbered, inputs);
  if (!made.ok()) return std::nullopt;
  std::vector<int64_t> from;
  for (int64_t i = 0; i < node.shape.elements(); ++i)
    from.push_back(scalar::Load<int64_t>(DType::kI64, (*made)->bytes.data(), i));
  return from;
}

}  // namespace

std::optional<Dims> Sizes::Numbers(NodeId id) {
  const auto found = numbers_.find(id);
  if (found != numbers_.end()) return found->second;
  const bool few = graph_->node(id).shape.elements() <= kMostNumbers && AreKnown(id);
  return numbers_[id] = few ? Compute(id) : std::nullopt;
}

std::optional<Dims> Sizes::Compute(NodeId id) {
  const Node& node = graph_->node(id);
  const auto count = static_cast<size_t>(node.shape.elements());
  if (node.op == Op::kConstant) {
    const ConstantData& data = *node.As<ConstantAttrs>().data;
    if (data.synthetic) return std::nullopt;
    Dims numbers;
    for (size_t i = 0; i < count; ++i) {
      const auto at = static_cast<int64_t>(i);
      const auto real = scalar::Load<double>(data.dtype, data.bytes.data(), at);
      const bool whole = real == std::floor(real) && std::abs(real) <= 0x1p53;
      if (IsFloat(data.dtype)) {
        numbers.push_back(whole ? Size(static_cast<int64_t>(real)) : Size::Unknown(kNoExtent));
      } else {
        numbers.push_back(scalar::Load<int64_t>(data.dtype, data.bytes.data(), at));
      }
    }
    return numbers;
  }
  std::vector<Dims> inputs;
  Dims all;
  for (const NodeId in : node.inputs) {
    std::optional<Dims> numbers = Numbers(in);
    const int64_t number = graph_->node(in).shape.elements();
    if (!numbers && number > kMostNumbers) return std::nullopt;
    if (!numbers) numbers = Dims(static_cast<size_t>(number), Size::Unknown(kNoExtent));
    all.insert(all.end(), numbers->begin(), numbers->end());
    inputs.push_back(std::move(*numbers));
  }
  if (inputs.empty()) return std::nullopt;
  Dims out;
  if (node.op == Op::kPointwise) {
    for (size_t i = 0; i < count; ++i) {
      std::vector<Size> operands;
      for (const Dims& input : inputs) operands.push_back(input[i]);
      out.push_back(Scalar(node, operands));
    }
    return out;
  }
  if (node.op == Op::kReduce && count == 1) {
    const ReduceKind kind = node.As<ReduceAttrs>().kind;
    Size total = inputs[0][0];
    for (size_t i = 1; i < inputs[0].size(); ++i) {
      const Size& x = inputs[0][i];
      total = kind == ReduceKind::kSum    ? total + x
              : kind == ReduceKind::kProd ? total * x
              : kind == ReduceKind::kMin  ? Min(total, x)
              : kind == ReduceKind::kMax  ? Max(total, x)
                                          : Size::Unknown(kNoExtent);
    }
    const bool arg = kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin;
    return Dims{arg ? Size::Unknown(kNoExtent) : total};
  }
  const std::optional<std::vector<int64_t>> from = Moved(*graph_, node);
  if (!from) return std::nullopt;
  for (const int64_t at : *from) out.push_back(all[static_cast<size_t>(at)]);
  return out;
}

}  // namespace rondo::ir
