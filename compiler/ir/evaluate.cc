#include "compiler/ir/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/evaluate_nodes.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/packed.h"
#include "compiler/ir/walk.h"
#include "core/row_order.h"
#include "core/scalar.h"

namespace rondo::ir {

namespace {

// Copies elements of `kSize` bytes, or of `size` bytes if `kSize` is 0. Copies of a constant size compile to
// moves.
template <size_t kSize>
void CopyElements(const View& view, const uint8_t* from, size_t size, uint8_t* to) {
  ForEachElement(view, [=](int64_t i, int64_t at) {
    const size_t own = kSize != 0 ? kSize : size;
    std::memcpy(to + static_cast<size_t>(i) * own, from + static_cast<size_t>(at) * own, own);
  });
}

Data EvalView(const Node& node, const ConstantData& in) {
  const View& view = node.As<ViewAttrs>().view;
  if (IsDense(view, in.shape.elements()))
    return ConstantData::Own(node.dtype, node.shape, {in.bytes.begin(), in.bytes.end()});
  const auto size = static_cast<size_t>(ByteSize(node.dtype));
  std::vector<uint8_t> bytes(static_cast<size_t>(node.shape.elements()) * size);
  const auto copy = size == 1   ? CopyElements<1>
                    : size == 2 ? CopyElements<2>
                    : size == 4 ? CopyElements<4>
                    : size == 8 ? CopyElements<8>
                                : CopyElements<0>;
  copy(view, in.bytes.data(), size, bytes.data());
  return ConstantData::Own(node.dtype, node.shape, std::move(bytes));
}

Data EvalPointwise(const Node& node, const Values& in) {
  const PointwiseAttrs& attrs = node.As<PointwiseAttrs>();
  // Tests, casts and comparisons compute in the type of their operand.
  DType operand = in[attrs.op == TapeOp::kSelect ? 1 : 0]->dtype;
  TapeInst inst;
  inst.op = attrs.op;
  inst.type = NaturalType(node.dtype);
  inst.imm.i = attrs.op == TapeOp::kCast ? static_cast<int64_t>(node.dtype) : attrs.immediate;
  int64_t n = node.shape.elements();
  std::vector<uint8_t> bytes(static_cast<size_t>(n * ByteSize(node.dtype)));
  for (int64_t i = 0; i < n; ++i) {
    scalar::Value v[3];
    for (size_t k = 0; k < in.size(); ++k) v[k] = scalar::LoadValue(in[k]->dtype, in[k]->bytes.data(), i);
    scalar::StoreValue(node.dtype, bytes.data(), i,
                       scalar::Eval(inst, NaturalType(operand), v[0], v[1], v[2]));
  }
  return ConstantData::Own(node.dtype, node.shape, std::move(bytes));
}

bool IsFinite(const ConstantData& data) {
  for (int64_t i = 0; i < data.shape.elements(); ++i) {
    if (!std::isfinite(scalar::Load<double>(data.dtype, data.bytes.data(), i))) return false;
  }
  return true;
}

Data EvalIota(const Node& node) {
  std::vector<int64_t> values(static_cast<size_t>(node.shape.elements()));
  View view = DenseView(node.shape);
  ViewStep& step = view.steps[0];
  for (int d = 0; d < step.shape.rank; ++d) step.strides[d] = d == node.As<IotaAttrs>().axis ? 1 : 0;
  ForEachElement(view, [&](int64_t i, int64_t at) { values[static_cast<size_t>(i)] = at; });
  return Narrow(node.dtype, node.shape, values);
}

// The result element that each input element belongs to, as a view over the input's shape.
View ReducedView(const Shape& in, const Shape& out) {
  View view = DenseView(out);
  ViewStep& step = view.steps[0];
  for (int d = 0; d < in.rank; ++d) {
    if (out[d] == 1) step.strides[d] = 0;
  }
  step.shape = in;
  return view;
}

template <typename T>
Data EvalTopKAs(const Node& node, const ConstantData& in) {
  const std::vector<T> x = Widen<T>(in);
  const int64_t n = in.shape[in.shape.rank - 1], k = node.shape[node.shape.rank - 1];
  const bool largest = node.As<ReduceAttrs>().kind == ReduceKind::kMax;
  std::vector<std::pair<uint64_t, int64_t>> row(static_cast<size_t>(n));
  std::vector<int64_t> places;
  for (int64_t from = 0; from < in.shape.elements(); from += n) {
    for (int64_t i = 0; i < n; ++i)
      row[static_cast<size_t>(i)] = {OrderKey(x[static_cast<size_t>(from + i)], in.dtype, largest), i};
    std::partial_sort(row.begin(), row.begin() + k, row.end());
    for (int64_t r = 0; r < k; ++r) places.push_back(row[static_cast<size_t>(r)].second);
  }
  return Narrow(node.dtype, node.shape, places);
}

template <typename T>
Data EvalReduceAs(const Node& node, const ConstantData& in) {
  const ReduceAttrs& attrs = node.As<ReduceAttrs>();
  View view = ReducedView(in.shape, node.shape);
  std::vector<T> x = Widen<T>(in);
  size_t n = static_cast<size_t>(node.shape.elements());
  if (attrs.kind == ReduceKind::kArgMax || attrs.kind == ReduceKind::kArgMin) {
    std::vector<int64_t> best(n, 0), count(n, 0);
    std::vector<T> extreme(n);
    ForEachElement(view, [&](int64_t i, int64_t at) {
      T v = x[static_cast<size_t>(i)];
      size_t o = static_cast<size_t>(at);
      int64_t position = count[o]++;
      bool better = attrs.kind == ReduceKind::kArgMax ? v > extreme[o] : v < extreme[o];
      bool take = position == 0 || (v != v && extreme[o] == extreme[o]) || better ||
                  (attrs.last_index && v == extreme[o]);
      if (!take || (position != 0 && extreme[o] != extreme[o])) return;
      extreme[o] = v;
      best[o] = position;
    });
    return Narrow(node.dtype, node.shape, best);
  }
  constexpr TapeOp kOps[] = {TapeOp::kReduceSum, TapeOp::kReduceProd, TapeOp::kReduceMax, TapeOp::kReduceMin};
  TapeOp op = kOps[static_cast<int>(attrs.kind)];
  using Acc = std::conditional_t<std::is_same_v<T, float>, double, T>;
  std::vector<Acc> acc(n, scalar::ReduceStart<Acc>(op));
  ForEachElement(view, [&](int64_t i, int64_t at) {
    Acc& a = acc[static_cast<size_t>(at)];
    a = scalar::ReduceStep<Acc>(op, a, x[static_cast<size_t>(i)]);
  });
  return Narrow(node.dtype, node.shape, std::vector<T>(acc.begin(), acc.end()));
}

template <typename T>
Data EvalMatMulAs(const Node& node, const Values& in) {
  std::vector<T> a = Widen<T>(*in[0]), b = Widen<T>(*in[1]);
  int r = node.shape.rank;
  size_t m = static_cast<size_t>(node.shape[r - 2]), n = static_cast<size_t>(node.shape[r - 1]);
  size_t k = static_cast<size_t>(in[0]->shape[r - 1]);
  size_t batch = m * n == 0 ? 0 : static_cast<size_t>(node.shape.elements()) / (m * n);
  using Acc = std::conditional_t<std::is_same_v<T, float>, double, T>;
  std::vector<T> out(batch * m * n);
  std::vector<Acc> row(n);
  for (size_t bi = 0; bi < batch; ++bi) {
    for (size_t i = 0; i < m; ++i) {
      std::fill(row.begin(), row.end(), Acc(0));
      for (size_t l = 0; l < k; ++l) {
        Acc x = a[(bi * m + i) * k + l];
        const T* y = &b[(bi * k + l) * n];
        for (size_t j = 0; j < n; ++j) row[j] = scalar::Fma<Acc>(x, y[j], row[j]);
      }
      for (size_t j = 0; j < n; ++j) out[(bi * m + i) * n + j] = static_cast<T>(row[j]);
    }
  }
  return Narrow(node.dtype, node.shape, out);
}

// Marks an index that names no element.
constexpr int64_t kNowhere = INT64_MIN;

// By element of the map's shape: the element of data that it names. Errors: an index out of range.
Result<std::vector<int64_t>> IndexedElements(const Node& node, const Values& in, size_t first) {
  const IndexedAttrs& attrs = node.As<IndexedAttrs>();
  std::vector<int64_t> at(static_cast<size_t>(attrs.map.shape().elements()));
  ForEachElement(attrs.map, [&](int64_t i, int64_t element) { at[static_cast<size_t>(i)] = element; });
  for (size_t k = 0; k < attrs.dims.size(); ++k) {
    const IndexedDim& dim = attrs.dims[k];
    const ConstantData& index = *in[first + k];
    for (size_t i = 0; i < at.size(); ++i) {
      int64_t given = scalar::Load<int64_t>(index.dtype, index.bytes.data(), static_cast<int64_t>(i));
      int64_t v = dim.wrap && given < 0 ? given + dim.extent : given;
      if (at[i] == kNowhere) continue;
      if ((v < 0 || v >= dim.extent) && !dim.fault) {
        at[i] = kNowhere;
        continue;
      }
      if (v < 0 || v >= dim.extent) {
        return Status::Error(Code::kOutOfRange, "%s%s%s: index %ld at element %zu is outside [%ld, %ld)",
                             Name(node.op), node.sources.empty() ? "" : " from ",
                             node.sources.empty() ? "" : node.sources[0].c_str(), given, i,
                             dim.wrap ? -dim.extent : 0, dim.extent);
      }
      at[i] += v * dim.stride;
    }
  }
  return at;
}

Result<Data> EvalIndexedRead(const Node& node, const Values& in) {
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> at, IndexedElements(node, in, 1));
  size_t size = static_cast<size_t>(ByteSize(node.dtype));
  std::vector<uint8_t> bytes(at.size() * size);
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] == kNowhere) continue;
    std::memcpy(&bytes[i * size], in[0]->bytes.data() + static_cast<size_t>(at[i]) * size, size);
  }
  return ConstantData::Own(node.dtype, node.shape, std::move(bytes));
}

