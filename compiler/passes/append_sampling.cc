// AppendSampling: the next token of each text, drawn on the device from the logits that a program ends with.
//
// Inputs and outputs it adds, for b texts (rows); all but the last are states:
//   last_tokens -> next_tokens  integers [b, 1]: the tokens drawn last. If the model reads one token of each
//                               text, it reads these, so tokens need not leave the device between steps.
//   sampling -> sampling_out    f32 [b, 3]: temperature (0: the greatest logit), top-k (0: all), top-p (0:
//   all) draws -> draws_out          i64 [b, 2]: a seed, and the number of draws with it sample_rows i64 [b]:
//   the row of its logits with which each text ends, if it has several
//
// The draw: softmax of logits / temperature over the top-k tokens, restricted to the fewest of these with a
// sum of at least top-p (ties stay together), by the Gumbel-max trick: the token with the greatest logits /
// temperature - log(-log u), where u is a function of (token, draw, seed) alone (philox.h). The k-th logit,
// and the smallest that top-p keeps, are found without sorting: the range that contains them is cut into
// kParts, kRounds times. As soon as the range holds one logit, or if no limit is requested, it is empty and
// rounds change nothing, so a kernel may skip them. If a logit is NaN, the token is -1: the host, which reads
// the token anyway, sees it at this step. Everything is one chain of reductions over rows, which becomes one
// kernel, except u, which is computed before.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/ir/philox.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

using ir::ReduceKind;

constexpr int kParts = 4, kRounds = 11;  // the resolution is 2^-22 of the range
// How many temperatures below the greatest a logit may be: the noise is between -2.9 and 22.9, so tokens
// further below are never drawn.
constexpr double kDepth = 32;
constexpr int64_t kMostWords = 1 << 24;  // counts are exact in f32 up to here
constexpr float kLeast = std::numeric_limits<float>::lowest(), kMost = std::numeric_limits<float>::max();

