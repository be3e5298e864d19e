#include "compiler/ir/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/loop.h"
#include "compiler/ir/walk.h"
#include "core/scalar.h"

namespace rondo::ir {

namespace {

using Data = std::shared_ptr<const ConstantData>;

// A tensor widened to its tape type T (float, double or int64_t).
template <typename T>
std::vector<T> Widen(const ConstantData& data) {
  int64_t n = data.shape.elements();
  std::vector<T> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    out[static_cast<size_t>(i)] = scalar::Load<T>(data.dtype, data.bytes.data(), i);
  return out;
}

template <typename T>
Data Narrow(DType dtype, const Shape& shape, const std::vector<T>& values) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements() * ByteSize(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    scalar::Store<T>(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  }
  return ConstantData::Own(dtype, shape, std::move(bytes));
}

// Calls f with a zero of the tape type of `dtype`.
template <typename F>
auto WithType(DType dtype, F f) {
  switch (NaturalType(dtype)) {
    case TapeType::kF32: return f(0.0f);
    case TapeType::kF64: return f(0.0);
    default: return f(int64_t{0});
  }
}

Data EvalView(const Node& node, const ConstantData& in) {
  size_t size = static_cast<size_t>(ByteSize(node.dtype));
  std::vector<uint8_t> bytes(static_cast<size_t>(node.shape.elements()) * size);
  ForEachElement(node.As<ViewAttrs>().view, [&](int64_t i, int64_t at) {
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size,
                in.bytes.data() + static_cast<size_t>(at) * size, size);
  });
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
        for (size_t j = 0; j < n; ++j) row[j] += x * y[j];
      }
      for (size_t j = 0; j < n; ++j) out[(bi * m + i) * n + j] = static_cast<T>(row[j]);
    }
  }
  return Narrow(node.dtype, node.shape, out);
}

// Visits the window points of a convolution or pool: f(output element, input spatial offset or -1, tap).
struct Window {
  std::vector<int64_t> in, out, kernel, strides, dilations, pads;

  template <typename F>
  void Visit(F f) const {
    size_t rank = in.size();
    std::vector<int64_t> o(rank, 0), t(rank, 0);
    int64_t element = 0;
    do {
      int64_t tap = 0;
      do {
        int64_t at = 0;
        for (size_t d = 0; d < rank && at >= 0; ++d) {
          int64_t c = o[d] * strides[d] + t[d] * dilations[d] - pads[d];
          at = c < 0 || c >= in[d] ? -1 : at * in[d] + c;
        }
        f(element, at, tap++);
      } while (Advance(kernel, &t));
      ++element;
    } while (Advance(out, &o));
  }

  static bool Advance(const std::vector<int64_t>& extents, std::vector<int64_t>* index) {
    for (size_t d = extents.size(); d-- > 0;) {
      if (++(*index)[d] < extents[d]) return true;
      (*index)[d] = 0;
    }
    return false;
  }
  int64_t InSize() const { return Product(in); }
  int64_t OutSize() const { return Product(out); }
  int64_t Taps() const { return Product(kernel); }
  static int64_t Product(const std::vector<int64_t>& v) {
    int64_t n = 1;
    for (int64_t x : v) n *= x;
    return n;
  }
};

std::vector<int64_t> Spatial(const Shape& shape) {
  return std::vector<int64_t>(shape.begin() + 2, shape.end());
}

template <typename T>
Data EvalConvAs(const Node& node, const Values& in) {
  const ConvAttrs& attrs = node.As<ConvAttrs>();
  std::vector<T> x = Widen<T>(*in[0]), w = Widen<T>(*in[1]), out(static_cast<size_t>(node.shape.elements()));
  Window window{Spatial(in[0]->shape), Spatial(node.shape), Spatial(in[1]->shape),
                attrs.strides,         attrs.dilations,     attrs.pads_begin};
  int64_t channels = in[1]->shape[1], o_per_group = node.shape[1] / attrs.groups;
  int64_t taps = window.Taps(), in_size = window.InSize(), out_size = window.OutSize();
  if (out.empty()) return Narrow(node.dtype, node.shape, out);
  std::vector<double> acc(static_cast<size_t>(out_size));
  for (int64_t n = 0; n < node.shape[0]; ++n) {
    for (int64_t o = 0; o < node.shape[1]; ++o) {
      std::fill(acc.begin(), acc.end(), 0.0);
      for (int64_t c = 0; c < channels; ++c) {
        const T* plane =
            &x[static_cast<size_t>((n * in[0]->shape[1] + o / o_per_group * channels + c) * in_size)];
        const T* weight = &w[static_cast<size_t>((o * channels + c) * taps)];
        window.Visit([&](int64_t e, int64_t at, int64_t tap) {
          if (at >= 0)
            acc[static_cast<size_t>(e)] += static_cast<double>(plane[at]) * static_cast<double>(weight[tap]);
        });
      }
      for (int64_t e = 0; e < out_size; ++e) {
        out[static_cast<size_t>((n * node.shape[1] + o) * out_size + e)] =
            static_cast<T>(acc[static_cast<size_t>(e)]);
      }
    }
  }
  return Narrow(node.dtype, node.shape, out);
}