Result<Data> EvalIndexedWrite(const Node& node, const Values& in) {
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> at, IndexedElements(node, in, 2));
  ScatterCombine combine = node.As<IndexedAttrs>().combine;
  constexpr TapeOp kOps[] = {TapeOp::kAdd, TapeOp::kAdd, TapeOp::kMul, TapeOp::kMax, TapeOp::kMin};
  Data out = WithType(node.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> data = Widen<T>(*in[0]), updates = Widen<T>(*in[1]);
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] == kNowhere) continue;
      T& x = data[static_cast<size_t>(at[i])];
      x = combine == ScatterCombine::kNone
              ? updates[i]
              : scalar::RoundTo(scalar::Binary(kOps[static_cast<int>(combine)], x, updates[i]), node.dtype);
    }
    return Narrow(node.dtype, node.shape, data);
  });
  return out;
}

Data EvalConcat(const Node& node, const Values& in) {
  int axis = node.As<ConcatAttrs>().axis;
  std::vector<uint8_t> bytes(static_cast<size_t>(node.shape.elements() * ByteSize(node.dtype)));
  int64_t outer = 1, inner = ByteSize(node.dtype);
  for (int d = 0; d < axis; ++d) outer *= node.shape[d];
  for (int d = axis + 1; d < node.shape.rank; ++d) inner *= node.shape[d];
  int64_t at = 0;
  for (const Data& x : in) {
    int64_t run = x->shape[axis] * inner;
    for (int64_t o = 0; o < outer && run > 0; ++o) {
      std::memcpy(&bytes[static_cast<size_t>(o * node.shape[axis] * inner + at)], x->bytes.data() + o * run,
                  static_cast<size_t>(run));
    }
    at += run;
  }
  return ConstantData::Own(node.dtype, node.shape, std::move(bytes));
}