class Sampler {
 public:
  // `logits` [rows, words] that were of type `type`, `sampling` [rows, 3], `draws` [rows, 2].
  Sampler(Builder& b, NodeId logits, DType type, NodeId sampling, NodeId draws)
      : b_(b), words_(b.shape(logits)[1]), draws_(draws) {
    grain_ = Is16BitFloat(type) ? std::ldexp(1.0, -FactsOf(type).digits - 1) : 0;
    raw_ = logits;
    const NodeId within = b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, logits, kLeast), kMost);
    logits_ = b.Select(b.Unary(TapeOp::kIsNan, logits), F32(std::numeric_limits<float>::infinity()), within);
    greatest_ = Reduce(ReduceKind::kMax, logits_);
    temperature_ = b.Slice(sampling, 1, 0, 1, 1);
    count_ = b.Slice(sampling, 1, 1, 1, 1);
    mass_ = b.Slice(sampling, 1, 2, 1, 1);
    warm_ = b.Binary(TapeOp::kLess, F32(0), temperature_);
    rate_ = b.BinaryScalar(TapeOp::kMin, b.Div(F32(1), b.Select(warm_, temperature_, F32(1))), 1e30);
  }

  // [rows, 1]; -1 where a logit is NaN.
  NodeId Token() {
    const NodeId noise = Noise();
    const NodeId scaled = b_.Mul(b_.Sub(logits_, greatest_), rate_);
    const NodeId kept = b_.Binary(TapeOp::kLessEqual, TopP(TopK(), scaled), logits_);
    const NodeId score = b_.Select(kept, b_.Add(scaled, noise), F32(kLeast));
    const NodeId token = Reduce(ReduceKind::kArgMax, b_.Select(warm_, score, logits_));
    return b_.Select(b_.Binary(TapeOp::kLess, F32(kMost), greatest_), b_.Scalar(b_.dtype(token), -1), token);
  }

 private:
  NodeId F32(double value) { return b_.Scalar(DType::kF32, value); }
  // [rows, 1]
  NodeId Reduce(ReduceKind kind, NodeId x) { return b_.Reduce(kind, x, {1}, true); }

  // The greatest threshold, up to the resolution, such that the `weights` (default: 1 each) of the logits
  // from it on sum up to at least `least`. `from` is a threshold for which they do, and the result if no
  // limit is `asked` for. All are [rows, 1], except the weights.
  NodeId Search(NodeId asked, NodeId from, NodeId least, NodeId weights) {
    NodeId range = b_.Select(asked, b_.Sub(greatest_, from), F32(0));
    for (int round = 0; round < kRounds; ++round) {
      const NodeId width = b_.BinaryScalar(TapeOp::kMul, range, 1.0 / kParts);
      std::vector<NodeId> sums, enough;
      NodeId at = from, found = from;
      for (int part = 1; part < kParts; ++part) {
        at = b_.Add(at, width);
        const NodeId above = b_.Binary(TapeOp::kLessEqual, at, raw_);
        const NodeId each =
            weights == kNoNode ? b_.Cast(above, DType::kF32) : b_.Select(above, weights, F32(0));
        sums.push_back(Reduce(ReduceKind::kSum, each));
        enough.push_back(b_.Binary(TapeOp::kLessEqual, least, sums.back()));
        found = b_.Select(enough.back(), at, found);
      }
      // Relative to the round's start, so that no row needs all widths at once.
      const NodeId rest = b_.Sub(b_.Add(from, width), from);
      from = found;
      NodeId single = weights == kNoNode ? Counted(sums, least) : Weighed(sums, enough, from, least);
      if (grain_ > 0) single = b_.Binary(TapeOp::kBitOr, single, WithinAGrain(from, rest));
      range = b_.Select(single, F32(0), rest);
    }
    // The last round computes the range like the others.
    return b_.Binary(TapeOp::kMin, from, b_.Add(from, range));
  }

  // Enough logits lie above one of the thresholds; the next logit lies above the others.
  NodeId Counted(const std::vector<NodeId>& sums, NodeId least) {
    NodeId met = kNoNode;
    for (NodeId sum : sums) {
      const NodeId meets = b_.Binary(TapeOp::kEqual, sum, least);
      met = met == kNoNode ? meets : b_.Binary(TapeOp::kBitOr, met, meets);
    }
    return met;
  }

  // The interval between the threshold and the next one weighs less than two logits; sums can distinguish the
  // weight of any one.
  NodeId Weighed(const std::vector<NodeId>& sums, const std::vector<NodeId>& enough, NodeId from,
                 NodeId least) {
    NodeId between = b_.Sub(sums[0], sums[1]), known = enough[0];
    for (size_t part = 1; part + 1 < sums.size(); ++part)
      between = b_.Select(enough[part], b_.Sub(sums[part], sums[part + 1]), between);
    known = b_.Select(enough.back(), F32(0), b_.Cast(known, DType::kF32));
    const NodeId weight = b_.Unary(TapeOp::kExp, b_.Mul(b_.Sub(from, greatest_), rate_));
    const NodeId one = b_.Binary(TapeOp::kLess, between, b_.BinaryScalar(TapeOp::kMul, weight, 1.5)),
                 told = b_.Binary(TapeOp::kLess, b_.BinaryScalar(TapeOp::kMul, least, 1.0 / 65536), weight);
    return b_.Binary(TapeOp::kBitAnd, b_.Binary(TapeOp::kLess, F32(0), known),
                     b_.Binary(TapeOp::kBitAnd, one, told));
  }

  // The range contains at most one number of the logits' own type.
  NodeId WithinAGrain(NodeId from, NodeId range) {
    const NodeId least =
        b_.Binary(TapeOp::kMin, b_.Unary(TapeOp::kAbs, from), b_.Unary(TapeOp::kAbs, b_.Add(from, range)));
    return b_.Binary(TapeOp::kLess, range, b_.BinaryScalar(TapeOp::kMul, least, grain_));
  }

  NodeId TopK() {
    const NodeId possible = b_.Binary(TapeOp::kLess, F32(kLeast), logits_);
    const NodeId lowest = Reduce(ReduceKind::kMin, b_.Select(possible, logits_, F32(kMost)));
    const NodeId drawn = b_.Sub(greatest_, b_.BinaryScalar(TapeOp::kMul, temperature_, kDepth));
    const NodeId from = b_.Binary(TapeOp::kMin, greatest_, b_.Binary(TapeOp::kMax, lowest, drawn));
    const NodeId some = b_.Binary(TapeOp::kLessEqual, F32(1), count_);
    return Search(b_.Binary(TapeOp::kBitAnd, warm_, some), from, count_, kNoNode);
  }

  NodeId TopP(NodeId from, NodeId scaled) {
    const NodeId kept = b_.Binary(TapeOp::kLessEqual, from, raw_);
    const NodeId weights = b_.Unary(TapeOp::kExp, scaled);
    const NodeId all = Reduce(ReduceKind::kSum, b_.Select(kept, weights, F32(0)));
    const NodeId some = b_.Binary(TapeOp::kBitAnd, b_.Binary(TapeOp::kLess, F32(0), mass_),
                                  b_.Binary(TapeOp::kLess, mass_, F32(1)));
    return Search(b_.Binary(TapeOp::kBitAnd, warm_, some), from, b_.Mul(mass_, all), weights);
  }

  // Gumbel noise: -log(-log(1 - u)), u in (0, 1), for each word: [rows, words]. It depends on no logit and
  // can use the whole GPU, so it is kept out of the rows' kernel.
  NodeId Noise() {
    b_.SetAnnotations({{kPrecisionKey, kSampleValue}, {"keep", kSampleValue}});
    const auto low = [&](NodeId x) { return b_.BinaryScalar(TapeOp::kBitAnd, x, 4294967295.0); };
    const auto high = [&](NodeId x) { return b_.BinaryScalar(TapeOp::kShr, x, 32); };
    const NodeId both = b_.Unsqueeze(draws_, 2), seed = b_.Slice(both, 1, 0, 1, 1),
                 draw = b_.Slice(both, 1, 1, 1, 1);
    // Four tokens share a counter, and each uses one word of its result. The counter is in the word where the
    // first round only flips bits. A 0 known only at run time is added, because constants alone would be
    // folded into tables.
    const Shape fours{1, (words_ + 3) / 4, 4};
    const NodeId zero = high(low(draw)), counter = b_.Add(b_.Iota(fours, 1), zero),
                 word = b_.Add(b_.Iota(fours, 2), zero);
    const auto words =
        ir::Philox(b_, {low(draw), counter, high(draw), b_.Scalar(DType::kI64, 0)}, {low(seed), high(seed)});
    NodeId bits = words[3];
    for (int64_t w = 2; w >= 0; --w) {
      const NodeId own = b_.Binary(TapeOp::kEqual, word, b_.Scalar(DType::kI64, static_cast<double>(w)));
      bits = b_.Select(own, words[static_cast<size_t>(w)], bits);
    }
    NodeId u = b_.BinaryScalar(TapeOp::kAdd, b_.Cast(bits, DType::kF32), 0.5);
    u = b_.BinaryScalar(TapeOp::kMul, u, 1.0 / 4294967296.0);
    u = b_.BinaryScalar(TapeOp::kMin, u, 1 - 1.0 / 16777216.0);
    const NodeId waited = b_.Unary(TapeOp::kNeg, b_.Unary(TapeOp::kLog1p, b_.Unary(TapeOp::kNeg, u)));
    const NodeId noise = b_.Unary(TapeOp::kNeg, b_.Unary(TapeOp::kLog, waited));
    b_.SetAnnotations({{kPrecisionKey, kSampleValue}});
    return b_.Slice(b_.Reshape(noise, {b_.shape(noise)[0], 4 * fours[1]}), 1, 0, 1, words_);
  }

  Builder& b_;
  const int64_t words_;
  const NodeId draws_;
  NodeId raw_ = kNoNode,
         logits_ = kNoNode;  // [rows, words]: unchanged; finite, with NaN as infinity
  double grain_ = 0;         // grain_ * logit is less than the distance to its neighbours; 0: unknown
  NodeId greatest_ = kNoNode, temperature_ = kNoNode, count_ = kNoNode, mass_ = kNoNode, warm_ = kNoNode,
         rate_ = kNoNode;  // [rows, 1]
};

