// AppendSampling: the next token of each text, drawn on the device from the logits that a program ends with.
//
// Inputs and outputs it adds, for b texts (rows), all of them states but the last:
//   last_tokens -> next_tokens  integers [b, 1]: the tokens drawn last. Where the model reads one token of
//   each
//                               text, it reads these: from step to step, none of them leaves the device.
//   sampling -> sampling_out    f32 [b, 3]: temperature (0: the greatest logit), top-k (0: all), top-p (0:
//   all) draws -> draws_out          i64 [b, 2]: a seed, and how often was drawn with it sample_rows i64 [b]:
//   which row of its logits each text ends with, where it has several
//
// What is drawn: softmax of logits / temperature over the top-k tokens, of those over the fewest with a sum
// of at least top-p (ties stay together), by the Gumbel-max trick: the greatest logits / temperature -
// log(-log u), with u a function of (token, draw, seed) alone (philox.h). The k-th logit, and the least that
// top-p keeps, are searched for by cutting the range that holds them into kParts, kRounds times: no sorting.
#include <algorithm>
#include <limits>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/philox.h"

namespace rondo::passes {

namespace {

using ir::Builder;
using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::ReduceKind;

constexpr int kParts = 32, kRounds = 6;  // 2^-30 of the range between the greatest logit and the least
constexpr double kDeepest = 16384;       // a logit this far below the greatest is never drawn
// Of a part of a vocabulary: its length, in whole vectors; where none divides it, it is padded to some of
// kPadded.
constexpr int64_t kLongest = 1024, kShortest = 256, kPadded = 512, kVector = 8;
constexpr int64_t kMostWords = 1 << 24;  // counts are exact in f32 up to here
constexpr float kLeast = std::numeric_limits<float>::lowest();

// Logits are kept as [rows, parts, length]: a row of a vocabulary is reduced part by part, many at once.
class Sampler {
 public:
  // `logits` [rows, words], `sampling` [rows, 3], `draws` [rows, 2].
  Sampler(Builder& b, NodeId logits, NodeId sampling, NodeId draws)
      : b_(b), rows_(b.shape(logits)[0]), words_(b.shape(logits)[1]), draws_(draws) {
    // One reader of the logits, who keeps them finite.
    const NodeId z = InParts(b.BinaryScalar(TapeOp::kMax, logits, kLeast));
    const NodeId greatest = Reduce(ReduceKind::kMax, z);
    below_ = b.BinaryScalar(TapeOp::kMax, b.Sub(z, Each(greatest)), -kDeepest);
    temperature_ = b.Slice(sampling, 1, 0, 1, 1);
    count_ = b.Slice(sampling, 1, 1, 1, 1);
    mass_ = b.Slice(sampling, 1, 2, 1, 1);
  }

  // [rows, 1]
  NodeId Token() {
    const NodeId zero = F32(0), one = F32(1);
    const NodeId warm = b_.Binary(TapeOp::kLess, zero, temperature_);
    const NodeId rate = b_.Div(one, b_.Select(warm, temperature_, one));
    const NodeId scaled = b_.Mul(below_, Each(b_.BinaryScalar(TapeOp::kMin, rate, 1e30)));
    const NodeId most = TopK();
    const NodeId kept = b_.Binary(TapeOp::kLessEqual, Each(TopP(most, scaled)), below_);
    const NodeId score = b_.Select(kept, b_.Add(scaled, Noise()), F32(kLeast));
    return Greatest(b_.Select(Each(warm), score, below_));
  }

 private:
  NodeId F32(double value) { return b_.Scalar(DType::kF32, value); }
  // One number a row, for every word.
  NodeId Each(NodeId x) { return b_.Unsqueeze(x, 2); }

  // [rows, words] as [rows, parts, length]; what is not there is as unlikely as can be.
  NodeId InParts(NodeId x) {
    if (words_ <= kLongest) return b_.Unsqueeze(x, 1);
    int64_t length = kLongest;
    while (length >= kShortest && words_ % length != 0) length -= kVector;
    if (length < kShortest) {
      length = kPadded;
      x = b_.PadConstant(x, F32(kLeast), {0, 0}, {0, (length - words_ % length) % length});
    }
    return b_.Reshape(x, {rows_, b_.shape(x)[1] / length, length});
  }

  // Over the last two axes: [..., parts, length] to [...].
  NodeId ReduceParts(ReduceKind kind, NodeId x) {
    const int last = b_.shape(x).rank - 1;
    x = b_.Reduce(kind, x, {last}, false);
    return b_.shape(x)[last - 1] == 1 ? b_.Squeeze(x, last - 1) : b_.Reduce(kind, x, {last - 1}, false);
  }
  // [rows, 1]
  NodeId Reduce(ReduceKind kind, NodeId x) { return b_.Unsqueeze(ReduceParts(kind, x), 1); }

  // The number of the greatest, of equals the first: [rows, 1].
  NodeId Greatest(NodeId x) {
    const int64_t parts = b_.shape(x)[1], length = b_.shape(x)[2];
    const NodeId within = b_.Reduce(ReduceKind::kArgMax, x, {2}, false);  // [rows, parts]
    if (parts == 1) return within;
    const NodeId part = b_.Reduce(ReduceKind::kArgMax, b_.Reduce(ReduceKind::kMax, x, {2}, false), {1}, true);
    const NodeId here = b_.Binary(TapeOp::kEqual, part, b_.Iota({rows_, parts}, 1));
    const NodeId place = b_.Add(within, b_.BinaryScalar(TapeOp::kMul, part, static_cast<double>(length)));
    return b_.Reduce(ReduceKind::kSum, b_.Select(here, place, b_.Scalar(DType::kI64, 0)), {1}, true);
  }