// The concatenated bytes of all results.
Result<Data> EvalLoop(const Node& node, const Values& in) {
  const LoopInfo& loop = *node.As<LoopAttrs>().info;
  std::vector<uint8_t> bytes(static_cast<size_t>(node.shape.elements()));
  Values given(loop.inputs.size()), made;
  for (int64_t t = 0; t < loop.trips; ++t) {
    for (size_t k = 0; k < given.size(); ++k) {
      const LoopInput& how = loop.inputs[k];
      if (how.kind == LoopInputKind::kCarried && t > 0) {
        given[k] = made[how.next];
        continue;
      }
      const Node& taken = loop.body.node(loop.body.inputs[k].node);
      const int64_t size = taken.shape.elements() * ByteSize(taken.dtype);
      const int64_t row = how.kind != LoopInputKind::kRow ? 0 : how.backward ? loop.trips - 1 - t : t;
      const auto from = in[k]->bytes.begin() + row * size;
      given[k] = ConstantData::Own(taken.dtype, taken.shape, {from, from + size});
    }
    RONDO_ASSIGN_OR_RETURN(made, EvaluateGraph(loop.body, given));
    for (size_t k = 0; k < made.size(); ++k) {
      const LoopOutput& how = loop.outputs[k];
      const int64_t row = !how.rows ? 0 : how.backward ? loop.trips - 1 - t : t;
      std::copy(made[k]->bytes.begin(), made[k]->bytes.end(),
                bytes.begin() + loop.ResultOffset(k) + row * made[k]->byte_size());
    }
  }
  return ConstantData::Own(DType::kU8, node.shape, std::move(bytes));
}

