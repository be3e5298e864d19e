// Operators that compute element by element, or along other dims.
#include <algorithm>

#include "compiler/import/data_sizes_rules.h"

namespace rondo::importer::data_sizes {
namespace {

Status EachPlace(const OpRow& row, OpContext& c) {
  Space space;
  int from_right = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const DataSizeFact* fact = FactOf(c, i);
    if (fact == nullptr) continue;
    if (fact->dim == nullptr) return Refuse(c, i, "computes with that number");
    if (space != nullptr && (!Same(space, fact->dim) || from_right != c.rank(i) - fact->axis))
      return Refuse(c, i, "brings it together with places of another kind");
    space = fact->dim;
    from_right = c.rank(i) - fact->axis;
  }
  int rank = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.Has(i)) continue;
    rank = std::max(rank, c.rank(i));
    const int axis = c.rank(i) - from_right;
    if (FactOf(c, i) == nullptr && axis >= 0 && c.shape(i)[axis] != 1)
      return Refuse(c, i, "has something of a fixed length beside it");
  }
  return Give(row, c, InputsOf(c), space, rank - from_right);
}

// The com.microsoft form may have both halves in its last dim.
Status GatedHalves(const OpRow& row, OpContext& c) {
  const DataSizeFact* fact = FactOf(c, 0);
  if (!c.Has(1) && fact != nullptr && fact->dim != nullptr && fact->axis == c.rank(0) - 1)
    return Refuse(c, 0, "takes halves of it");
  return EachPlace(row, c);
}

// Cast and Identity, also of lengths.
Status EachOrCounts(const OpRow& row, OpContext& c) {
  if (!HasCounts(c, 0)) return EachPlace(row, c);
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, OfAllPlaces(row, c, InputsOf(c)));
  c.SetValue(0, WithCounts(outputs[0].node, FactOf(c, 0)->counts));
  return Status::Ok();
}

// Matmuls of rows: the data-sized dim is among the rows of input 0, and no other input has it.
Status Rows(const OpRow& row, OpContext& c) {
  const DataSizeFact* fact = DimFactOf(c, 0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (FactOf(c, i) != nullptr) return Refuse(c, i, "takes it for a weight");
  }
  if (fact == nullptr || fact->axis > c.rank(0) - 2 || c.Int("transA", 0) != 0)
    return Refuse(c, 0, "adds up over it");
  const int from_right = c.rank(0) - fact->axis;
  // An input that broadcasts over the rows: a batch of weights, or the addend of Gemm.
  const std::string_view op = row.op;
  const int other = op == "MatMul" ? 1 : op == "Gemm" ? 2 : -1;
  if (other >= 0 && c.Has(other)) {
    const int axis = c.rank(other) - from_right;
    const bool rows_of_weight = op == "MatMul" && from_right <= 2;
    if (!rows_of_weight && axis >= 0 && c.shape(other)[axis] != 1)
      return Refuse(c, other, "has something of a fixed length beside it");
  }
  const int rank = op == "MatMul" ? std::max(c.rank(0), c.rank(1)) : c.rank(0);
  return Give(row, c, InputsOf(c), fact->dim, rank - from_right);
}

// Softmax and norms over dims behind the data-sized one.
Status Behind(const OpRow& row, OpContext& c) {
  const DataSizeFact* fact = DimFactOf(c, 0);
  const std::string_view op = row.op;
  const int otherwise = (op == "Softmax" || op == "LogSoftmax") && c.opset < 13 ? 1 : -1;
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (FactOf(c, i) != nullptr) return Refuse(c, i, "takes it for a weight");
  }
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", otherwise), c.rank(0)));
  if (fact == nullptr || fact->axis >= axis) return Refuse(c, 0, "computes over all of it");
  return Give(row, c, InputsOf(c), fact->dim, fact->axis);
}

// Norms of a sum.
Status BehindEach(const OpRow& row, OpContext& c) {
  for (const int i : {0, 1}) {
    const DataSizeFact* fact = DimFactOf(c, i);
    if (fact != nullptr && fact->axis == c.rank(i) - 1) return Refuse(c, i, "computes over all of it");
  }
  return EachPlace(row, c);
}

Status Reduce(const OpRow& row, OpContext& c) {
  const DataSizeFact* fact = DimFactOf(c, 0);
  bool given = false;
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> listed, c.IntsFrom(1, "axes", &given));
  RONDO_ASSIGN_OR_RETURN(std::vector<int> axes, c.Axes(listed, c.rank(0)));
  if (fact == nullptr || axes.empty() || std::find(axes.begin(), axes.end(), fact->axis) != axes.end())
    return Refuse(c, 0, "reduces it");
  int axis = fact->axis;
  if (c.Int("keepdims", 1) == 0)
    axis -= static_cast<int>(std::count_if(axes.begin(), axes.end(), [&](int a) { return a < fact->axis; }));
  return Give(row, c, InputsOf(c), fact->dim, axis);
}

constexpr Rule kRules[] = {
    {"Abs", EachPlace},
    {"Add", EachPlace},
    {"And", EachPlace},
    {"Cast", EachOrCounts},
    {"BiasGelu", EachPlace},
    {"Ceil", EachPlace},
    {"Clip", EachPlace},
    {"Div", EachPlace},
    {"Elu", EachPlace},
    {"Equal", EachPlace},
    {"Erf", EachPlace},
    {"Exp", EachPlace},
    {"FastGelu", EachPlace},
    {"Floor", EachPlace},
    {"Gelu", EachPlace},
    {"Gemm", Rows},
    {"Greater", EachPlace},
    {"GreaterOrEqual", EachPlace},
    {"HardSigmoid", EachPlace},
    {"HardSwish", EachPlace},
    {"Identity", EachOrCounts},
    {"LayerNormalization", Behind},
    {"LeakyRelu", EachPlace},
    {"Less", EachPlace},
    {"LessOrEqual", EachPlace},
    {"Log", EachPlace},
    {"LogSoftmax", Behind},
    {"MatMul", Rows},
    {"MatMulBlockQuantizedFp4Weight", Rows},
    {"MatMulBlockQuantizedFp8Weight", Rows},
    {"MatMulNBits", Rows},
    {"Max", EachPlace},
    {"Min", EachPlace},
    {"Mod", EachPlace},
    {"Mul", EachPlace},
    {"Neg", EachPlace},
    {"Not", EachPlace},
    {"Or", EachPlace},
    {"Pow", EachPlace},
    {"QuickGelu", EachPlace},
    {"RMSNormalization", Behind},
    {"Reciprocal", EachPlace},
    {"ReduceMax", Reduce},
    {"ReduceMean", Reduce},
    {"ReduceMin", Reduce},
    {"ReduceSum", Reduce},
    {"Relu", EachPlace},
    {"Sigmoid", EachPlace},
    {"SimplifiedLayerNormalization", Behind},
    {"SkipLayerNormalization", BehindEach},
    {"SkipSimplifiedLayerNormalization", BehindEach},
    {"Softmax", Behind},
    {"Softplus", EachPlace},
    {"Sqrt", EachPlace},
    {"Sub", EachPlace},
    {"SwiGLU", GatedHalves},
    {"Swish", EachPlace},
    {"Tanh", EachPlace},
    {"Where", EachPlace},
};

}  // namespace

Span<const Rule> PlaceRules() { return kRules; }

}  // namespace rondo::importer::data_sizes
