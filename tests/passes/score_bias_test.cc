// fold_score_bias turns biases of attention into features, and split_values splits an attention into several,
// both with unchanged results.
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

// Attention over an image of `rows` by `columns` keys, with a bias for each row and one for each column.
struct Picture {
  int64_t rows = 6, columns = 12, features = 8, queries = 72;
  DType dtype = DType::kF16;
  bool matmuls = true;       // matmuls compute the biases
  bool tensor_cores = true;  // the target has them
  float softcap = 0;
  float scale = 0.3f;
};

NodeId Bias(SmallGraph* s, const Picture& p, const char* name, int64_t values) {
  const Shape whole({2, 3, p.queries, values});
  if (!p.matmuls) return s->In(name, whole, p.dtype);
  const std::string table = std::string(name) + "_table";
  return s->b.MatMul(s->In(name, {2, 3, p.queries, 5}, p.dtype), s->In(table, {5, values}, p.dtype));
}

// The number of masked attentions after the pass. Results may change by less than the type's rounding.
int64_t MaskedAfter(const Picture& p) {
  SmallGraph s;
  const int64_t keys = p.rows * p.columns;
  NodeId by_row = s.b.Unsqueeze(Bias(&s, p, "row", p.rows), 4);
  NodeId by_column = s.b.Unsqueeze(Bias(&s, p, "column", p.columns), 3);
  const NodeId bias = s.b.Reshape(s.b.Add(by_row, by_column), {2, 3, p.queries, keys});
  ir::AttentionAttrs attrs;
  attrs.scale = p.scale;
  attrs.softcap = p.softcap;
  const NodeId q = s.In("q", {2, 3, p.queries, p.features}, p.dtype),
               k = s.In("k", {2, 3, keys, p.features}, p.dtype), v = s.In("v", {2, 3, keys, 4}, p.dtype);
  s.Out("y", s.b.Attention(q, k, v, bias, ir::kNoNode, attrs));
  const ir::Values in = RandomInputs(s.g);
  const Result<ir::Values> before = ir::EvaluateGraph(s.g, in);
  PassOptions options;
  options.target.tensor_cores = p.tensor_cores;
  const Result<PassResult> result = FoldScoreBias(&s.g, options);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(ir::Validate(s.g), "") << ir::Dump(s.g);
  const Result<ir::Values> after = ir::EvaluateGraph(s.g, in);
  EXPECT_TRUE(before.ok() && after.ok());
  const ir::ConstantData &x = *(*before)[0], &y = *(*after)[0];
  EXPECT_TRUE(x.shape == y.shape && x.dtype == y.dtype);
  for (int64_t i = 0; i < x.shape.elements(); ++i) {
    const float u = scalar::LoadValue(x.dtype, x.bytes.data(), i).f32;
    EXPECT_NEAR(u, scalar::LoadValue(y.dtype, y.bytes.data(), i).f32, p.dtype == DType::kBF16 ? 6e-2 : 4e-3);
  }
  int64_t masked = 0;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& n = s.g.node(id);
    if (n.dead || n.op != Op::kAttention) continue;
    masked += n.As<ir::AttentionAttrs>().has_mask;
    EXPECT_EQ(s.g.node(n.inputs[0]).shape[3] % 8, 0) << "queries of whole accesses";
  }
  EXPECT_EQ(result->changes, 1 - masked);
  return masked;
}

TEST(FoldScoreBias, RowsAndColumnsOfPicturesAreFeatures) {
  EXPECT_EQ(MaskedAfter({}), 0);
  EXPECT_EQ(MaskedAfter({.dtype = DType::kBF16}), 0);
  EXPECT_EQ(MaskedAfter({.rows = 7, .columns = 14, .scale = 0.125f}), 0);
  EXPECT_EQ(MaskedAfter({.rows = 16, .columns = 9, .features = 40, .queries = 64}), 0);
}

TEST(FoldScoreBias, OtherBiasesStay) {
  EXPECT_EQ(MaskedAfter({.dtype = DType::kF32}), 1) << "no tensor cores for it";
  EXPECT_EQ(MaskedAfter({.matmuls = false}), 1) << "an input may have infinities";
  EXPECT_EQ(MaskedAfter({.tensor_cores = false}), 1);
  EXPECT_EQ(MaskedAfter({.softcap = 20}), 1) << "it is added behind the cap";
  EXPECT_EQ(MaskedAfter({.queries = 8}), 1) << "little is saved";
  EXPECT_EQ(MaskedAfter({.rows = 2, .columns = 36}), 1) << "as many features as keys";
  EXPECT_EQ(MaskedAfter({.features = 240}), 1) << "more than kernels take";
}

// The number of attentions after the pass; results must be unchanged.
int64_t PartsAfter(DType dtype, int64_t features, int64_t values, bool tensor_cores = true) {
  SmallGraph s;
  const NodeId q = s.In("q", {1, 2, 3, features}, dtype), k = s.In("k", {1, 2, 5, features}, dtype),
               v = s.In("v", {1, 2, 5, values}, dtype), mask = s.In("mask", {1, 2, 3, 5});
  ir::AttentionAttrs attrs;
  attrs.scale = 0.05f;
  s.Out("y", s.b.Attention(q, k, v, mask, ir::kNoNode, attrs));
  PassOptions options;
  options.target.tensor_cores = tensor_cores;
  ExpectSame(&s, SplitValues, options);
  return s.CountOf(Op::kAttention);
}

TEST(SplitValues, AWideHeadIsSeveralAttentions) {
  EXPECT_EQ(PartsAfter(DType::kF16, 512, 512), 2);
  EXPECT_EQ(PartsAfter(DType::kBF16, 300, 600), 3);
  EXPECT_EQ(PartsAfter(DType::kF16, 64, 256), 1);
  EXPECT_EQ(PartsAfter(DType::kF32, 512, 512), 1) << "no tensor cores for it";
  EXPECT_EQ(PartsAfter(DType::kF16, 520, 520), 1) << "no kernel takes such queries";
  EXPECT_EQ(PartsAfter(DType::kF16, 512, 512, false), 1);
}

}  // namespace
}  // namespace rondo::passes
