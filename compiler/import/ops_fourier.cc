// Fourier transforms as matmuls with constant matrices. Complex tensors have a last dim of 2.
//
// A transform of n = P * Q points is two steps of P and of Q points (Cooley and Tukey, 1965): with
// i = Q * i1 + i2 and k = k1 + P * k2,
//   X[k] = sum over i2 of e(i2 * k / n) * (sum over i1 of e(i1 * k1 / P) * x[i]),   e(t) = exp(-2 pi i t).
// The first sum is a transform of P points, which may have steps itself; the second is a matmul with a matrix
// for each k1, which includes the twiddle factors.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <map>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr int64_t kMostMatrix = 1 << 24;  // elements of a matrix
constexpr int64_t kMostPoints = 1 << 20;

struct Transform {
  int64_t n = 1;          // points of the whole transform
  int64_t points = 1;     // points given; the others are 0, or conjugates if `mirrored`
  int64_t parts = 1;      // values per given point: 1 real, 2 complex
  int64_t bins = 1;       // results: the first of n
  int64_t out_parts = 2;  // values per result: 1 if only their real parts are wanted
  bool inverse = false;
  bool mirrored = false;  // point n - i is the conjugate of point i
  double scale = 1;
};

int64_t SizeOfMatrix(const Transform& t) { return t.points * t.parts * t.bins * t.out_parts; }

// exp(-2 pi i * turns / n), or its conjugate. Reduces the turns first: large angles would lose digits.
std::complex<double> Rotation(int64_t turns, int64_t n, bool inverse) {
  const double kTurn = 2 * std::acos(-1.0);
  return std::polar(1.0,
                    (inverse ? kTurn : -kTurn) * static_cast<double>(turns % n) / static_cast<double>(n));
}

// How often a point counts: a conjugate that is not given adds the same real part again.
double CountOf(const Transform& t, int64_t i) { return t.mirrored && i != 0 && 2 * i != t.n ? 2 : 1; }

// Writes `factor` to a matrix of rows of `row` numbers: what a point adds to a result, of one or two parts
// each, the first of them at `m`.
void Put(std::complex<double> factor, const Transform& t, int64_t row, double* m) {
  const double by[2][2] = {{factor.real(), factor.imag()}, {-factor.imag(), factor.real()}};
  for (int64_t p = 0; p < t.parts; ++p)
    for (int64_t o = 0; o < t.out_parts; ++o) m[p * row + o] = by[p][o];
}

// A transform in one step: the second to last dim of x [..., points, parts] becomes [..., bins, out_parts].
NodeId InOneStep(Builder& b, NodeId x, const Transform& t) {
  const int64_t row = t.bins * t.out_parts;
  std::vector<double> m(static_cast<size_t>(SizeOfMatrix(t)));
  for (int64_t i = 0; i < t.points; ++i)
    for (int64_t k = 0; k < t.bins; ++k)
      Put(t.scale * CountOf(t, i) * Rotation(i * k, t.n, t.inverse), t, row,
          m.data() + i * t.parts * row + k * t.out_parts);
  Shape flat = b.shape(x), out = b.shape(x);
  out.dims[out.rank - 2] = t.bins;
  out.dims[out.rank - 1] = t.out_parts;
  flat.rank -= 1;
  flat.dims[flat.rank - 1] = t.points * t.parts;
  const NodeId matrix = b.Floats(b.dtype(x), {t.points * t.parts, row}, m);
  return b.Reshape(b.MatMul(b.Reshape(x, flat), matrix), out);
}

// The two steps of a transform: P and Q.
struct Steps {
  int64_t first = 0, last = 0;
  double cost = 0;  // multiplications for each of n points
};

// The last step: Q points of two parts for each of the first step's P results.
Transform LastOf(const Transform& t, const Steps& steps) {
  Transform last = t;
  last.points = steps.last;
  last.parts = 2;
  last.bins = (t.bins + steps.first - 1) / steps.first;
  return last;
}

Transform FirstOf(const Transform& t, const Steps& steps) {
  Transform first;
  first.n = first.bins = steps.first;
  first.points = (t.points + steps.last - 1) / steps.last;
  first.parts = t.parts;
  first.inverse = t.inverse;
  return first;
}

