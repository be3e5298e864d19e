// FoldScoreBias: a bias of attention scores that is a sum of matmuls, each constant over many keys, becomes
// features of queries and keys.
//
//   before  softmax(scale * q . k + rows(q, y(k)) + columns(q, x(k))) v    (images: key k lies at row y,
//   column x) after   softmax([scale * q, rows(q, :), columns(q, :)] . [k, one at y(k), one at x(k)]) v
//
// Then the tensor of queries by keys is never written or read: multiplying ones and zeros on tensor cores
// costs less.
#include <bit>

#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"
#include "core/scalar.h"

namespace rondo::passes {

namespace {

constexpr int64_t kMostFeatures = 256;  // of a query; with more, fewer keys fit beside it
constexpr int64_t kVector = 8;          // elements of one access
constexpr int64_t kFewestQueries = 64;  // below this, the avoided tensor is small
constexpr int kMostTerms = 8;

// One summand [b, h, s, t] with `values` numbers for each query: key t uses number[t].
struct Term {
  NodeId values_of_query = kNoNode;  // [b, h, s, values]
  int64_t values = 0;
  std::vector<int64_t> number;
};

// The summands of `id`, as views of the nodes that compute them.
bool TakeSummands(Builder& b, NodeId id, std::vector<NodeId>* summands) {
  const ir::Graph& g = b.graph();
  const NodeId base = g.BaseOf(id);
  if (AsPointwise(g, base, TapeOp::kAdd) != nullptr)
    return TakeSummands(b, ShownInput(b, id, 0), summands) && TakeSummands(b, ShownInput(b, id, 1), summands);
  if (IsCastOfFloats(g, base)) return TakeSummands(b, ShownInput(b, id, 0), summands);
  summands->push_back(id);
  return summands->size() <= kMostTerms;
}

// A summand whose view is constant along some of the loops over keys. Only for a matmul, whose numbers are
// taken as finite, since 0 * inf would be NaN.
std::optional<Term> TermOf(Builder& b, NodeId summand) {
  const ir::Graph& g = b.graph();
  if (g.node(g.BaseOf(summand)).op != Op::kMatMul) return std::nullopt;
  const View view = g.ViewOf(summand);
  ir::LoopNest nest(view.shape());
  if (!ir::RefineLoops(view, &nest)) return std::nullopt;
  const std::optional<ir::AffineMap> map = ir::MapOver(view, nest);
  const std::vector<int64_t>& loops = nest.factors[3];
  if (!map || 3 + loops.size() > kMaxRank) return std::nullopt;
  Shape split({view.shape()[0], view.shape()[1], view.shape()[2]});
  for (int64_t extent : loops) split.dims[split.rank++] = extent;
  Term term;
  term.values_of_query = b.Reshape(summand, split);
  term.values = 1;
  term.number.assign(static_cast<size_t>(view.shape()[3]), 0);
  const size_t first = map->strides.size() - loops.size();
  int64_t inner = 1;  // keys in one step of the loop
  for (size_t l = loops.size(); l-- > 0; inner *= loops[l]) {
    if (map->strides[first + l] == 0) {
      term.values_of_query = b.Slice(term.values_of_query, static_cast<int>(3 + l), 0, 1, 1);
      continue;
    }
    for (size_t key = 0; key < term.number.size(); ++key)
      term.number[key] += static_cast<int64_t>(key) / inner % loops[l] * term.values;
    term.values *= loops[l];
  }
  term.values_of_query =
      b.Reshape(term.values_of_query, {split.dims[0], split.dims[1], split.dims[2], term.values});
  return term;
}

// [keys, features]: 1 at each key's number of each term; terms are concatenated.
NodeId Ones(Builder& b, DType dtype, const std::vector<Term>& terms, int64_t features) {
  const int64_t keys = static_cast<int64_t>(terms[0].number.size());
  std::vector<uint8_t> bytes(static_cast<size_t>(keys * features * ByteSize(dtype)));
  int64_t first = 0;
  for (const Term& term : terms) {
    for (int64_t key = 0; key < keys; ++key)
      scalar::Store<double>(dtype, bytes.data(),
                            key * features + first + term.number[static_cast<size_t>(key)], 1);
    first += term.values;
  }
  return b.Constant(ir::ConstantData::Own(dtype, Shape({keys, features}), std::move(bytes)));
}

NodeId Folded(Match& m) {
  const ir::AttentionInputs in = ir::AttentionInputsOf(m.node());
  ir::AttentionAttrs attrs = m.node().As<ir::AttentionAttrs>();
  if (in.mask == kNoNode || attrs.softcap != 0) return kNoNode;
  Builder b = m.Make();
  const DType dtype = b.dtype(in.q);
  const Shape q = b.shape(in.q), k = b.shape(in.k);
  const bool half = dtype == DType::kF16 || dtype == DType::kBF16;
  if (!half || b.dtype(in.mask) == DType::kBool || q[2] < kFewestQueries) return kNoNode;
  std::vector<NodeId> summands;
  if (!TakeSummands(b, in.mask, &summands)) return kNoNode;
  std::vector<Term> terms;
  int64_t added = 0;
  for (NodeId summand : summands) {
    std::optional<Term> term = TermOf(b, summand);
    if (!term) return kNoNode;
    added += term->values;
    terms.push_back(*std::move(term));
  }
  const int64_t features = (q[3] + added + kVector - 1) / kVector * kVector, none = features - q[3] - added;
  // At most twice as many multiplications for each avoided key.
  if (features > kMostFeatures || 2 * added > k[2]) return kNoNode;
  std::vector<NodeId> queries = {b.BinaryScalar(TapeOp::kMul, in.q, attrs.scale)};
  for (const Term& term : terms) queries.push_back(b.Cast(term.values_of_query, dtype));
  if (none > 0) queries.push_back(b.Expand(b.Scalar(dtype, 0), {q[0], q[1], q[2], none}));
  const NodeId ones = b.Expand(Ones(b, dtype, terms, features - q[3]), {k[0], k[1], k[2], features - q[3]});
  attrs.scale = 1;
  return b.Attention(b.Concat(queries, 3), b.Concat({in.k, ones}, 3), in.v, kNoNode, in.limit, attrs,
                     in.sink);
}

}  // namespace

Result<PassResult> FoldScoreBias(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.target.tensor_cores) result.changes = Total(ApplyOnce(graph, {{Op::kAttention, Folded}}));
  result.text = Count(result.changes, "attention") + " whose bias is in features";
  return result;
}

}  // namespace rondo::passes
