// Preprocessing operators of ai.onnx.ml, and TfIdfVectorizer. Operators on strings and trees are not
// supported.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/ngrams.h"
#include "compiler/import/registry.h"
#include "core/scalar.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr char kDomain[] = "ai.onnx.ml";

// Attribute `name` as numbers of `type` along the last dim of input 0: one per feature, or one for all.
Result<NodeId> PerFeature(OpContext& c, const char* name, DType type) {
  const std::vector<float> listed = c.Floats(name);
  const int64_t count = static_cast<int64_t>(listed.size()),
                features = c.rank(0) == 0 ? 1 : c.shape(0)[c.rank(0) - 1];
  if (count != 1 && count != features)
    return Status::Error(Code::kCorrupt, "%s has %lld numbers for %lld features", name,
                         static_cast<long long>(count), static_cast<long long>(features));
  const NodeId values = c.b.Floats(type, {count}, {listed.begin(), listed.end()});
  return count == 1 ? c.b.Reshape(values, Shape{}) : values;
}

Status Scaler(OpContext& c) {
  const DType type = c.dtype(0) == DType::kF64 ? DType::kF64 : DType::kF32;
  RONDO_ASSIGN_OR_RETURN(const NodeId offset, PerFeature(c, "offset", type));
  RONDO_ASSIGN_OR_RETURN(const NodeId scale, PerFeature(c, "scale", type));
  return c.Give(c.b.Cast(c.b.Mul(c.b.Sub(c.b.Cast(c.In(0), type), offset), scale), DType::kF32));
}

Status Normalizer(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, 2));
  if (c.shape(0).elements() == 0) return Status::Error(Code::kUnsupported, "input 0 has no elements");
  Builder& b = c.b;
  const std::string norm = c.String("norm", "MAX");
  const NodeId x = b.Cast(c.In(0), DType::kF32);
  const std::vector<int> last = {c.rank(0) - 1};
  NodeId size = b.Unary(TapeOp::kAbs, x);
  if (norm == "MAX")
    size = b.Reduce(ir::ReduceKind::kMax, x, last, true);
  else if (norm == "L1")
    size = b.Reduce(ir::ReduceKind::kSum, size, last, true);
  else if (norm == "L2")
    size = b.Unary(TapeOp::kSqrt, b.Reduce(ir::ReduceKind::kSum, b.Mul(x, x), last, true));
  else
    return Status::Error(Code::kCorrupt, "norm \"%.20s\": MAX, L1 or L2 is needed", norm.c_str());
  const NodeId none = b.Binary(TapeOp::kEqual, size, b.Scalar(DType::kF32, 0));
  return c.Give(b.Div(x, b.Select(none, b.Scalar(DType::kF32, 1), size)));
}

// Elements equal to the replaced value (or NaN, if that is NaN) become the imputed value of their feature.
Status Imputer(OpContext& c) {
  Builder& b = c.b;
  const DType type = c.dtype(0);
  NodeId value = kNoNode, missing = kNoNode;
  if (IsFloat(type)) {
    RONDO_ASSIGN_OR_RETURN(value, PerFeature(c, "imputed_value_floats", type));
    const float replaced = c.Float("replaced_value_float", 0);
    missing = std::isnan(replaced) ? b.Unary(TapeOp::kIsNan, c.In(0))
                                   : b.Binary(TapeOp::kEqual, c.In(0), b.Scalar(type, replaced));
  } else {
    const std::vector<int64_t> listed = c.Ints("imputed_value_int64s");
    const int64_t count = static_cast<int64_t>(listed.size());
    if (count < 1 || (count != 1 && (c.rank(0) == 0 || count != c.shape(0)[c.rank(0) - 1])))
      return Status::Error(Code::kCorrupt, "imputed_value_int64s has %lld numbers",
                           static_cast<long long>(count));
    value = count == 1 ? b.Ints(type, Shape{}, listed) : b.Ints(type, {count}, listed);
    missing = b.Binary(TapeOp::kEqual, c.In(0), b.Ints(type, Shape{}, {c.Int("replaced_value_int64", 0)}));
  }
  return c.Give(b.Select(missing, value, c.In(0)));
}

Status Binarizer(OpContext& c) {
  const NodeId threshold = c.b.Scalar(c.dtype(0), c.Float("threshold", 0));
  return c.Give(c.b.Cast(c.b.Binary(TapeOp::kLess, threshold, c.In(0)), c.dtype(0)));
}