  // The greatest threshold, up to the resolution, for which `weights` (or none: each 1) of the logits from it
  // on sum up to `least`, given one, `from`, for which they do. Both are [rows, 1].
  NodeId Search(NodeId from, NodeId least, NodeId weights) {
    std::vector<double> numbers;
    for (int j = 1; j < kParts; ++j) numbers.push_back(j);
    const NodeId part = b_.Floats(DType::kF32, Shape({1, kParts - 1}), numbers);
    const NodeId below = b_.Unsqueeze(below_, 1);
    NodeId width = b_.Unary(TapeOp::kNeg, from);
    for (int round = 0; round < kRounds; ++round) {
      width = b_.BinaryScalar(TapeOp::kMul, width, 1.0 / kParts);
      const NodeId at = b_.Add(from, b_.Mul(width, part));  // [rows, kParts - 1]
      const NodeId above = b_.Binary(TapeOp::kLessEqual, b_.Unsqueeze(b_.Unsqueeze(at, 2), 3), below);
      const NodeId each = weights == kNoNode ? b_.Cast(above, DType::kF32)
                                             : b_.Select(above, b_.Unsqueeze(weights, 1), F32(0));
      const NodeId enough = b_.Binary(TapeOp::kLessEqual, least, ReduceParts(ReduceKind::kSum, each));
      from = b_.Reduce(ReduceKind::kMax, b_.Select(enough, at, from), {1}, true);
    }
    return from;
  }

  NodeId TopK() {
    const NodeId possible = b_.Binary(TapeOp::kLess, F32(-kDeepest), below_);
    const NodeId depth =
        Reduce(ReduceKind::kMax, b_.Select(possible, b_.Unary(TapeOp::kNeg, below_), F32(0)));
    const NodeId all = b_.Binary(TapeOp::kLess, count_, F32(1));
    const NodeId least = b_.Select(all, F32(static_cast<double>(words_)), count_);
    return Search(b_.Unary(TapeOp::kNeg, depth), least, kNoNode);
  }

  NodeId TopP(NodeId from, NodeId scaled) {
    const NodeId kept = b_.Binary(TapeOp::kLessEqual, Each(from), below_);
    const NodeId weights = b_.Select(kept, b_.Unary(TapeOp::kExp, scaled), F32(0));
    const NodeId found = Search(from, b_.Mul(mass_, Reduce(ReduceKind::kSum, weights)), weights);
    const NodeId some = b_.Binary(TapeOp::kBitAnd, b_.Binary(TapeOp::kLess, F32(0), mass_),
                                  b_.Binary(TapeOp::kLess, mass_, F32(1)));
    return b_.Select(some, found, from);
  }

  // Gumbel's distribution: -log(-log(1 - u)), u in (0, 1), for each word.
  NodeId Noise() {
    const auto low = [&](NodeId x) { return b_.BinaryScalar(TapeOp::kBitAnd, x, 4294967295.0); };
    const auto high = [&](NodeId x) { return b_.BinaryScalar(TapeOp::kShr, x, 32); };
    const NodeId seed = Each(b_.Slice(draws_, 1, 0, 1, 1)), draw = Each(b_.Slice(draws_, 1, 1, 1, 1));
    const Shape& shape = b_.shape(below_);
    const NodeId token = b_.Reshape(b_.Iota({shape[1] * shape[2]}, 0), {1, shape[1], shape[2]});
    const NodeId bits =
        Philox(b_, {token, low(draw), high(draw), b_.Scalar(DType::kI64, 0)}, {low(seed), high(seed)})[0];
    NodeId u = b_.BinaryScalar(TapeOp::kAdd, b_.Cast(bits, DType::kF32), 0.5);
    u = b_.BinaryScalar(TapeOp::kMul, u, 1.0 / 4294967296.0);
    u = b_.BinaryScalar(TapeOp::kMin, u, 1 - 1.0 / 16777216.0);
    const NodeId waited = b_.Unary(TapeOp::kNeg, b_.Unary(TapeOp::kLog1p, b_.Unary(TapeOp::kNeg, u)));
    return b_.Unary(TapeOp::kNeg, b_.Unary(TapeOp::kLog, waited));
  }

  Builder& b_;
  const int64_t rows_, words_;
  const NodeId draws_;
  NodeId below_ = kNoNode;  // how far each logit is below the greatest: <= 0
  NodeId temperature_ = kNoNode, count_ = kNoNode, mass_ = kNoNode;  // [rows, 1]
};

// ------------------------------------------------------------------------------------- the ports

Status Refuse(const Graph& g, const std::string& why) {
  return Status::Error(Code::kInvalidArgument, "--sample: program \"%s\": %s", g.name.c_str(), why.c_str());
}

// The number of the input that tokens come in by: the one of that name, or what only one input can be.
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

// [rows, words]: of logits with several rows a text, the one that the input sample_rows names.
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
  b.SetAnnotations({{kPrecisionKey, "f32"}});
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
  if (graph->node(rows).dtype != DType::kF32) rows = b.Cast(rows, DType::kF32);
  const NodeId next = b.Cast(Sampler(b, rows, sampling, draws).Token(), type);
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
