// Tensors made from shapes and numbers, and shapes of tensors. All of them are known at import.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/data_sizes.h"
#include "compiler/import/decompose.h"
#include "compiler/import/narrow_weight.h"
#include "compiler/import/registry.h"
#include "compiler/import/sizes_of_data.h"
#include "compiler/import/sparse_constant.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {
namespace {

Status Constant(OpContext& c) {
  if (const onnx::AttributeProto* value = c.Attribute("value"); value != nullptr && value->has_t()) {
    if (NarrowBits(value->t().data_type()) != 0) {
      RONDO_ASSIGN_OR_RETURN(Value narrow, c.host.LoadNarrow(value->t()));
      c.SetValue(0, std::move(narrow));
      return Status::Ok();
    }
    RONDO_ASSIGN_OR_RETURN(NodeId node, c.Tensor(value->t()));
    return c.Give(node);
  }
  if (c.HasAttribute("value_float")) {
    return c.Give(c.b.Scalar(DType::kF32, c.Float("value_float", 0)));
  }
  if (c.HasAttribute("value_int")) {
    return c.Give(c.b.Ints(DType::kI64, Shape{}, {c.Int("value_int", 0)}));
  }
  if (c.HasAttribute("value_ints")) {
    return c.Give(c.b.I64(c.Ints("value_ints")));
  }
  if (c.HasAttribute("value_floats")) {
    std::vector<float> floats = c.Floats("value_floats");
    return c.Give(
        c.b.Floats(DType::kF32, {static_cast<int64_t>(floats.size())}, {floats.begin(), floats.end()}));
  }
  const onnx::AttributeProto* sparse = c.Attribute("sparse_value");
  if (sparse != nullptr && sparse->has_sparse_tensor()) {
    RONDO_ASSIGN_OR_RETURN(NodeId node, SparseConstant(c.b, c.host, sparse->sparse_tensor()));
    return c.Give(node);
  }
  return Status::Error(Code::kUnsupported, "its value is a string, or it has none");
}

Status ConstantOfShape(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const ir::Dims dims, c.Sizes(0));
  RONDO_RETURN_IF_ERROR(c.ExtentsOf(dims).status());
  NodeId value = kNoNode;
  const onnx::AttributeProto* given = c.Attribute("value");
  if (given != nullptr && given->has_t()) {
    RONDO_ASSIGN_OR_RETURN(value, c.Tensor(given->t()));
    if (c.b.shape(value).elements() != 1) return Status::Error(Code::kCorrupt, "value is not one element");
    value = c.b.Reshape(value, Shape{});
  } else {
    value = c.b.Scalar(DType::kF32, 0);
  }
  return c.Give(c.b.ExpandTo(value, dims));
}

// The numbers as one tensor [n] of i64.
NodeId AsVector(ir::Builder& b, const ir::Dims& numbers) {
  std::vector<NodeId> parts;
  std::vector<int64_t> known;
  const auto flush = [&] {
    if (!known.empty()) parts.push_back(b.I64(known));
    known.clear();
  };
  for (const ir::Size& number : numbers) {
    if (const auto value = number.value()) {
      known.push_back(*value);
      continue;
    }
    flush();
    parts.push_back(b.Reshape(b.Number(number), {1}));
  }
  flush();
  return parts.empty() ? b.I64({}) : b.Concat(parts, 0);
}

Status RefuseUnknown(const ir::Dims& dims, const Shape& shape) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].unknown()) continue;
    return Status::Error(Code::kUnsupported, "dimension %zu of shape %s is not known as a size", d,
                         Text(shape).c_str());
  }
  return Status::Ok();
}