// Keys or values of a LabelEncoder: a list of floats or integers, or a tensor.
Result<NodeId> Labels(OpContext& c, const std::string& kind) {
  if (c.HasAttribute((kind + "_strings").c_str()))
    return Status::Error(Code::kUnsupported, "%s_strings: rondo has no strings; encode them before the model",
                         kind.c_str());
  const onnx::AttributeProto* tensor = c.Attribute((kind + "_tensor").c_str());
  if (tensor != nullptr) return c.Tensor(tensor->t());
  if (c.HasAttribute((kind + "_int64s").c_str())) return c.b.I64(c.Ints((kind + "_int64s").c_str()));
  const std::vector<float> listed = c.Floats((kind + "_floats").c_str());
  return c.b.Floats(DType::kF32, {static_cast<int64_t>(listed.size())}, {listed.begin(), listed.end()});
}

// Maps each number to the value of its key, or to the default.
Status LabelEncoder(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(NodeId keys, Labels(c, "keys"));
  RONDO_ASSIGN_OR_RETURN(NodeId values, Labels(c, "values"));
  const int64_t count = b.shape(keys).elements();
  if (count < 1 || b.shape(values).elements() != count || b.dtype(keys) != c.dtype(0) ||
      c.rank(0) >= kMaxRank)
    return Status::Error(Code::kCorrupt, "%lld keys of %s and %lld values for numbers of %s",
                         static_cast<long long>(count), Name(b.dtype(keys)),
                         static_cast<long long>(b.shape(values).elements()), Name(c.dtype(0)));
  const DType type = b.dtype(values);
  NodeId otherwise = kNoNode;
  if (const onnx::AttributeProto* tensor = c.Attribute("default_tensor")) {
    RONDO_ASSIGN_OR_RETURN(otherwise, c.Tensor(tensor->t()));
    if (b.shape(otherwise).elements() != 1 || b.dtype(otherwise) != type)
      return Status::Error(Code::kCorrupt, "default_tensor is not one number of %s", Name(type));
    otherwise = b.Reshape(otherwise, Shape{});
  } else {
    otherwise = IsFloat(type) ? b.Scalar(type, c.Float("default_float", -0.0f))
                              : b.Ints(type, Shape{}, {c.Int("default_int64", -1)});
  }
  const NodeId x = b.Unsqueeze(c.In(0), c.rank(0));
  keys = b.Reshape(keys, {count});
  NodeId equal = b.Binary(TapeOp::kEqual, x, keys);
  if (IsFloat(c.dtype(0))) {  // NaN is a valid key
    equal = b.Binary(TapeOp::kBitOr, equal,
                     b.Binary(TapeOp::kBitAnd, b.Unary(TapeOp::kIsNan, x), b.Unary(TapeOp::kIsNan, keys)));
  }
  const NodeId here = b.Cast(equal, DType::kI32);
  const NodeId at =
      b.Reduce(ir::ReduceKind::kArgMax, here, {c.rank(0)}, false, true);  // the last of equal keys
  const NodeId any = b.Binary(TapeOp::kEqual, b.Reduce(ir::ReduceKind::kMax, here, {c.rank(0)}, false),
                              b.Scalar(DType::kI32, 1));
  return c.Give(b.Select(any, b.Gather(b.Reshape(values, {count}), at, 0, false), otherwise));
}

// Selects the elements of the last dim by index.
Status ArrayFeatureExtractor(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  const int64_t count = c.shape(1).elements();
  if (c.shape(0).elements() == 0 || count == 0)
    return Status::Error(Code::kCorrupt, "nothing to take, or to take from");
  NodeId x = c.rank(0) == 1 ? c.b.Unsqueeze(c.In(0), 0) : c.In(0);
  const NodeId index = c.b.Reshape(c.b.Cast(c.In(1), DType::kI64), {count});
  return c.Give(c.b.Gather(x, index, c.b.shape(x).rank - 1, false));
}

constexpr OpRow kOps[] = {
    {"TfIdfVectorizer", 1, TfIdfVectorizer, 9},
    {"Scaler", 1, Scaler, 1, kLatest, kDomain},
    {"Normalizer", 1, Normalizer, 1, kLatest, kDomain},
    {"Imputer", 1, Imputer, 1, kLatest, kDomain},
    {"Binarizer", 1, Binarizer, 1, kLatest, kDomain},
    {"LabelEncoder", 1, LabelEncoder, 2, kLatest, kDomain},
    {"ArrayFeatureExtractor", 2, ArrayFeatureExtractor, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> MlOps() { return kOps; }

}  // namespace rondo::importer
