// Reductions over axes.
#include <algorithm>
#include <limits>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

using ir::ReduceKind;

// The reduction, after the several forms of the axes have been read.
struct Reduction {
  std::vector<int> axes;
  bool keep = true;
  bool identity = false;  // no axes are given, so nothing is reduced
};

// Axes are an attribute in older opsets and an input in newer ones.
Result<Reduction> ReadReduction(OpContext& c) {
  Reduction r;
  r.keep = c.Int("keepdims", 1) != 0;
  bool given = false;
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> axes, c.IntsFrom(1, "axes", &given));
  if (axes.empty()) {
    r.identity = c.Int("noop_with_empty_axes", 0) != 0;
    r.axes = AxisRange(0, c.rank(0));
    return r;
  }
  RONDO_ASSIGN_OR_RETURN(r.axes, c.Axes(axes, c.rank(0)));
  return r;
}

// x reduced; a scalar is its own reduction.
NodeId Apply(Builder& b, ReduceKind kind, NodeId x, const Reduction& r) {
  if (r.axes.empty()) return x;
  return b.Reduce(kind, x, r.axes, r.keep);
}

// Each function returns the reduction of a (widened) x.
NodeId Sum(Builder& b, NodeId x, const Reduction& r) { return Apply(b, ReduceKind::kSum, x, r); }
NodeId Prod(Builder& b, NodeId x, const Reduction& r) { return Apply(b, ReduceKind::kProd, x, r); }
NodeId Max(Builder& b, NodeId x, const Reduction& r) { return Apply(b, ReduceKind::kMax, x, r); }
NodeId Min(Builder& b, NodeId x, const Reduction& r) { return Apply(b, ReduceKind::kMin, x, r); }
NodeId Mean(Builder& b, NodeId x, const Reduction& r) {
  return r.axes.empty() ? x : b.Mean(x, r.axes, r.keep);
}
NodeId SumSquare(Builder& b, NodeId x, const Reduction& r) {
  return Apply(b, ReduceKind::kSum, b.Mul(x, x), r);
}
NodeId L1(Builder& b, NodeId x, const Reduction& r) {
  return Apply(b, ReduceKind::kSum, b.Unary(TapeOp::kAbs, x), r);
}
// The others are real functions of the sum; integers are computed in f64.
NodeId Real(Builder& b, NodeId x) { return IsFloat(b.dtype(x)) ? x : b.Cast(x, DType::kF64); }
NodeId L2(Builder& b, NodeId x, const Reduction& r) {
  x = Real(b, x);
  return b.Unary(TapeOp::kSqrt, Apply(b, ReduceKind::kSum, b.Mul(x, x), r));
}
NodeId LogSum(Builder& b, NodeId x, const Reduction& r) {
  return b.Unary(TapeOp::kLog, Apply(b, ReduceKind::kSum, Real(b, x), r));
}
// max + log(sum(exp(x - max))); if the max is infinite, it is the result.
NodeId LogSumExp(Builder& b, NodeId x, const Reduction& r) {
  x = Real(b, x);
  Reduction kept = r;
  kept.keep = true;
  NodeId max = Apply(b, ReduceKind::kMax, x, kept);
  NodeId finite = b.Select(b.Unary(TapeOp::kIsInf, max, 3), b.Scalar(b.dtype(x), 0), max);
  NodeId sum = Apply(b, ReduceKind::kSum, b.Unary(TapeOp::kExp, b.Sub(x, finite)), kept);
  NodeId y = b.Add(b.Unary(TapeOp::kLog, sum), finite);
  if (r.keep) return y;
  ir::Dims dims;
  for (int d = 0; d < b.shape(x).rank; ++d) {
    if (std::find(r.axes.begin(), r.axes.end(), d) == r.axes.end()) dims.push_back(b.SizeOf(x, d));
  }
  return b.ReshapeTo(y, dims);
}

// The result of reducing no elements.
template <NodeId (*kFunction)(Builder&, NodeId, const Reduction&)>
NodeId OfNothing(Builder& b, DType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (kFunction == Max || kFunction == Min) {
    return ExtremeOf(b, type, kFunction == Min);
  }
  if (kFunction == Prod) return b.Scalar(type, 1);
  if (kFunction == Mean && IsFloat(type)) return b.Scalar(type, std::numeric_limits<double>::quiet_NaN());
  if ((kFunction == LogSum || kFunction == LogSumExp) && IsFloat(type)) return b.Scalar(type, -kInfinity);
  return b.Scalar(type, 0);
}