Status ShapeOf(OpContext& c) {
  int64_t rank = c.rank(0);
  auto clamp = [rank](int64_t v) { return std::min(std::max<int64_t>(v < 0 ? v + rank : v, 0), rank); };
  int64_t start = clamp(c.Int("start", 0)), end = clamp(c.Int("end", rank));
  ir::Dims dims;
  for (int64_t d = start; d < end; ++d) dims.push_back(c.b.FormOf(c.In(0), static_cast<int>(d)));
  RONDO_RETURN_IF_ERROR(RefuseUnknown(dims, c.shape(0)));
  return c.Give(AsVector(c.b, dims));
}

Status Size(OpContext& c) {
  ir::Dims dims;
  ir::Size elements = 1;
  for (int d = 0; d < c.rank(0); ++d) {
    dims.push_back(c.b.FormOf(c.In(0), d));
    elements = elements * dims.back();
  }
  RONDO_RETURN_IF_ERROR(RefuseUnknown(dims, c.shape(0)));
  return c.Give(c.b.Number(elements));
}

// A range of integers between ends that data decide.
Status RangeOfData(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> deltas, c.ConstantInts(2));
  const int decided = c.DataDecide(1) ? 1 : 0;
  (void)c.Known(c.In(decided));  // reports the inputs that decide the range
  SizesOfData* const names = c.host.NameSizes();
  if (names == nullptr) return DataSizedRange(c);
  constexpr int64_t kMost = 1 << 28;
  const bool scalars = c.shape(0).elements() == 1 && c.shape(1).elements() == 1 && deltas.size() == 1;
  if (!scalars || deltas[0] == 0 || deltas[0] > kMost || deltas[0] < -kMost)
    return Status::Error(Code::kCorrupt, "start, limit and delta must be scalars, and delta a number but 0");
  Builder& b = c.b;
  const auto scalar = [&](int i) { return b.Cast(b.Reshape(c.In(i), Shape{}), DType::kI64); };
  const NodeId start = scalar(0), limit = scalar(1), none = b.Scalar(DType::kI64, 0);
  const auto delta = static_cast<double>(deltas[0]), step = std::abs(delta);
  const NodeId span = b.Binary(TapeOp::kMax, delta > 0 ? b.Sub(limit, start) : b.Sub(start, limit), none);
  std::vector<int64_t> first;
  const bool counts = step == 1 && delta > 0 && b.ConstantInts(start, &first) && first[0] == 0;
  // If the range starts at 0, the limit itself is the length, wherever else it is read.
  const NodeId number =
      counts ? limit : b.BinaryScalar(TapeOp::kDiv, b.BinaryScalar(TapeOp::kAdd, span, step - 1), step);
  RONDO_ASSIGN_OR_RETURN(const ir::Size count, names->Number(c, decided, number));
  const NodeId steps = b.BinaryScalar(TapeOp::kMul, b.IotaOver({count}, 0), delta);
  return c.Give(b.Cast(b.Add(steps, start), c.dtype(0)));
}