// Finds the cheapest steps. Remembers those of first steps, which many choices share.
class Planner {
 public:
  // `first` is 0 if one step is cheapest, and `cost` infinite if no matrix is small enough.
  Steps Of(const Transform& t) {
    // An intermediate result is written and read again.
    constexpr double kPass = 128;
    Steps best;
    best.cost = SizeOfMatrix(t) <= kMostMatrix ? EachOf(t, t.n) : std::numeric_limits<double>::infinity();
    for (int64_t d = 2; d * d <= t.n; ++d) {
      if (t.n % d != 0) continue;
      for (const int64_t q : {d, t.n / d}) {
        Steps steps{t.n / q, q, 0};
        const Transform last = LastOf(t, steps);
        if (steps.first * SizeOfMatrix(last) > kMostMatrix) continue;
        steps.cost = kPass + CostOf(FirstOf(t, steps)) + EachOf(last, q);
        if (steps.cost < best.cost) best = steps;
      }
    }
    return best;
  }

 private:
  static double EachOf(const Transform& t, int64_t n) {
    return static_cast<double>(SizeOfMatrix(t)) / static_cast<double>(n);
  }
  double CostOf(const Transform& first) {
    const std::pair<int64_t, int64_t> key{first.n, first.points};
    if (const auto known = costs_.find(key); known != costs_.end()) return known->second;
    return costs_[key] = Of(first).cost;
  }
  std::map<std::pair<int64_t, int64_t>, double> costs_;
};

Steps StepsOf(const Transform& t) { return Planner().Of(t); }

Status CheckSize(const Transform& t) {
  if (t.n >= 1 && t.n <= kMostPoints && std::isfinite(StepsOf(t).cost)) return Status::Ok();
  return Status::Error(
      Code::kUnsupported,
      "a transform of %lld points: rondo knows transforms of up to %lld points, of lengths that "
      "are products of small factors; its matrices would exceed %lld elements",
      static_cast<long long>(t.n), static_cast<long long>(kMostPoints), static_cast<long long>(kMostMatrix));
}

// The first n elements along `axis`, padded with zeros.
NodeId FitTo(Builder& b, NodeId x, int axis, int64_t n) {
  Shape shape = b.shape(x);
  if (n <= shape[axis]) return b.Slice(x, axis, 0, 1, n);
  std::vector<int64_t> before(static_cast<size_t>(shape.rank), 0), after = before;
  after[static_cast<size_t>(axis)] = n - shape[axis];
  return b.PadConstant(x, b.Scalar(b.dtype(x), 0), before, after);
}

// Transforms the second to last dim of x [..., points, parts] into [..., bins, out_parts].
NodeId Apply(Builder& b, NodeId x, const Transform& t) {
  const Steps steps = StepsOf(t);
  if (steps.first == 0) return InOneStep(b, x, t);
  const int64_t p = steps.first, q = steps.last;
  const Shape given = b.shape(x);
  const int64_t others = given.elements() / (t.points * t.parts);
  if (t.mirrored) {
    std::vector<double> counts;
    for (int64_t i = 0; i < t.points; ++i) counts.push_back(CountOf(t, i));
    x = b.Mul(x, b.Floats(b.dtype(x), {t.points, 1}, counts));
  }
  const Transform first = FirstOf(t, steps), last = LastOf(t, steps);
  x = FitTo(b, b.Reshape(x, {others, t.points, t.parts}), 1, first.points * q);
  x = b.Transpose(b.Reshape(x, {others, first.points, q, t.parts}), {0, 2, 1, 3});
  x = b.Transpose(Apply(b, x, first), {2, 0, 1, 3});  // [p, others, q, 2]

  const int64_t row = last.bins * t.out_parts, size = 2 * q * row;
  std::vector<double> m(static_cast<size_t>(p * size));
  for (int64_t k1 = 0; k1 < p; ++k1)
    for (int64_t i = 0; i < q; ++i)
      for (int64_t k2 = 0; k2 < last.bins; ++k2)
        Put(t.scale * Rotation(i * (k1 + p * k2), t.n, t.inverse), last, row,
            m.data() + k1 * size + i * 2 * row + k2 * t.out_parts);
  x = b.MatMul(b.Reshape(x, {p, others, 2 * q}), b.Floats(b.dtype(x), {p, 2 * q, row}, m));
  x = b.Transpose(b.Reshape(x, {p, others, last.bins, t.out_parts}), {1, 2, 0, 3});
  x = b.Slice(b.Reshape(x, {others, last.bins * p, t.out_parts}), 1, 0, 1, t.bins);
  Shape out = given;
  out.dims[out.rank - 2] = t.bins;
  out.dims[out.rank - 1] = t.out_parts;
  return b.Reshape(x, out);
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
  t.mirrored = onesided && t.inverse;
  t.scale = t.inverse ? 1.0 / static_cast<double>(t.n) : 1;
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