// ------------------------------------------------------------------------------------- the ports

Status Refuse(const Graph& g, const std::string& why) {
  return Status::Error(Code::kInvalidArgument, "--sample: program \"%s\": %s", g.name.c_str(), why.c_str());
}

// The index of the token input: the one with that name, or the only possible one.
Result<size_t> FindTokens(const Graph& g, const std::string& name, int64_t rows) {
  std::vector<size_t> likely, named;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Node& n = g.node(g.inputs[i].node);
    const bool fits =
        (n.dtype == DType::kI64 || n.dtype == DType::kI32) && n.shape.rank == 2 && n.shape[0] == rows;
    if (!name.empty() && g.inputs[i].name == name) {
      if (fits) return i;
      return Refuse(g,
                    "the input \"" + name + "\" is no integers of shape [" + std::to_string(rows) + ", n]");
    }
    if (!fits) continue;
    likely.push_back(i);
    for (const char* known : {"input_ids", "tokens", "token_ids", "decoder_input_ids", "ids"}) {
      if (g.inputs[i].name == known) named.push_back(i);
    }
  }
  if (!name.empty()) return Refuse(g, "there is no input \"" + name + "\"");
  if (named.size() == 1) return named[0];
  if (named.empty() && likely.size() == 1) return likely[0];
  std::string inputs;
  for (size_t i : likely) inputs += (inputs.empty() ? "" : ", ") + g.inputs[i].name;
  return Refuse(g, likely.empty() ? "no input has integers of shape [" + std::to_string(rows) + ", n]: tokens"
                                  : "which input has tokens? Say so: OUTPUT:INPUT, one of " + inputs);
}

