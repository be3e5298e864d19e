// Fourier transforms as matmuls with a constant matrix. Complex tensors have a last dim of 2.
#include <algorithm>
#include <cmath>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr int64_t kMostMatrix = 1 << 24;  // elements of the matrix

struct Transform {
  int64_t n = 1;          // points of the whole transform
  int64_t points = 1;     // points given: n, or n / 2 + 1 that imply their conjugates
  int64_t parts = 1;      // values per given point: 1 real, 2 complex
  int64_t bins = 1;       // results: n, or n / 2 + 1
  int64_t out_parts = 2;  // values per result: 1 if real
  bool inverse = false;
};

Status CheckSize(const Transform& t) {
  if (t.n >= 1 && t.n <= kMostMatrix && t.points * t.parts * t.bins * t.out_parts <= kMostMatrix)
    return Status::Ok();
  return Status::Error(Code::kUnsupported,
                       "a transform of %lld points; its matrix would exceed %lld elements",
                       static_cast<long long>(t.n), static_cast<long long>(kMostMatrix));
}

// The matrix [points * parts, bins * out_parts].
NodeId Matrix(Builder& b, const Transform& t, DType dtype) {
  const double kTurn = 2 * std::acos(-1.0);
  double scale = t.inverse ? 1.0 / static_cast<double>(t.n) : 1, sign = t.inverse ? 1 : -1;
  size_t row = static_cast<size_t>(t.bins * t.out_parts);
  std::vector<double> m(static_cast<size_t>(t.points * t.parts) * row);
  for (int64_t i = 0; i < t.points; ++i) {
    // A conjugate that is not given adds the same real part again.
    bool twice = t.points != t.n && i != 0 && 2 * i != t.n;
    for (int64_t k = 0; k < t.bins; ++k) {
      // Reduces i * k first: large angles would lose digits.
      double angle = sign * kTurn * static_cast<double>(i * k % t.n) / static_cast<double>(t.n);
      double part[2] = {std::cos(angle) * scale, std::sin(angle) * scale};
      size_t at = static_cast<size_t>(i * t.parts) * row + static_cast<size_t>(k * t.out_parts);
      for (int64_t o = 0; o < t.out_parts; ++o) {
        m[at + static_cast<size_t>(o)] = twice ? 2 * part[o] : part[o];
        double turned = o == 0 ? -part[1] : part[0];
        if (t.parts == 2) m[at + row + static_cast<size_t>(o)] = twice ? 2 * turned : turned;
      }
    }
  }
  return b.Floats(dtype, {t.points * t.parts, t.bins * t.out_parts}, m);
}

// Transforms the second to last dim of x [..., points, parts] into [..., bins, out_parts].
NodeId Apply(Builder& b, NodeId x, const Transform& t) {
  Shape flat = b.shape(x), out = b.shape(x);
  out.dims[out.rank - 2] = t.bins;
  out.dims[out.rank - 1] = t.out_parts;
  flat.rank -= 1;
  flat.dims[flat.rank - 1] = t.points * t.parts;
  return b.Reshape(b.MatMul(b.Reshape(x, flat), Matrix(b, t, b.dtype(x))), out);
}

// The first n elements along `axis`, padded with zeros.
NodeId FitTo(Builder& b, NodeId x, int axis, int64_t n) {
  Shape shape = b.shape(x);
  if (n <= shape[axis]) return b.Slice(x, axis, 0, 1, n);
  std::vector<int64_t> before(static_cast<size_t>(shape.rank), 0), after = before;
  after[static_cast<size_t>(axis)] = n - shape[axis];
  return b.PadConstant(x, b.Scalar(b.dtype(x), 0), before, after);
}

// x [..., n, ..., 1 or 2] along one axis before the last.
Status Dft(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  Builder& b = c.b;
  int rank = c.rank(0);
  int64_t along = c.opset >= 20 ? -2 : c.Int("axis", 1);
  if (c.opset >= 20 && c.Has(2)) {
    RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> given, c.ConstantInts(2));
    if (given.size() != 1) return Status::Error(Code::kCorrupt, "axis must be one number");
    along = given[0];
  }
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(along, rank));
  Transform t;
  t.parts = c.shape(0)[rank - 1];
  t.inverse = c.Int("inverse", 0) != 0;
  bool onesided = c.Int("onesided", 0) != 0;
  if (axis == rank - 1 || (t.parts != 1 && t.parts != 2)) {
    return Status::Error(Code::kCorrupt, "axis %d of shape %s", axis, Text(c.shape(0)).c_str());
  }
  if (onesided && (t.parts == 2) != t.inverse) {
    return Status::Error(Code::kUnsupported, "onesided with %s input%s", t.parts == 2 ? "complex" : "real",
                         t.inverse ? " and inverse" : "");
  }
  t.n = c.shape(0)[axis];
  if (onesided && t.inverse) t.n = std::max<int64_t>(1, 2 * (t.n - 1));
  if (c.Has(1)) {
    RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> length, c.ConstantInts(1));
    if (length.size() != 1) return Status::Error(Code::kCorrupt, "dft_length must be one number");
    t.n = length[0];
  }
  if (c.shape(0).elements() == 0) return Status::Error(Code::kUnsupported, "an empty tensor");
  t.points = onesided && t.inverse ? t.n / 2 + 1 : t.n;
  t.bins = onesided && !t.inverse ? t.n / 2 + 1 : t.n;
  t.out_parts = onesided && t.inverse ? 1 : 2;
  RONDO_RETURN_IF_ERROR(CheckSize(t));
  NodeId x = FitTo(b, Widen(b, c.In(0)), axis, t.points);
  // Moves the axis next to the parts, and back.
  std::vector<int> there = AxisRange(0, rank);
  std::swap(there[static_cast<size_t>(axis)], there[static_cast<size_t>(rank - 2)]);
  NodeId y = b.Transpose(Apply(b, b.Transpose(x, there), t), there);
  return c.Give(b.Cast(y, c.dtype(0)));
}