Result<Data> EvalPackedMatMul(const Node& node, const Values& in) {
  const Shape& a = in[0]->shape;
  const int64_t n = node.shape[node.shape.rank - 1], k = a[a.rank - 1];
  const std::vector<float> w = Unpacked(PackedOf(node.As<PackedAttrs>(), n, k, in));
  const std::vector<float> x = Widen<float>(*in[0]);
  std::vector<float> out(static_cast<size_t>(node.shape.elements()));
  for (size_t at = 0; at < out.size(); ++at) {
    const size_t row = at / static_cast<size_t>(n) * static_cast<size_t>(k);
    const size_t column = at % static_cast<size_t>(n) * static_cast<size_t>(k);
    double sum = 0;
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) sum += double{x[row + i]} * w[column + i];
    out[at] = static_cast<float>(sum);
  }
  return Narrow(node.dtype, node.shape, out);
}

}  // namespace

bool SpendOnFolding(const Graph& graph, const Node& node, int64_t bytes) {
  constexpr int64_t kOtherWork = 16, kTapWork = 4;  // in multiplications of a matmul
  // The sizes come from a model: a product that overflows exceeds every limit.
  const auto times = [](int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
  };
  const auto shape = [&](size_t i) { return graph.node(node.inputs[i]).shape; };
  int64_t work = times(kOtherWork, node.shape.elements() + 1);
  for (size_t i = 0; i < node.inputs.size() && node.op != Op::kView; ++i)
    work = std::max(work, times(kOtherWork, shape(i).elements()));
  if (node.op == Op::kMatMul) work = times(node.shape.elements(), shape(0)[shape(0).rank - 1] + 1);
  if (node.op == Op::kConv)
    work = times(times(kTapWork, node.shape.elements()),
                 shape(1).elements() / std::max<int64_t>(shape(1)[0], 1) + 1);
  if (node.op == Op::kPool) {
    for (int64_t extent : node.As<PoolAttrs>().kernel) work = times(work, extent);
  }
  if (node.op == Op::kAttention) work = times(shape(0).elements(), times(kOtherWork, shape(1)[2] + 1));
  if (node.op == Op::kLoop) {
    const LoopInfo& loop = *node.As<LoopAttrs>().info;
    work = times(work, times(loop.trips, loop.body.size()));
  }
  return graph.folding.Spend(work, bytes);
}