Status Range(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 2));
  constexpr double kMost = 1 << 28;
  DType type = c.dtype(0);
  if (!IsFloat(type) && (c.DataDecide(0) || c.DataDecide(1))) return RangeOfData(c);
  const bool of_sizes = c.Sizes(0).ok() && c.Sizes(1).ok() && c.Sizes(2).ok();
  if (IsFloat(type) && !of_sizes) {
    RONDO_ASSIGN_OR_RETURN(std::vector<double> start, c.ConstantFloats(0));
    RONDO_ASSIGN_OR_RETURN(std::vector<double> limit, c.ConstantFloats(1));
    RONDO_ASSIGN_OR_RETURN(std::vector<double> delta, c.ConstantFloats(2));
    if (start.size() != 1 || limit.size() != 1 || delta.size() != 1 || delta[0] == 0) {
      return Status::Error(Code::kCorrupt, "start, limit and delta must be scalars, and delta not 0");
    }
    double count = std::max(std::ceil((limit[0] - start[0]) / delta[0]), 0.0);
    if (!(count <= kMost)) return Status::Error(Code::kUnsupported, "a range of %g elements", count);
    Shape shape{static_cast<int64_t>(count)};
    // Computed in f64 for f64, and in f32 for other types, as the operator's definition does.
    NodeId i = c.b.Cast(c.b.Iota(shape, 0), type == DType::kF64 ? type : DType::kF32);
    NodeId x = c.b.BinaryScalar(TapeOp::kMul, i, delta[0]);
    return c.Give(c.b.Cast(c.b.BinaryScalar(TapeOp::kAdd, x, start[0]), type));
  }
  RONDO_ASSIGN_OR_RETURN(const ir::Dims from, c.Sizes(0));
  RONDO_ASSIGN_OR_RETURN(const ir::Dims to, c.Sizes(1));
  RONDO_ASSIGN_OR_RETURN(const ir::Dims deltas, c.Sizes(2));
  const int64_t delta = deltas.size() != 1 ? 0 : deltas[0].value().value_or(0);
  if (from.size() != 1 || to.size() != 1 || delta == 0 || delta == std::numeric_limits<int64_t>::min()) {
    return Status::Error(Code::kCorrupt, "start, limit and delta must be scalars, and delta a number but 0");
  }
  const ir::Size start = from[0], limit = to[0], step = std::abs(delta);
  const ir::Size span = delta > 0 ? limit - start : start - limit;
  const ir::Size count = FloorDiv(Max(span, 0) + step - 1, step);
  if (static_cast<double>(count.extent()) > kMost)
    return Status::Error(Code::kUnsupported, "a range of %lld elements",
                         static_cast<long long>(count.extent()));
  NodeId i = c.b.IotaOver({count}, 0);
  NodeId x = c.b.Mul(i, c.b.Ints(DType::kI64, Shape{}, {delta}));
  return c.Give(c.b.Cast(c.b.Add(x, c.b.Number(start)), type));
}

Status EyeLike(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  DType type = c.dtype(0);
  if (c.HasAttribute("dtype")) {
    RONDO_ASSIGN_OR_RETURN(type, onnx::DTypeOf(static_cast<int>(c.Int("dtype", 1))));
  }
  NodeId row = c.b.IotaOver(c.SizesOf(0), 0), column = c.b.IotaOver(c.SizesOf(0), 1);
  NodeId diagonal = c.b.Add(row, c.b.Ints(DType::kI64, Shape{}, {c.Int("k", 0)}));
  return c.Give(c.b.Cast(c.b.Binary(TapeOp::kEqual, diagonal, column), type));
}

Status Trilu(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  NodeId k = c.b.Ints(DType::kI64, Shape{}, {0});
  if (c.Has(1)) {
    if (c.shape(1).elements() != 1 || c.dtype(1) != DType::kI64) {
      return Status::Error(Code::kCorrupt, "k is not one i64");
    }
    k = c.b.Reshape(c.In(1), Shape{});
  }
  int rank = c.rank(0);
  const ir::Dims plane = {c.SizeOf(0, rank - 2), c.SizeOf(0, rank - 1)};
  NodeId diagonal = c.b.Add(c.b.IotaOver(plane, 0), k);
  NodeId column = c.b.IotaOver(plane, 1);
  bool upper = c.Int("upper", 1) != 0;
  NodeId keep = upper ? c.b.Binary(TapeOp::kLessEqual, diagonal, column)
                      : c.b.Binary(TapeOp::kLessEqual, column, diagonal);
  return c.Give(c.b.Select(keep, c.In(0), c.b.Scalar(c.dtype(0), 0)));
}

// Window functions of signal processing, of a constant size: a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n).
Status Window(OpContext& c, double a0, double a1, double a2) {
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> size, c.ConstantInts(0));
  if (size.size() != 1 || size[0] < 0 || size[0] > 1 << 24) {
    return Status::Error(Code::kCorrupt, "its size is not one reasonable number");
  }
  RONDO_ASSIGN_OR_RETURN(DType type, onnx::DTypeOf(static_cast<int>(c.Int("output_datatype", 1))));
  int64_t n = size[0];
  double period = static_cast<double>(c.Int("periodic", 1) != 0 ? n : n - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) {
    double t = period == 0 ? 0 : 2 * std::acos(-1.0) * static_cast<double>(i) / period;
    values.push_back(n == 1 ? 1 : a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
  }
  return c.Give(c.b.Floats(type, {n}, values));
}