template <typename T>
Data EvalPoolAs(const Node& node, const Values& in) {
  const PoolAttrs& attrs = node.As<PoolAttrs>();
  std::vector<T> x = Widen<T>(*in[0]), out(static_cast<size_t>(node.shape.elements()));
  Window window{Spatial(in[0]->shape), Spatial(node.shape), attrs.kernel,
                attrs.strides,         attrs.dilations,     attrs.pads_begin};
  int64_t in_size = window.InSize(), out_size = window.OutSize();
  if (out.empty()) return Narrow(node.dtype, node.shape, out);
  T start = attrs.kind == Combine::kMax ? scalar::ReduceStart<T>(TapeOp::kReduceMax) : T(0);
  for (int64_t p = 0; p < node.shape[0] * node.shape[1]; ++p) {
    std::vector<T> acc(static_cast<size_t>(out_size), start);
    std::vector<int64_t> present(static_cast<size_t>(out_size), 0);
    window.Visit([&](int64_t e, int64_t at, int64_t) {
      if (at < 0) return;
      T v = x[static_cast<size_t>(p * in_size + at)];
      T& a = acc[static_cast<size_t>(e)];
      a = attrs.kind == Combine::kMax ? scalar::Binary(TapeOp::kMax, a, v)
                                      : scalar::Binary(TapeOp::kAdd, a, v);
      ++present[static_cast<size_t>(e)];
    });
    for (int64_t e = 0; e < out_size; ++e) {
      T v = acc[static_cast<size_t>(e)];
      if (attrs.kind == Combine::kMean)
        v = v / static_cast<T>(std::max<int64_t>(1, present[static_cast<size_t>(e)]));
      out[static_cast<size_t>(p * out_size + e)] = v;
    }
  }
  return Narrow(node.dtype, node.shape, out);
}

// The element of data that each element of the map's shape names. Errors: an index out of range.
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

// Scores of one query against keys [0, keys), softmaxed in place.
void Softmax(std::vector<float>* scores, size_t keys, bool nan_to_zero) {
  float top = -std::numeric_limits<float>::infinity();
  for (size_t j = 0; j < keys; ++j) top = std::max(top, (*scores)[j]);
  double sum = 0;
  for (size_t j = 0; j < keys; ++j) {
    (*scores)[j] = std::exp((*scores)[j] - top);
    sum += (*scores)[j];
  }
  for (size_t j = 0; j < keys; ++j) {
    float& s = (*scores)[j];
    s = static_cast<float>(s / sum);
    if (nan_to_zero && std::isnan(s)) s = 0;
  }
  if (nan_to_zero && keys == 0) std::fill(scores->begin(), scores->end(), 0.0f);
}

Data EvalAttention(const Node& node, const Values& in) {
  const AttentionAttrs& a = node.As<AttentionAttrs>();
  const Shape &qs = in[0]->shape, &ks = in[1]->shape;
  std::vector<float> q = Widen<float>(*in[0]), k = Widen<float>(*in[1]), v = Widen<float>(*in[2]), mask;
  if (a.has_mask) mask = Widen<float>(*in[3]);
  const bool bool_mask = a.has_mask && in[3]->dtype == DType::kBool;
  std::vector<int64_t> limit;
  if (a.has_limit) limit = Widen<int64_t>(*in.back());
  size_t heads = static_cast<size_t>(qs[1]), groups = static_cast<size_t>(ks[1]),
         s = static_cast<size_t>(qs[2]);
  size_t t = static_cast<size_t>(ks[2]), d = static_cast<size_t>(qs[3]),
         e = static_cast<size_t>(node.shape[3]);
  std::vector<float> out(static_cast<size_t>(node.shape.elements())), scores(t);
  for (size_t row = 0; row < static_cast<size_t>(qs[0]) * heads * s; ++row) {
    size_t b = row / (heads * s), h = row / s % heads, kv = b * groups + h * groups / heads;
    size_t keys = a.has_limit ? static_cast<size_t>(std::clamp<int64_t>(limit[row], 0, ks[2])) : t;
    for (size_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (size_t l = 0; l < d; ++l) dot += static_cast<double>(q[row * d + l]) * k[(kv * t + j) * d + l];
      float x = static_cast<float>(dot) * a.scale;
      if (a.softcap != 0) x = a.softcap * std::tanh(x / a.softcap);
      if (bool_mask && mask[row * t + j] == 0) x = -std::numeric_limits<float>::infinity();
      if (a.has_mask && !bool_mask) x += mask[row * t + j];
      scores[j] = x;
    }
    Softmax(&scores, keys, a.nan_to_zero);
    std::vector<double> acc(e, 0.0);
    for (size_t j = 0; j < keys; ++j) {
      for (size_t l = 0; l < e; ++l) acc[l] += static_cast<double>(scores[j]) * v[(kv * t + j) * e + l];
    }
    for (size_t l = 0; l < e; ++l) out[row * e + l] = static_cast<float>(acc[l]);
  }
  return Narrow(node.dtype, node.shape, out);
}

// The bytes of all results.
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

}  // namespace

Result<Data> EvaluateNode(const Node& node, const Values& given) {
  Values in;
  for (const Data& data : given) in.push_back(WithBytes(data));
  switch (node.op) {
    case Op::kInput:
      return Status::Error(Code::kInvalidArgument, "input %%%d has no value of its own", node.id);
    case Op::kConstant: return WithBytes(node.As<ConstantAttrs>().data);
    case Op::kView: return EvalView(node, *in[0]);
    case Op::kPointwise: return EvalPointwise(node, in);
    case Op::kIota: return EvalIota(node);
    case Op::kReduce:
      return WithType(in[0]->dtype, [&](auto t) { return EvalReduceAs<decltype(t)>(node, *in[0]); });
    case Op::kMatMul:
      return WithType(node.dtype, [&](auto t) { return EvalMatMulAs<decltype(t)>(node, in); });
    case Op::kConv: return WithType(node.dtype, [&](auto t) { return EvalConvAs<decltype(t)>(node, in); });
    case Op::kPool: return WithType(node.dtype, [&](auto t) { return EvalPoolAs<decltype(t)>(node, in); });
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