Status CheckNames(const Graph& g) {
  const std::set<std::string> added = {"last_tokens", "next_tokens", "sampling",   "sampling_out",
                                       "draws",       "draws_out",   "sample_rows"};
  for (const auto& input : g.inputs)
    if (added.count(input.name) != 0)
      return Refuse(g, "the model has an input \"" + input.name + "\" itself");
  for (const auto& output : g.outputs)
    if (added.count(output.name) != 0)
      return Refuse(g, "the model has an output \"" + output.name + "\" itself");
  return Status::Ok();
}

void AddState(Graph* g, const char* out, NodeId in, NodeId value) {
  const int input = g->node(in).As<ir::InputAttrs>().index;
  g->outputs.push_back({out, value});
  g->states.push_back({input, static_cast<int>(g->outputs.size()) - 1});
}

// [rows, words]: for logits with several rows a text, the row in the input sample_rows.
NodeId LastRows(Builder& b, NodeId logits) {
  const Shape shape = b.shape(logits);
  const int64_t rows = shape[0], words = shape[shape.rank - 1];
  if (shape.rank == 2 || shape[1] == 1) return b.Reshape(logits, {rows, words});
  const NodeId at = b.Unsqueeze(b.Input("sample_rows", DType::kI64, Shape({rows})), 1);
  ir::IndexedAttrs read;
  read.map = ir::DenseView({rows, words});
  read.map.steps[0].strides[0] = shape[1] * words;
  read.dims = {{words, shape[1], false}};
  return b.IndexedRead(logits, {b.Expand(at, {rows, words})}, read, {rows, words});
}

}  // namespace

Result<PassResult> AppendSampling(Graph* graph, const PassOptions& options) {
  PassResult result;
  const auto found = std::find_if(graph->outputs.begin(), graph->outputs.end(),
                                  [&](const auto& output) { return output.name == options.sample_logits; });
  if (options.sample_logits.empty() || found == graph->outputs.end()) {
    result.text = "tokens are not drawn";
    return result;
  }
  const NodeId logits = found->node;
  const Shape shape = graph->node(logits).shape;
  const int64_t words = shape.rank > 0 ? shape[shape.rank - 1] : 0;
  if (!IsFloat(graph->node(logits).dtype) || shape.rank < 2 || shape.rank > 3 || words < 1 ||
      words > kMostWords)
    return Refuse(*graph, "\"" + options.sample_logits +
                              "\" is no logits: floats [texts, words] or [texts, "
                              "tokens, words], of at most 2^24 words");
  RONDO_RETURN_IF_ERROR(CheckNames(*graph));
  RONDO_ASSIGN_OR_RETURN(const size_t tokens, FindTokens(*graph, options.sample_tokens, shape[0]));
  ir::GraphInput& read = graph->inputs[tokens];
  const DType type = graph->node(read.node).dtype;
  const bool one = graph->node(read.node).shape[1] == 1;

  Builder b(graph);
  b.SetSources({"--sample"});
  b.SetAnnotations({{kPrecisionKey, kSampleValue}});
  const Shape column{shape[0], 1};
  NodeId last = kNoNode;
  if (options.tokens_stay && one) {
    last = read.node;
    read.name = graph->node(last).name = "last_tokens";
  } else if (options.tokens_stay) {
    last = b.Input("last_tokens", type, column);
  }
  const NodeId sampling = b.Input("sampling", DType::kF32, {shape[0], 3});
  const NodeId draws = b.Input("draws", DType::kI64, {shape[0], 2});
  NodeId rows = LastRows(b, logits);
  const DType was = graph->node(rows).dtype;
  if (graph->node(rows).dtype != DType::kF32) rows = b.Cast(rows, DType::kF32);
  const NodeId next = b.Cast(Sampler(b, rows, was, sampling, draws).Token(), type);
  if (last == kNoNode) {
    graph->outputs.push_back({"next_tokens", next});
  } else {
    AddState(graph, "next_tokens", last, next);
  }
  AddState(graph, "sampling_out", sampling, sampling);
  AddState(
      graph, "draws_out", draws,
      b.Concat({b.Slice(draws, 1, 0, 1, 1), b.BinaryScalar(TapeOp::kAdd, b.Slice(draws, 1, 1, 1, 1), 1)}, 1));
  Tidy(graph);
  result.changes = 1;
  result.text = "next_tokens are drawn from " + options.sample_logits +
                (options.tokens_stay && one ? ", and read where they are" : "");
  return result;
}

}  // namespace rondo::passes