// `identity`: what the function does to each element if nothing is reduced.
template <NodeId (*kFunction)(Builder&, NodeId, const Reduction&)>
Status Reduce(OpContext& c) {
  bool extreme = kFunction == Max || kFunction == Min;
  if (c.dtype(0) == DType::kBool && !extreme) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  RONDO_ASSIGN_OR_RETURN(Reduction r, ReadReduction(c));
  DType type = c.dtype(0);
  if (r.identity) {
    r.axes.clear();
    r.keep = true;
    return c.Give(c.b.Cast(kFunction(c.b, Widen(c.b, c.In(0)), r), type));
  }
  if (c.shape(0).elements() == 0) {
    Shape out;
    bool nothing = false;
    for (int d = 0; d < c.rank(0); ++d) {
      const bool reduced = std::find(r.axes.begin(), r.axes.end(), d) != r.axes.end();
      nothing = nothing || (reduced && c.shape(0)[d] == 0);
      if (!reduced || r.keep) out.dims[out.rank++] = reduced ? 1 : c.shape(0)[d];
    }
    return c.Give(out.elements() == 0 ? c.b.Constant(ir::ConstantData::Own(type, out, {}))
                                      : c.b.Expand(OfNothing<kFunction>(c.b, type), out));
  }
  NodeId x = extreme ? c.In(0) : Widen(c.b, c.In(0));
  return c.Give(c.b.Cast(kFunction(c.b, x, r), type));
}

template <ReduceKind kKind>
Status Arg(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 0), c.rank(0)));
  if (c.shape(0)[axis] == 0) return Status::Error(Code::kCorrupt, "axis %d has no elements", axis);
  bool last = c.Int("select_last_index", 0) != 0;
  return c.Give(c.b.Reduce(kKind, c.In(0), {axis}, c.Int("keepdims", 1) != 0, last));
}

// Multiplies x by itself shifted by 1, 2, 4, ... places; after the last round each element has all before it.
NodeId CumulativeProduct(Builder& b, NodeId x, int axis, bool exclusive) {
  const int64_t n = b.shape(x)[axis];
  const NodeId one = b.Scalar(b.dtype(x), 1);
  const auto later = [&](NodeId y, int64_t by) {
    std::vector<int64_t> before(static_cast<size_t>(b.shape(y).rank)), after = before;
    before[static_cast<size_t>(axis)] = std::min(by, n);
    const NodeId kept = b.Slice(y, axis, 0, 1, n - std::min(by, n));
    return b.WithSizes(b.PadConstant(kept, one, before, after), b.SizesOf(y));
  };
  if (exclusive) x = later(x, 1);
  for (int64_t by = 1; by < n; by *= 2) x = b.Mul(x, later(x, by));
  return x;
}

template <NodeId (*kOf)(Builder&, NodeId, int, bool)>
Status Cumulative(OpContext& c) {
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> axes, c.ConstantInts(1));
  if (axes.size() != 1) return Status::Error(Code::kCorrupt, "the axis is not a scalar");
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(axes[0], c.rank(0)));
  bool exclusive = c.Int("exclusive", 0) != 0;
  bool reverse = c.Int("reverse", 0) != 0;
  const ir::Size n = c.SizeOf(0, axis);
  if (c.shape(0).elements() == 0) {
    return c.Give(c.In(0));
  }
  NodeId x = Widen(c.b, c.In(0));
  if (reverse) x = SliceOf(c.b, x, axis, n - 1, -1, n);
  x = kOf(c.b, x, axis, exclusive);
  if (reverse) x = SliceOf(c.b, x, axis, n - 1, -1, n);
  return c.Give(c.b.Cast(x, c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"ReduceSum", 1, Reduce<Sum>},
    {"ReduceProd", 1, Reduce<Prod>},
    {"ReduceMax", 1, Reduce<Max>},
    {"ReduceMin", 1, Reduce<Min>},
    {"ReduceMean", 1, Reduce<Mean>},
    {"ReduceSumSquare", 1, Reduce<SumSquare>},
    {"ReduceL1", 1, Reduce<L1>},
    {"ReduceL2", 1, Reduce<L2>},
    {"ReduceLogSum", 1, Reduce<LogSum>},
    {"ReduceLogSumExp", 1, Reduce<LogSumExp>},
    {"ArgMax", 1, Arg<ReduceKind::kArgMax>},
    {"ArgMin", 1, Arg<ReduceKind::kArgMin>},
    {"CumSum", 2, Cumulative<CumulativeSum>},
    {"CumProd", 2, Cumulative<CumulativeProduct>, 26},
};

}  // namespace

Span<const OpRow> ReduceOps() { return kOps; }

}  // namespace rondo::importer
