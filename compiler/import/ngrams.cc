// TfIdfVectorizer of integers: counts the sequences of a pool in each row.
#include "compiler/import/ngrams.h"

#include <algorithm>
#include <string>

#include "compiler/import/decompose.h"

namespace rondo::importer {
namespace {

struct Ngrams {
  int64_t least = 0, most = 0, skips = 0, columns = 0;
  // The first index in the pool of sequences of length 1, 2, ...; the columns of all sequences; the pool.
  std::vector<int64_t> starts, places, pool;
  std::vector<float> weights;  // of the sequences, or empty
  std::string mode;
};

Result<Ngrams> ReadNgrams(OpContext& c) {
  constexpr int64_t kLongest = 64, kMostColumns = 1 << 20;
  Ngrams n;
  n.least = c.Int("min_gram_length", 0);
  n.most = c.Int("max_gram_length", 0);
  n.skips = c.Int("max_skip_count", 0);
  n.starts = c.Ints("ngram_counts");
  n.places = c.Ints("ngram_indexes");
  n.pool = c.Ints("pool_int64s");
  n.weights = c.Floats("weights");
  n.mode = c.String("mode", "");
  if (c.HasAttribute("pool_strings"))
    return Status::Error(Code::kUnsupported,
                         "pool_strings: rondo has no strings; number the words before the model");
  for (const int64_t place : n.places) n.columns = std::max(n.columns, place + 1);
  const bool sane =
      n.least >= 1 && n.least <= n.most && n.most <= kLongest && n.skips >= 0 && n.skips <= kLongest &&
      std::is_sorted(n.starts.begin(), n.starts.end()) && !n.starts.empty() && n.starts[0] >= 0 &&
      n.starts.back() <= static_cast<int64_t>(n.pool.size()) && n.columns >= 1 && n.columns <= kMostColumns &&
      std::all_of(n.places.begin(), n.places.end(), [](int64_t place) { return place >= 0; }) &&
      (n.weights.empty() || n.weights.size() == n.places.size()) &&
      (n.mode == "TF" || n.mode == "IDF" || n.mode == "TFIDF");
  if (!sane) return Status::Error(Code::kCorrupt, "its lengths, pool, places, weights or mode do not fit");
  return n;
}

// Counts each of `count` sequences of `length` numbers, from `from` in the pool on, in the rows x [rows, n].
// The numbers of a sequence are `step` apart. f32 [rows, count].
NodeId Occurrences(Builder& b, NodeId x, const Ngrams& grams, int64_t from, int64_t count, int64_t length,
                   int64_t step) {
  const int64_t rows = b.shape(x)[0], places = b.shape(x)[1] - (length - 1) * step;
  NodeId here = kNoNode;
  for (int64_t k = 0; k < length; ++k) {
    std::vector<int64_t> numbers;
    for (int64_t g = 0; g < count; ++g)
      numbers.push_back(grams.pool[static_cast<size_t>(from + g * length + k)]);
    const NodeId one = b.Reshape(b.Slice(x, 1, k * step, 1, places), {rows, 1, places});
    const NodeId equal = b.Binary(TapeOp::kEqual, one, b.Ints(DType::kI64, {1, count, 1}, numbers));
    here = here == kNoNode ? equal : b.Binary(TapeOp::kBitAnd, here, equal);
  }
  return b.Reduce(ir::ReduceKind::kSum, b.Cast(here, DType::kF32), {2}, false);
}

}  // namespace

Status TfIdfVectorizer(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const Ngrams grams, ReadNgrams(c));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, 2));
  if (c.shape(0).elements() == 0) return Status::Error(Code::kUnsupported, "input 0 has no elements");
  Builder& b = c.b;
  const int64_t n = c.shape(0)[c.rank(0) - 1], rows = c.shape(0).elements() / n;
  const NodeId x = b.Reshape(b.Cast(c.In(0), DType::kI64), {rows, n});
  NodeId sum = b.Expand(b.Scalar(DType::kF32, 0), {rows, grams.columns});
  size_t place = 0;  // in the list of columns, which covers all sequences
  for (size_t i = 0; i < grams.starts.size(); ++i) {
    const int64_t length = static_cast<int64_t>(i) + 1, from = grams.starts[i];
    const int64_t end =
        i + 1 < grams.starts.size() ? grams.starts[i + 1] : static_cast<int64_t>(grams.pool.size());
    const int64_t count = (end - from) / length;
    if (place + static_cast<size_t>(count) > grams.places.size())
      return Status::Error(Code::kCorrupt, "%zu places for more sequences", grams.places.size());
    NodeId found = kNoNode;
    // Single numbers have no gaps.
    for (int64_t step = 1; step <= (length == 1 ? 1 : grams.skips + 1); ++step) {
      if (length < grams.least || length > grams.most || count == 0 || n - (length - 1) * step < 1) continue;
      const NodeId more = Occurrences(b, x, grams, from, count, length, step);
      found = found == kNoNode ? more : b.Add(found, more);
    }
    if (found != kNoNode) {
      if (grams.mode == "IDF")
        found = b.Cast(b.Binary(TapeOp::kLess, b.Scalar(DType::kF32, 0), found), DType::kF32);
      std::vector<double> to(static_cast<size_t>(count * grams.columns), 0);
      for (int64_t g = 0; g < count; ++g) {
        const size_t at = place + static_cast<size_t>(g);
        const bool weighted = grams.mode != "TF" && !grams.weights.empty();
        to[static_cast<size_t>(g * grams.columns + grams.places[at])] = weighted ? grams.weights[at] : 1;
      }
      sum = b.Add(sum, b.MatMul(found, b.Floats(DType::kF32, {count, grams.columns}, to)));
    }
    place += static_cast<size_t>(count);
  }
  return c.Give(c.rank(0) == 1 ? b.Reshape(sum, {grams.columns}) : sum);
}

}  // namespace rondo::importer