// signal [batch, length, 1 or 2] in windows that begin every `frame_step` elements: [batch, frames, bins, 2].
Status Stft(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 3));
  Builder& b = c.b;
  NodeId x = c.rank(0) == 2 ? b.Unsqueeze(c.In(0), 2) : c.In(0);
  const Shape shape = b.shape(x);
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> step, c.ConstantInts(1));
  Transform t;
  t.parts = shape[2];
  if (c.Has(2)) t.n = c.shape(2).elements();
  if (c.Has(3)) {
    RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> length, c.ConstantInts(3));
    if (length.size() != 1) return Status::Error(Code::kCorrupt, "frame_length must be one number");
    t.n = length[0];
  }
  bool onesided = c.Int("onesided", 1) != 0;
  if (step.size() != 1 || step[0] < 1 || (!c.Has(2) && !c.Has(3)) || t.n < 1 || t.n > shape[1] ||
      (t.parts != 1 && t.parts != 2) || (onesided && t.parts == 2)) {
    return Status::Error(Code::kCorrupt, "frames of %lld elements of a signal of shape %s",
                         static_cast<long long>(t.n), Text(c.shape(0)).c_str());
  }
  t.points = t.n;
  t.bins = onesided ? t.n / 2 + 1 : t.n;
  RONDO_RETURN_IF_ERROR(CheckSize(t));
  ir::ViewStep frames;
  frames.shape = {shape[0], (shape[1] - t.n) / step[0] + 1, t.n, t.parts};
  frames.strides[0] = shape[1] * t.parts;
  frames.strides[1] = step[0] * t.parts;
  frames.strides[2] = t.parts;
  frames.strides[3] = 1;
  NodeId cut = b.ViewNode(Widen(b, x), ir::View{{frames}});
  if (c.Has(2)) {
    if (c.shape(2).elements() != t.n || c.dtype(2) != c.dtype(0)) {
      return Status::Error(Code::kUnsupported, "a window of %lld elements for frames of %lld",
                           static_cast<long long>(c.shape(2).elements()), static_cast<long long>(t.n));
    }
    cut = b.Mul(cut, b.Reshape(Widen(b, c.In(2)), {t.n, 1}));
  }
  return c.Give(b.Cast(Apply(b, cut, t), c.dtype(0)));
}

// Multiplies complex numbers [.., 2]; with kConjugate, by the conjugates of B.
template <bool kConjugate>
Status ComplexMul(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  for (const int i : {0, 1}) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(i, 1, kMaxRank));
    if (c.shape(i)[c.rank(i) - 1] != 2) return DoesNotFit(c, i, Shape({2}));
  }
  RONDO_ASSIGN_OR_RETURN(const Shape s, c.Broadcast(c.shape(0), c.shape(1)));
  const NodeId x = b.Expand(c.In(0), s), y = b.Expand(c.In(1), s);
  const int last = s.rank - 1;
  const NodeId re[] = {b.Slice(x, last, 0, 1, 1), b.Slice(y, last, 0, 1, 1)},
               im[] = {b.Slice(x, last, 1, 1, 1), b.Slice(y, last, 1, 1, 1)};
  const NodeId both = b.Mul(im[0], im[1]), rest = b.Mul(re[0], im[1]);
  const NodeId real = kConjugate ? b.Add(b.Mul(re[0], re[1]), both) : b.Sub(b.Mul(re[0], re[1]), both);
  const NodeId cross = b.Mul(im[0], re[1]);
  return c.Give(b.Concat({real, kConjugate ? b.Sub(cross, rest) : b.Add(rest, cross)}, last));
}

constexpr OpRow kOps[] = {
    {"DFT", 1, Dft, 17},
    {"STFT", 2, Stft, 17},
    {"ComplexMul", 2, ComplexMul<false>, 1, kLatest, "com.microsoft"},
    {"ComplexMulConj", 2, ComplexMul<true>, 1, kLatest, "com.microsoft"},
};

}  // namespace

Span<const OpRow> FourierOps() { return kOps; }

}  // namespace rondo::importer
