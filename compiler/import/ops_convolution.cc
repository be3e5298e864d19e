// Convolutions and transposed convolutions.
#include <algorithm>

#include "compiler/import/decompose.h"
#include "compiler/import/quantise.h"
#include "compiler/import/registry.h"
#include "compiler/import/transposed_convolution.h"
#include "compiler/import/window.h"

namespace rondo::importer {
namespace {

// Reads the convolution of x [n, c, ...] and w [o, c / groups, ...], inputs `x` and `w`, and checks their
// shapes.
Result<ir::ConvAttrs> ReadConv(OpContext& c, int x, int w) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(x, 3, 5));
  const Shape &xs = c.shape(x), &ws = c.shape(w);
  int64_t groups = c.Int("group", 1);
  if (ws.rank != xs.rank || groups < 1 || xs[1] % groups != 0 || ws[1] != xs[1] / groups ||
      ws[0] % groups != 0 || ws.elements() == 0) {
    return Status::Error(Code::kCorrupt, "input %s and weight %s with %lld groups do not fit",
                         Text(xs).c_str(), Text(ws).c_str(), static_cast<long long>(groups));
  }
  std::vector<int64_t> kernel(ws.begin() + 2, ws.end());
  if (c.HasAttribute("kernel_shape") && c.Ints("kernel_shape") != kernel) {
    return Status::Error(Code::kCorrupt, "kernel_shape contradicts the weight's shape %s", Text(ws).c_str());
  }
  RONDO_ASSIGN_OR_RETURN(WindowAttrs window, ReadWindow(c, kernel, false));
  std::vector<int64_t> dims = {xs[0], ws[0]};
  dims.insert(dims.end(), window.output.begin(), window.output.end());
  RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
  return ir::ConvAttrs{window.strides, window.dilations, window.pads_begin, window.pads_end, groups};
}

// Adds the bias along the channels.
Result<NodeId> AddBias(OpContext& c, NodeId y, NodeId bias) {
  if (c.b.shape(bias).rank != 1 || c.b.shape(bias)[0] != c.b.shape(y)[1] || c.b.dtype(bias) != c.b.dtype(y)) {
    return Status::Error(Code::kCorrupt, "bias of shape %s for %lld channels", Text(c.b.shape(bias)).c_str(),
                         static_cast<long long>(c.b.shape(y)[1]));
  }
  return c.b.Add(y, AlongAxis(c.b, bias, 1, c.b.shape(y).rank));
}

Status Conv(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  RONDO_ASSIGN_OR_RETURN(ir::ConvAttrs attrs, ReadConv(c, 0, 1));
  NodeId y = c.b.Conv(c.In(0), c.In(1), attrs);
  if (c.Has(2)) {
    RONDO_ASSIGN_OR_RETURN(y, AddBias(c, y, c.In(2)));
  }
  return c.Give(y);
}

// x - zero as f32; 8-bit values and their sums up to 2^24 are exact. The zero point is a scalar or, for
// weights, one value per output channel.
Result<NodeId> CentredNow(OpContext& c, int x, int zero) {
  NodeId value = c.b.Cast(c.In(x), DType::kF32);
  if (!c.Has(zero)) return value;
  NodeId z = c.b.Cast(c.In(zero), DType::kF32);
  if (c.shape(zero).elements() == 1) return c.b.Sub(value, c.b.Reshape(z, Shape{}));
  if (c.rank(zero) != 1 || c.shape(zero)[0] != c.shape(x)[0]) {
    return Status::Error(Code::kCorrupt, "zero point of shape %s", Text(c.shape(zero)).c_str());
  }
  return c.b.Sub(value, AlongAxis(c.b, z, 0, c.rank(x)));
}

// Nothing is folded into a constant x until its readers are known.
Result<NodeId> Centred(OpContext& c, int x, int zero) {
  c.b.FoldConstants(false);
  Result<NodeId> value = CentredNow(c, x, zero);
  c.b.FoldConstants(true);
  return value;
}

// Padding equals the zero point, so it is 0 after the zero point is subtracted.
Status ConvInteger(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireInteger(0));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  RONDO_ASSIGN_OR_RETURN(ir::ConvAttrs attrs, ReadConv(c, 0, 1));
  RONDO_ASSIGN_OR_RETURN(NodeId x, Centred(c, 0, 2));
  RONDO_ASSIGN_OR_RETURN(NodeId w, Centred(c, 1, 3));
  return c.Give(c.b.Cast(c.b.Conv(x, w, attrs), DType::kI32));
}

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, [bias].
Status QLinearConv(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireInteger(0));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(3));
  RONDO_ASSIGN_OR_RETURN(ir::ConvAttrs attrs, ReadConv(c, 0, 3));
  RONDO_ASSIGN_OR_RETURN(NodeId x, Centred(c, 0, 2));
  RONDO_ASSIGN_OR_RETURN(NodeId w, Centred(c, 3, 5));
  NodeId y = c.b.Conv(x, w, attrs);
  int rank = c.rank(0);
  if (c.Has(8)) {
    RONDO_ASSIGN_OR_RETURN(y, AddBias(c, y, c.b.Cast(c.In(8), DType::kF32)));
  }
  if (c.shape(1).elements() != 1 || c.shape(6).elements() != 1 || c.shape(7).elements() != 1 ||
      (c.shape(4).elements() != 1 && c.shape(4).elements() != c.shape(3)[0])) {
    return Status::Error(Code::kCorrupt, "scales that do not fit");
  }
  NodeId scales[3] = {c.In(1), c.In(4), c.In(6)};  // of x, w and y
  for (NodeId& s : scales) {
    s = c.b.Cast(s, DType::kF32);
    s = c.b.shape(s).elements() == 1 ? c.b.Reshape(s, Shape{}) : AlongAxis(c.b, s, 1, rank);
  }
  // One combined factor, as in ONNX Runtime and ONNX's reference.
  y = c.b.Mul(y, c.b.Div(c.b.Mul(scales[0], scales[1]), scales[2]));
  return c.Give(Quantise(c.b, y, c.b.Scalar(DType::kF32, 1), c.b.Reshape(c.In(7), Shape{}), c.dtype(7)));
}

