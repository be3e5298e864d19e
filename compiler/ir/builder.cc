#include "compiler/ir/builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/number_range.h"
#include "compiler/ir/unsigned.h"
#include "compiler/ir/walk.h"
#include "core/collective.h"
#include "core/element.h"
#include "core/scalar.h"

namespace rondo::ir {

namespace {

bool GivesBool(TapeOp op) { return GivesTruth(ClassOf(op)); }

template <typename T>
std::vector<uint8_t> Bytes(DType dtype, const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(ByteSize(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    if (NaturalType(dtype) == TapeType::kI64) {
      scalar::Store(dtype, bytes.data(), at, static_cast<int64_t>(values[i]));
    } else {
      scalar::Store(dtype, bytes.data(), at, static_cast<double>(values[i]));
    }
  }
  return bytes;
}

// The type of sums of products: i32 for 8-bit integers, where sums are exact, and f32 for FP8.
DType SumType(DType t) {
  return t == DType::kI8 || t == DType::kU8 ? DType::kI32 : IsFp8(t) ? DType::kF32 : t;
}

// `shape` with dim `axis` replaced by the dims of `with`.
Shape Spliced(const Shape& shape, int axis, const Shape& with) {
  Shape out;
  for (int d = 0; d < axis; ++d) out.dims[out.rank++] = shape[d];
  for (int64_t d : with) out.dims[out.rank++] = d;
  for (int d = axis + 1; d < shape.rank; ++d) out.dims[out.rank++] = shape[d];
  return out;
}

}  // namespace

bool BroadcastShapes(const Shape& a, const Shape& b, Shape* out) {
  Shape s;
  s.rank = std::max(a.rank, b.rank);
  for (int d = 0; d < s.rank; ++d) {
    int64_t x = d < s.rank - a.rank ? 1 : a[d - (s.rank - a.rank)];
    int64_t y = d < s.rank - b.rank ? 1 : b[d - (s.rank - b.rank)];
    if (x != y && x != 1 && y != 1) return false;
    s[d] = x == 1 ? y : x;
  }
  *out = s;
  return true;
}

NodeId Builder::Finish(Op op, DType dtype, const Shape& shape, Attrs attrs, std::vector<NodeId> inputs) {
  Node node;
  node.op = op;
  node.dtype = dtype;
  node.shape = shape;
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  node.sources = sources_;
  node.annotations = annotations_;
  bool fold = fold_ && op != Op::kInput && op != Op::kConstant && op != Op::kView && op != Op::kIota &&
              !node.inputs.empty() && shape.elements() * ByteSize(dtype) <= kFoldBytes;
  // Values whose dims are symbolic can only be computed at run time.
  const auto known = [&](NodeId in) { return sizes_ == nullptr || sizes_->AreKnown(in); };
  fold = fold && (op == Op::kPointwise || std::all_of(node.inputs.begin(), node.inputs.end(), known));
  Values values;
  for (size_t i = 0; fold && i < node.inputs.size(); ++i) {
    std::shared_ptr<const ConstantData> value;
    fold = ConstantValue(node.inputs[i], kFoldBytes * 4, &value);
    values.push_back(std::move(value));
  }
  const Dims sizes = sizes_ == nullptr ? Dims() : sizes_->After(node);
  NodeId id = kNoNode;
  if (fold && SpendOnFolding(*graph_, node, shape.elements() * ByteSize(dtype))) {
    // A value that cannot be computed now (an index out of range) is left to the run, which reports it.
    Result<std::shared_ptr<const ConstantData>> value = EvaluateNode(node, values);
    if (value.ok()) id = Constant(value.Take());
  }
  if (id == kNoNode) id = graph_->Add(std::move(node));
  if (sizes_ != nullptr) sizes_->Set(id, sizes);
  return id;
}

bool Builder::ConstantValue(NodeId id, int64_t most_bytes, std::shared_ptr<const ConstantData>* value) const {
  const Node& node = graph_->node(id);
  const Node& base = graph_->node(graph_->BaseOf(id));
  if (base.op != Op::kConstant || base.As<ConstantAttrs>().data->synthetic) return false;
  if (node.shape.elements() * ByteSize(node.dtype) > most_bytes) return false;
  *value = base.As<ConstantAttrs>().data;
  if (node.op != Op::kView) return true;
  if (!SpendOnFolding(*graph_, node, 0)) return false;
  Result<std::shared_ptr<const ConstantData>> shown = EvaluateNode(node, {*value});
  if (shown.ok()) *value = shown.Take();
  return shown.ok();
}

NodeId Builder::Input(const std::string& name, DType dtype, const Shape& shape) {
  InputAttrs attrs{static_cast<int>(graph_->inputs.size())};
  NodeId id = Finish(Op::kInput, dtype, shape, attrs, {});
  graph_->node(id).name = name;
  graph_->inputs.push_back({name, id});
  return id;
}

NodeId Builder::Constant(std::shared_ptr<const ConstantData> data) {
  DType dtype = data->dtype;
  Shape shape = data->shape;
  return Finish(Op::kConstant, dtype, shape, ConstantAttrs{std::move(data)}, {});
}

NodeId Builder::Scalar(DType dtype, double value) { return Floats(dtype, Shape(), {value}); }

NodeId Builder::I64(const std::vector<int64_t>& values) {
  return Ints(DType::kI64, Shape({static_cast<int64_t>(values.size())}), values);
}

NodeId Builder::Floats(DType dtype, const Shape& shape, const std::vector<double>& values) {
  return Constant(ConstantData::Own(dtype, shape, Bytes(dtype, values)));
}

NodeId Builder::Ints(DType dtype, const Shape& shape, const std::vector<int64_t>& values) {
  return Constant(ConstantData::Own(dtype, shape, Bytes(dtype, values)));
}

// ---------------------------------------------------------------------------------------- sizes

Dims Builder::SizesOf(NodeId x) const {
  if (Follows()) return sizes_->Of(x);
  return Dims(shape(x).begin(), shape(x).end());
}

NodeId Builder::WithSizes(NodeId x, const Dims& dims) {
  if (!Follows() || sizes_->Are(x, dims)) return x;
  const NodeId view =
      Finish(Op::kView, dtype(x), shape(x), ViewAttrs{graph_->ViewOf(x)}, {graph_->BaseOf(x)});
  sizes_->Set(view, dims);
  return view;
}

std::optional<Dims> Builder::Numbers(NodeId x) const {
  return sizes_ == nullptr ? std::nullopt : sizes_->Numbers(x);
}

NodeId Builder::Number(const Size& size) {
  if (size.known() || size.unknown()) return Ints(DType::kI64, Shape(), {size.extent()});
  if (const NodeId known = sizes_->NodeOf(size); known != kNoNode) return known;
  std::vector<std::string> sources = {sizes_->cause};
  std::map<std::string, std::string> annotations;
  std::swap(sources, sources_);
  std::swap(annotations, annotations_);
  NodeId sum = kNoNode;
  for (auto term = size.terms().rbegin(); term != size.terms().rend(); ++term) {
    const auto times = static_cast<double>(term->factor);
    NodeId product = kNoNode;
    for (const auto& atom : term->product) {
      const NodeId factor = Number(atom);
      product = product == kNoNode ? factor : Mul(product, factor);
    }
    if (product == kNoNode) {  // the constant term, which is last
      sum = BinaryScalar(TapeOp::kAdd, sum, times);
      continue;
    }
    if (term->factor != 1) product = BinaryScalar(TapeOp::kMul, product, times);
    sum = sum == kNoNode ? product : Add(sum, product);
  }
  std::swap(sources, sources_);
  std::swap(annotations, annotations_);
  sizes_->SetNode(size, sum);
  return sum;
}

NodeId Builder::Number(const std::shared_ptr<const Size::Atom>& atom) {
  switch (atom->kind) {
    case Size::Atom::kName: return sizes_->NodeOf(Size::Of(atom));
    case Size::Atom::kMinZero: return BinaryScalar(TapeOp::kMin, Number(atom->of[0]), 0);
    case Size::Atom::kFloorDiv: break;
  }
  const NodeId a = Number(atom->of[0]), b = Number(atom->of[1]);
  return Div(Sub(a, Binary(TapeOp::kMod, a, b)), b);
}

// ------------------------------------------------------------------------------------- movement

NodeId Builder::ViewNode(NodeId x, const View& view) {
  NodeId base = graph_->BaseOf(x);
  View shown = base == x ? view : Compose(graph_->ViewOf(x), view);
  const Node& node = graph_->node(base);
  const bool same = shown.shape() == node.shape && IsDense(shown, node.shape.elements());
  if (!Follows() && same) return base;
  if (shown == graph_->ViewOf(x)) return x;
  const NodeId id = Finish(Op::kView, node.dtype, shown.shape(), ViewAttrs{shown}, {base});
  if (sizes_ != nullptr && !sizes_->AreKnown(x)) sizes_->Lose(id);
  return id;
}

NodeId Builder::Reshape(NodeId x, const Shape& shape) {
  const NodeId next = graph_->size(), y = ViewNode(x, DenseView(shape));
  if (sizes_ != nullptr && y >= next) sizes_->Reshaped(y, x);
  return y;
}

NodeId Builder::Transpose(NodeId x, const std::vector<int>& perm) {
  const NodeId next = graph_->size(), y = ViewNode(x, ir::Transpose(DenseView(shape(x)), perm));
  if (sizes_ != nullptr && y >= next) sizes_->Transposed(y, x, perm);
  if (y >= next || !Follows()) return y;
  Dims dims;
  for (const int d : perm) dims.push_back(SizeOf(x, d));
  return WithSizes(x, dims);
}

NodeId Builder::Slice(NodeId x, int axis, int64_t start, int64_t step, int64_t count) {
  const NodeId next = graph_->size(),
               y = ViewNode(x, ir::Slice(DenseView(shape(x)), axis, start, step, count));
  if (sizes_ != nullptr && y >= next) sizes_->Sliced(y, x, axis, start, step);
  return y;
}

NodeId Builder::Expand(NodeId x, const Shape& to) {
  const NodeId next = graph_->size(), y = ViewNode(x, ir::Expand(DenseView(shape(x)), to));
  if (sizes_ != nullptr && y >= next) sizes_->Expanded(y, x);
  return y;
}

NodeId Builder::Unsqueeze(NodeId x, int axis) {
  Shape s = shape(x);
  for (int d = s.rank; d > axis; --d) s[d] = s[d - 1];
  s[axis] = 1;
  ++s.rank;
  return Reshape(x, s);
}

NodeId Builder::Squeeze(NodeId x, int axis) { return Reshape(x, Spliced(shape(x), axis, Shape())); }

// ------------------------------------------------------------------------------------ pointwise

NodeId Builder::Pointwise(const PointwiseAttrs& attrs, DType dtype, std::vector<NodeId> xs) {
  if (this->dtype(xs[0]) == DType::kU64) {
    const NodeId made = UnsignedPointwise(*this, attrs.op, dtype, xs);
    if (made != kNoNode) return made;
  }
  Shape s = shape(xs[0]);
  for (NodeId x : xs) BroadcastShapes(s, shape(x), &s);
  const Dims sizes = sizes_ == nullptr ? Dims() : sizes_->Merged(xs, s);
  // Constants are combined before they are broadcast, so that the broadcast stays a view.
  Shape kept;
  bool constant = s.elements() > 0;
  for (NodeId x : xs) {
    constant = constant && graph_->IsConstant(graph_->BaseOf(x));
    BroadcastShapes(kept, shape(x), &kept);
  }
  if (constant) {
    std::vector<View> views;
    for (NodeId& x : xs) views.push_back(graph_->ViewOf(x = Expand(x, s)));
    for (int d = 0; d < s.rank; ++d) {
      bool repeated = std::all_of(views.begin(), views.end(),
                                  [&](const View& v) { return v.steps.back().strides[d] == 0; });
      if (!repeated || s[d] == 1) continue;
      for (NodeId& x : xs) x = Slice(x, d, 0, 1, 1);
    }
    NodeId small = Finish(Op::kPointwise, dtype, shape(xs[0]), attrs, xs);
    return WithSizes(Expand(small, s), sizes);
  }
  for (NodeId& x : xs) x = Expand(x, s);
  return Finish(Op::kPointwise, dtype, s, attrs, std::move(xs));
}

NodeId Builder::Unary(TapeOp op, NodeId x, int64_t immediate) {
  return Pointwise({op, immediate}, GivesBool(op) ? DType::kBool : dtype(x), {x});
}

NodeId Builder::AssertFinite(NodeId x, int64_t number) {
  if (faults_where_ != kNoNode) x = Select(faults_where_, x, Scalar(dtype(x), 0));
  return Unary(TapeOp::kAssertFinite, x, number);
}

NodeId Builder::Binary(TapeOp op, NodeId a, NodeId b) {
  return Pointwise({op, 0}, GivesBool(op) ? DType::kBool : dtype(a), {a, b});
}

NodeId Builder::Select(NodeId condition, NodeId a, NodeId b) {
  return Pointwise({TapeOp::kSelect, 0}, dtype(a), {condition, a, b});
}

NodeId Builder::Cast(NodeId x, DType to) {
  return dtype(x) == to ? x : Pointwise({TapeOp::kCast, 0}, to, {x});
}

NodeId Builder::BinaryScalar(TapeOp op, NodeId x, double value) {
  return Binary(op, x, Scalar(dtype(x), value));
}

NodeId Builder::Iota(const Shape& s, int axis) {
  NodeId line = Finish(Op::kIota, DType::kI64, Shape({s[axis]}), IotaAttrs{0}, {});
  Shape ones;
  ones.rank = s.rank - axis;
  std::fill(ones.dims, ones.dims + ones.rank, 1);
  ones[0] = s[axis];
  return Expand(Reshape(line, ones), s);
}

// ----------------------------------------------------------------------------------- the others

NodeId Builder::Reduce(ReduceKind kind, NodeId x, std::vector<int> axes, bool keep, bool last_index) {
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  Shape reduced = shape(x), dropped;
  for (int axis : axes) reduced[axis] = 1;
  for (int d = 0; d < reduced.rank; ++d) {
    if (!std::binary_search(axes.begin(), axes.end(), d)) dropped.dims[dropped.rank++] = reduced[d];
  }
  bool arg = kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin;
  const bool extreme = kind == ReduceKind::kMax || kind == ReduceKind::kMin;
  if (dtype(x) == DType::kU64 && (arg || extreme)) {
    const NodeId made = Reduce(kind, ToSignedOrder(*this, x), std::move(axes), keep, last_index);
    return arg ? made : FromSignedOrder(*this, made);
  }
  DType type = arg ? DType::kI64 : dtype(x);
  NodeId out =
      axes.empty() ? x : Finish(Op::kReduce, type, reduced, ReduceAttrs{kind, axes, last_index}, {x});
  return keep ? out : Reshape(out, dropped);
}

NodeId Builder::Mean(NodeId x, std::vector<int> axes, bool keep) {
  DType type = dtype(x);
  Size count = 1;
  for (int axis : axes) count = count * SizeOf(x, axis);
  // The sum of a long row of f16 overflows its range, so the sum stays in f32 until the division.
  bool widen = Is16BitFloat(type);
  NodeId sum = Reduce(ReduceKind::kSum, widen ? Cast(x, DType::kF32) : x, std::move(axes), keep);
  NodeId mean = count.known() ? BinaryScalar(TapeOp::kDiv, sum, static_cast<double>(*count.value()))
                              : Div(sum, Cast(Number(count), dtype(sum)));
  return widen ? Cast(mean, type) : mean;
}

NodeId Builder::MatMul(NodeId a, NodeId b) {
  bool vector_a = shape(a).rank == 1, vector_b = shape(b).rank == 1;
  if (vector_a) a = Unsqueeze(a, 0);
  if (vector_b) b = Unsqueeze(b, 1);
  auto batch = [](const Shape& s) {
    return Shape(Span<const int64_t>(s.dims, static_cast<size_t>(s.rank - 2)));
  };
  auto with = [](Shape s, int64_t m, int64_t n) {
    s.dims[s.rank++] = m;
    s.dims[s.rank++] = n;
    return s;
  };
  Shape as = shape(a), bs = shape(b), common;
  BroadcastShapes(batch(as), batch(bs), &common);
  int64_t m = as[as.rank - 2], k = as[as.rank - 1], n = bs[bs.rank - 1];
  a = Expand(a, with(common, m, k));
  b = Expand(b, with(common, k, n));
  NodeId out = Finish(Op::kMatMul, SumType(dtype(a)), with(common, m, n), std::monostate(), {a, b});
  if (vector_b) out = Squeeze(out, shape(out).rank - 1);
  if (vector_a) out = Squeeze(out, shape(out).rank - (vector_b ? 1 : 2));
  return out;
}

NodeId Builder::Conv(NodeId x, NodeId w, const ConvAttrs& attrs) {
  Shape out = shape(x);
  const Shape ws = shape(w);
  out[1] = ws[0];
  for (int d = 2; d < out.rank; ++d) {
    size_t i = static_cast<size_t>(d - 2);
    int64_t reach = attrs.dilations[i] * (ws[d] - 1) + 1;
    out[d] = (out[d] + attrs.pads_begin[i] + attrs.pads_end[i] - reach) / attrs.strides[i] + 1;
  }
  return Finish(Op::kConv, SumType(dtype(x)), out, attrs, {x, w});
}

NodeId Builder::Pool(NodeId x, const PoolAttrs& attrs) {
  Shape out = shape(x);
  for (int d = 2; d < out.rank; ++d) {
    size_t i = static_cast<size_t>(d - 2);
    int64_t reach = attrs.dilations[i] * (attrs.kernel[i] - 1) + 1;
    out[d] = (out[d] + attrs.pads_begin[i] + attrs.pads_end[i] - reach) / attrs.strides[i] + 1;
  }
  return Finish(Op::kPool, dtype(x), out, attrs, {x});
}

NodeId Builder::TopK(NodeId x, int64_t k, bool largest) {
  Shape out = shape(x);
  out[out.rank - 1] = k;
  return Finish(Op::kTopK, DType::kI64, out,
                ReduceAttrs{largest ? ReduceKind::kMax : ReduceKind::kMin, {out.rank - 1}}, {x});
}

NodeId Builder::Concat(const std::vector<NodeId>& xs, int axis) {
  if (xs.size() == 1) return xs[0];
  Shape s = shape(xs[0]);
  s[axis] = 0;
  for (NodeId x : xs) s[axis] += shape(x)[axis];
  return Finish(Op::kConcat, dtype(xs[0]), s, ConcatAttrs{axis}, xs);
}

NodeId Builder::FromStart(NodeId index, const Size& size) {
  std::vector<int64_t> values;
  const auto negative = [](int64_t value) { return value < 0; };
  if (size.known() || (ConstantInts(index, &values) && std::none_of(values.begin(), values.end(), negative)))
    return index;
  const NodeId place = Cast(index, DType::kI64);
  return Select(BinaryScalar(TapeOp::kLess, place, 0), Add(place, Number(size)), place);
}

NodeId Builder::Gather(NodeId data, NodeId index, int axis, bool wrap) {
  const Shape ds = shape(data), is = shape(index);
  const Shape out = Spliced(ds, axis, is);
  Dims sizes = SizesOf(data);
  const Dims places = SizesOf(index);
  if (wrap) index = FromStart(index, sizes[static_cast<size_t>(axis)]);
  wrap = wrap && sizes[static_cast<size_t>(axis)].known();
  sizes.erase(sizes.begin() + axis);
  sizes.insert(sizes.begin() + axis, places.begin(), places.end());
  std::vector<int64_t> values;
  if (is.elements() <= 4096 && is.elements() > 0 && ConstantInts(index, &values)) {
    // Constant indices in an arithmetic progression make a slice.
    bool inside = true;
    for (int64_t& v : values) {
      if (wrap && v < 0) v += ds[axis];
      inside = inside && v >= 0 && v < ds[axis];
    }
    bool fits = inside;
    int64_t step = values.size() > 1 ? values[1] - values[0] : 1;
    for (size_t i = 1; i < values.size(); ++i) fits = fits && values[i] - values[i - 1] == step;
    if (fits)
      return WithSizes(Reshape(Slice(data, axis, values[0], step, static_cast<int64_t>(values.size())), out),
                       sizes);
    // Shorter indices are fewer bytes, and GPUs read them as vectors.
    if (inside && ds[axis] <= INT32_MAX) index = Ints(DType::kI32, is, values);
  }
  // A map over [before..., index..., after...]: dense strides of data, and stride 0 along the index's dims.
  View dense = DenseView(ds);
  IndexedAttrs attrs;
  attrs.map = DenseView(out);
  ViewStep& step = attrs.map.steps[0];
  for (int d = 0; d < out.rank; ++d) {
    bool before = d < axis, after = d >= axis + is.rank;
    step.strides[d] = before  ? dense.steps[0].strides[d]
                      : after ? dense.steps[0].strides[d - is.rank + 1]
                              : 0;
  }
  attrs.dims = {{dense.steps[0].strides[axis], ds[axis], wrap}};
  Shape aligned = out;
  for (int d = 0; d < out.rank; ++d) {
    if (d < axis || d >= axis + is.rank) aligned[d] = 1;
  }
  return IndexedRead(data, {Expand(Reshape(index, aligned), out)}, attrs, out, sizes);
}

bool Builder::AlwaysInside(NodeId index, const IndexedDim& dim) const {
  const auto least = static_cast<double>(dim.wrap ? -dim.extent : 0);
  const NumberRange range = RangeOf(*graph_, index);
  return range.least >= least && range.most < static_cast<double>(dim.extent);
}

NodeId Builder::Guarded(NodeId index, const IndexedDim& dim) {
  if (faults_where_ == kNoNode || !dim.fault || shape(index).elements() == 0) return index;
  // The select runs before the index is broadcast.
  const Shape whole = shape(index);
  const View view = graph_->ViewOf(index);
  for (int d = 0; d < whole.rank; ++d) {
    if (whole[d] > 1 && view.steps.back().strides[d] == 0) index = Slice(index, d, 0, 1, 1);
  }
  if (!AlwaysInside(index, dim)) index = Select(faults_where_, index, Scalar(dtype(index), 0));
  return Expand(index, whole);
}

NodeId Builder::IndexedRead(NodeId data, const std::vector<NodeId>& index, const IndexedAttrs& attrs,
                            const Shape& s, const Dims& sizes) {
  std::vector<NodeId> inputs = {data};
  for (size_t k = 0; k < index.size(); ++k) inputs.push_back(Expand(Guarded(index[k], attrs.dims[k]), s));
  const NodeId id = Finish(Op::kIndexedRead, dtype(data), s, attrs, std::move(inputs));
  if (Follows() && !sizes.empty()) sizes_->Set(id, sizes);
  return id;
}

NodeId Builder::IndexedWrite(NodeId data, NodeId updates, const std::vector<NodeId>& index,
                             const IndexedAttrs& attrs) {
  const bool extreme = attrs.combine == ScatterCombine::kMax || attrs.combine == ScatterCombine::kMin;
  if (extreme && dtype(data) == DType::kU64) {
    return FromSignedOrder(
        *this, IndexedWrite(ToSignedOrder(*this, data), ToSignedOrder(*this, updates), index, attrs));
  }
  std::vector<NodeId> inputs = {data, Expand(updates, attrs.map.shape())};
  for (size_t k = 0; k < index.size(); ++k)
    inputs.push_back(Expand(Guarded(index[k], attrs.dims[k]), attrs.map.shape()));
  return Finish(Op::kIndexedWrite, dtype(data), shape(data), attrs, std::move(inputs));
}

NodeId Builder::PadConstant(NodeId x, NodeId value, const std::vector<int64_t>& before,
                            const std::vector<int64_t>& after) {
  Shape s = shape(x);
  bool none = true;
  for (int d = 0; d < s.rank; ++d) {
    s[d] += before[static_cast<size_t>(d)] + after[static_cast<size_t>(d)];
    none = none && s[d] == shape(x)[d];
  }
  if (none) return x;
  IndexedAttrs attrs;
  attrs.may_collide = false;
  attrs.map = DenseView(s);
  for (int d = 0; d < s.rank; ++d) {
    attrs.map = ir::Slice(attrs.map, d, before[static_cast<size_t>(d)], 1, shape(x)[d]);
  }
  Dims sizes;
  for (int d = 0; d < s.rank; ++d)
    sizes.push_back(SizeOf(x, d) + before[static_cast<size_t>(d)] + after[static_cast<size_t>(d)]);
  return IndexedWrite(WithSizes(Expand(value, s), sizes), x, {}, attrs);
}

NodeId Builder::Attention(NodeId q, NodeId k, NodeId v, NodeId mask, NodeId limit,
                          const AttentionAttrs& given, NodeId sink) {
  AttentionAttrs attrs = given;
  const Shape qs = shape(q), ks = shape(k), vs = shape(v);
  std::vector<NodeId> inputs = {q, k, v};
  attrs.has_mask = mask != kNoNode;
  attrs.has_limit = limit != kNoNode;
  attrs.has_sink = sink != kNoNode;
  if (attrs.has_mask) inputs.push_back(Expand(mask, Shape({qs[0], qs[1], qs[2], ks[2]})));
  for (const NodeId each_row : {limit, sink}) {
    if (each_row != kNoNode) inputs.push_back(Expand(each_row, Shape({qs[0], qs[1], qs[2]})));
  }
  return Finish(Op::kAttention, dtype(q), Shape({qs[0], qs[1], qs[2], vs[3]}), attrs, std::move(inputs));
}

NodeId Builder::Collective(CollectiveOp op, NodeId x, int64_t devices, std::vector<uint32_t> group) {
  Shape out = shape(x);
  if (FactsOf(op).writes == CollectiveLayout::kEach) {
    out.rank = shape(x).rank + 1;
    out[0] = devices;
    for (int d = 1; d < out.rank; ++d) out[d] = shape(x)[d - 1];
  } else if (FactsOf(op).reads == CollectiveLayout::kEach) {
    out.rank = shape(x).rank - 1;
    for (int d = 0; d < out.rank; ++d) out[d] = shape(x)[d + 1];
  }
  NodeId id = Finish(Op::kCollective, dtype(x), out, CollectiveAttrs{op, devices, std::move(group)}, {x});
  if (last_collective_ != kNoNode) graph().node(id).weak_after.push_back(last_collective_);
  last_collective_ = id;
  return id;
}

std::vector<NodeId> Builder::Call(const std::shared_ptr<const CallInfo>& info, std::vector<NodeId> inputs) {
  const auto make = [&](Op op, uint32_t output, std::vector<NodeId> from) {
    const CustomArgument& type = info->output(output);
    return Finish(op, type.dtype, type.shape, CallAttrs{info, output}, std::move(from));
  };
  const NodeId call = make(Op::kCall, 0, inputs);
  if (info->side_effects) {
    if (last_effect_ != kNoNode) graph().node(call).weak_after.push_back(last_effect_);
    last_effect_ = call;
  }
  std::vector<NodeId> outputs;
  for (uint32_t i = 0; i < info->num_outputs(); ++i) {
    if (info->op.IsWorkspace(info->op.num_inputs + i)) continue;
    outputs.push_back(info->PassesThrough(i) ? inputs[info->SlotOf(info->output(i).alias)]
                      : i == 0               ? call
                                             : make(Op::kCallResult, i, {call}));
  }
  return outputs;
}

// ------------------------------------------------------------------------------------ constants

bool Builder::ConstantInts(NodeId id, std::vector<int64_t>* values) const {
  std::shared_ptr<const ConstantData> data;
  if (IsFloat(dtype(id)) || !ConstantValue(id, kMaxReadBytes, &data)) return false;
  values->clear();
  for (int64_t i = 0; i < data->shape.elements(); ++i) {
    values->push_back(scalar::Load<int64_t>(data->dtype, data->bytes.data(), i));
  }
  return true;
}

bool Builder::ConstantFloats(NodeId id, std::vector<double>* values) const {
  std::shared_ptr<const ConstantData> data;
  if (!IsFloat(dtype(id)) || !ConstantValue(id, kMaxReadBytes, &data)) return false;
  values->clear();
  for (int64_t i = 0; i < data->shape.elements(); ++i) {
    values->push_back(scalar::Load<double>(data->dtype, data->bytes.data(), i));
  }
  return true;
}

}  // namespace rondo::ir