Status Hann(OpContext& c) { return Window(c, 0.5, 0.5, 0); }
Status Hamming(OpContext& c) { return Window(c, 25.0 / 46.0, 1 - 25.0 / 46.0, 0); }
Status Blackman(OpContext& c) { return Window(c, 0.42, 0.5, 0.08); }

// Triangular filters over the bins of a spectrum, evenly spaced in mel: [dft_length / 2 + 1, num_mel_bins].
Status MelWeightMatrix(OpContext& c) {
  double given[5];  // number of mel bins, DFT length, sample rate, lower and upper edge
  for (int i = 0; i < 5; ++i) {
    RONDO_ASSIGN_OR_RETURN(const std::vector<double> value, c.ConstantFloats(i));
    if (value.size() != 1) return Status::Error(Code::kCorrupt, "input %d is not one number", i);
    given[i] = value[0];
  }
  constexpr double kMost = 1 << 16;
  if (!(given[0] >= 1 && given[0] <= kMost && given[1] >= 1 && given[1] <= kMost && given[2] > 0 &&
        given[3] >= 0 && given[4] >= 0 && given[4] <= given[2]))
    return Status::Error(Code::kCorrupt, "%g bins of mel, a DFT of %g and a rate of %g", given[0], given[1],
                         given[2]);
  RONDO_ASSIGN_OR_RETURN(DType type, onnx::DTypeOf(static_cast<int>(c.Int("output_datatype", 1))));
  const auto mels = static_cast<int64_t>(given[0]), bins = static_cast<int64_t>(given[1]) / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); };
  const double low = mel(given[3]), step = (mel(given[4]) - low) / static_cast<double>(mels + 2);
  const auto bin = [&](int64_t i) {
    const double hertz = 700 * std::expm1((low + step * static_cast<double>(i)) / 2595 * std::log(10.0));
    return static_cast<int64_t>(std::floor((std::floor(given[1]) + 1) * hertz / given[2]));
  };
  std::vector<double> matrix(static_cast<size_t>(bins * mels), 0);
  for (int64_t i = 0; i < mels; ++i) {
    const int64_t first = bin(i), middle = bin(i + 1), end = bin(i + 2);
    if (first < 0 || end > bins)
      return Status::Error(Code::kCorrupt, "bin %lld of %lld", static_cast<long long>(end),
                           static_cast<long long>(bins));
    const auto put = [&](int64_t at, double value) {
      if (at < bins) matrix[static_cast<size_t>(at * mels + i)] = value;
    };
    const double up = static_cast<double>(middle - first), down = static_cast<double>(end - middle);
    if (up == 0) put(middle, 1);
    for (int64_t j = first; up > 0 && j <= middle; ++j) put(j, static_cast<double>(j - first) / up);
    for (int64_t j = middle; j < end; ++j) put(j, static_cast<double>(end - j) / down);
  }
  return c.Give(c.b.Floats(type, {bins, mels}, matrix));
}

constexpr OpRow kOps[] = {
    {"Constant", 0, Constant},
    {"ConstantOfShape", 1, ConstantOfShape},
    {"Shape", 1, ShapeOf},
    {"Size", 1, Size},
    {"Range", 3, Range},
    {"EyeLike", 1, EyeLike},
    {"Trilu", 1, Trilu},
    {"HannWindow", 1, Hann},
    {"HammingWindow", 1, Hamming},
    {"BlackmanWindow", 1, Blackman},
    {"MelWeightMatrix", 5, MelWeightMatrix, 17},
};

}  // namespace

Span<const OpRow> ShapeOps() { return kOps; }

}  // namespace rondo::importer