// ---------------------------------------------------------------------------------- transposed

Status ReadTransposedPads(OpContext& c, const Shape& x, TransposedWindows* t) {
  int spatial = x.rank - 2;
  std::string auto_pad = c.String("auto_pad", "NOTSET");
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> pads, SpatialInts(c, "pads", 2 * spatial, 0));
  if (auto_pad != "NOTSET") std::fill(pads.begin(), pads.end(), 0);
  t->pads_begin.assign(pads.begin(), pads.begin() + spatial);
  t->pads_end.assign(pads.begin() + spatial, pads.end());
  std::vector<int64_t> output = c.Ints("output_shape");
  bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (output.empty() && !same) return Status::Ok();
  if (output.size() == static_cast<size_t>(x.rank)) output.erase(output.begin(), output.begin() + 2);
  if (!output.empty() && output.size() != static_cast<size_t>(spatial)) {
    return Status::Error(Code::kCorrupt, "output_shape has %zu entries", output.size());
  }
  for (int i = 0; i < spatial; ++i) {
    size_t a = static_cast<size_t>(i);
    int64_t wanted = output.empty() ? x[i + 2] * t->strides[a] : output[a];
    int64_t total = t->strides[a] * (x[i + 2] - 1) + t->extra[a] + t->Reach(a) - wanted;
    if (wanted < 1 || wanted > int64_t{1} << 31) {
      return Status::Error(Code::kCorrupt, "output_shape of %lld", static_cast<long long>(wanted));
    }
    if (total < 0 && output.empty()) {
      return Status::Error(Code::kUnsupported, "auto_pad %s with windows that leave gaps", auto_pad.c_str());
    }
    if (total < 0) {  // longer than the windows reach: the rest is only the bias
      t->extra[a] -= total;
      total = 0;
    }
    // An odd pad goes to the end for SAME_UPPER, and otherwise to the beginning.
    t->pads_begin[a] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    t->pads_end[a] = total - t->pads_begin[a];
  }
  return Status::Ok();
}

Result<TransposedWindows> ReadTransposed(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 5));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  const Shape &x = c.shape(0), &w = c.shape(1);
  int spatial = x.rank - 2;
  TransposedWindows t;
  t.groups = c.Int("group", 1);
  if (w.rank != x.rank || t.groups < 1 || x[1] != w[0] || x[1] % t.groups != 0 || w.elements() == 0 ||
      x.elements() == 0) {
    return Status::Error(Code::kCorrupt, "input %s and weight %s with %lld groups do not fit",
                         Text(x).c_str(), Text(w).c_str(), static_cast<long long>(t.groups));
  }
  t.kernel.assign(w.begin() + 2, w.end());
  for (int d = 1; d < x.rank; ++d) {
    if (x[d] >= int64_t{1} << 31 || w[d] >= int64_t{1} << 31 || t.groups >= int64_t{1} << 31) {
      return Status::Error(Code::kUnsupported, "an extent of %lld",
                           static_cast<long long>(std::max(x[d], w[d])));
    }
  }
  RONDO_ASSIGN_OR_RETURN(t.strides, SpatialInts(c, "strides", spatial, 1));
  RONDO_ASSIGN_OR_RETURN(t.dilations, SpatialInts(c, "dilations", spatial, 1));
  RONDO_ASSIGN_OR_RETURN(t.extra, SpatialInts(c, "output_padding", spatial, 0));
  RONDO_RETURN_IF_ERROR(ReadTransposedPads(c, x, &t));
  std::vector<int64_t> dims = {x[0], std::max(x[1], w[1] * t.groups)};
  for (int i = 0; i < spatial; ++i) {
    size_t a = static_cast<size_t>(i);
    int64_t out = t.strides[a] * (x[i + 2] - 1) + t.extra[a] + t.Reach(a) - t.pads_begin[a] - t.pads_end[a];
    if (out < 1) {
      return Status::Error(Code::kCorrupt, "axis %d of the result has %lld elements", i + 2,
                           static_cast<long long>(out));
    }
    dims.push_back(std::max(out, x[i + 2] * t.strides[a]));
  }
  RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
  return t;
}

Status ConvTranspose(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(TransposedWindows t, ReadTransposed(c));
  for (size_t i = 0; i < t.kernel.size(); ++i) {
    int64_t begin = t.Reach(i) - 1 - t.pads_begin[i];
    int64_t end = t.Reach(i) - 1 - t.pads_end[i] + t.extra[i] - (t.strides[i] - 1);
    int64_t length = c.shape(0)[static_cast<int>(i) + 2] * t.strides[i];
    if (std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0) + length < 1) {
      return Status::Error(Code::kUnsupported, "pads that remove the whole of axis %zu", i + 2);
    }
  }
  NodeId y = TransposedConvolution(c.b, c.In(0), c.In(1), t);
  if (c.Has(2)) {
    RONDO_ASSIGN_OR_RETURN(y, AddBias(c, y, c.In(2)));
  }
  return c.Give(y);
}

constexpr OpRow kOps[] = {
    {"Conv", 2, Conv},
    {"ConvInteger", 2, ConvInteger},
    {"QLinearConv", 8, QLinearConv},
    {"ConvTranspose", 2, ConvTranspose},
};

}  // namespace

Span<const OpRow> ConvolutionOps() { return kOps; }

}  // namespace rondo::importer