Result<Data> EvaluateNode(const Node& node, const Values& given) {
  Values in;
  for (const Data& data : given) in.push_back(WithBytes(data));
  switch (node.op) {
    case Op::kInput:
      return Status::Error(Code::kInvalidArgument, "input %%%d has no value of its own", node.id);
    case Op::kConstant: return WithBytes(node.As<ConstantAttrs>().data);
    case Op::kView: return EvalView(node, *in[0]);
    case Op::kPointwise: {
      Data value = EvalPointwise(node, in);
      if (IsAssertion(node) && !IsFinite(*value))
        return Status::Error(Code::kOutOfRange, "%%%d is not finite", node.id);
      return value;
    }
    case Op::kIota: return EvalIota(node);
    case Op::kReduce:
      return WithType(in[0]->dtype, [&](auto t) { return EvalReduceAs<decltype(t)>(node, *in[0]); });
    case Op::kMatMul:
      if (std::holds_alternative<PackedAttrs>(node.attrs)) return EvalPackedMatMul(node, in);
      return WithType(node.dtype, [&](auto t) { return EvalMatMulAs<decltype(t)>(node, in); });
    case Op::kConv: return EvalConv(node, in);
    case Op::kPool: return EvalPool(node, in);
    case Op::kTopK:
      return WithType(in[0]->dtype, [&](auto t) { return EvalTopKAs<decltype(t)>(node, *in[0]); });
    case Op::kIndexedRead: return EvalIndexedRead(node, in);
    case Op::kIndexedWrite: return EvalIndexedWrite(node, in);
    case Op::kConcat: return EvalConcat(node, in);
    case Op::kAttention: return EvalAttention(node, in);
    case Op::kCollective:
      return Status::Error(Code::kUnsupported, "collective %%%d needs the other devices", node.id);
    case Op::kCall:
    case Op::kCallResult: return Status::Error(Code::kUnsupported, "%%%d calls a custom op", node.id);
    case Op::kLoop: return EvalLoop(node, in);
    case Op::kLoopResult: {
      const LoopAttrs& a = node.As<LoopAttrs>();
      const auto from = in[0]->bytes.begin() + a.info->ResultOffset(a.output);
      return ConstantData::Own(node.dtype, node.shape, {from, from + a.info->ResultBytes(a.output)});
    }
  }
  return Status::Error(Code::kInternal, "node %%%d has an unknown op", node.id);
}

Result<Values> EvaluateGraph(const Graph& graph, const Values& inputs) {
  if (inputs.size() != graph.inputs.size()) {
    return Status::Error(Code::kInvalidArgument, "graph %s takes %zu inputs, got %zu", graph.name.c_str(),
                         graph.inputs.size(), inputs.size());
  }
  std::vector<Data> values(static_cast<size_t>(graph.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = graph.node(graph.inputs[i].node);
    if (!(inputs[i]->shape == node.shape) || inputs[i]->dtype != node.dtype) {
      return Status::Error(Code::kInvalidArgument, "input %s has another shape or dtype than the graph says",
                           graph.inputs[i].name.c_str());
    }
    values[static_cast<size_t>(node.id)] = inputs[i];
  }
  std::vector<NodeId> order = graph.TopologicalOrder();
  std::vector<int> readers(values.size(), 0);
  for (NodeId id : order) {
    for (NodeId in : graph.node(id).inputs) ++readers[static_cast<size_t>(in)];
  }
  for (const GraphOutput& out : graph.outputs) ++readers[static_cast<size_t>(out.node)];
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (node.op == Op::kInput) continue;
    Values in;
    for (NodeId i : node.inputs) in.push_back(values[static_cast<size_t>(i)]);
    RONDO_ASSIGN_OR_RETURN(values[static_cast<size_t>(id)], EvaluateNode(node, in));
    for (NodeId i : node.inputs) {
      if (--readers[static_cast<size_t>(i)] == 0) values[static_cast<size_t>(i)] = nullptr;
    }
  }
  Values out;
  for (const GraphOutput& o : graph.outputs) {
    Data data = values[static_cast<size_t>(o.node)];
    out.push_back(WithBytes(data));
  }
  return out;
}

}  // namespace rondo::ir
