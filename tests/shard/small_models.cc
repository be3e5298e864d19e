#include "tests/shard/small_models.h"

#include <cmath>
#include <map>
#include <string>

namespace rondo::shard {
namespace {

using ir::Builder;
using ir::NodeId;
using Rng = std::mt19937;

// Numbers in [-1/2, 1/2) that depend on their position; large enough to count as a weight for the passes.
NodeId Weight(Builder& b, const Shape& shape, uint32_t seed) {
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  Rng rng(seed + 1000);
  for (double& v : values) v = std::uniform_real_distribution<double>(-0.5, 0.5)(rng);
  const NodeId id = b.Floats(DType::kF32, shape, values);
  b.graph().node(id).name = "w" + std::to_string(seed);
  return id;
}

NodeId Norm(Builder& b, NodeId x, uint32_t seed) {
  const int last = b.shape(x).rank - 1;
  const NodeId mean = b.Mean(b.Mul(x, x), {last}, true);
  const NodeId scaled = b.Mul(x, b.Unary(TapeOp::kRsqrt, b.BinaryScalar(TapeOp::kAdd, mean, 1e-5)));
  return b.Mul(scaled, Weight(b, Shape({b.shape(x)[last]}), seed));
}

// The current caches by name, after the writes of the layers so far.
using Caches = std::map<std::string, NodeId>;

// Writes rows `x` [1, groups, tokens, features] into the cache of `layer` from `at` on. Returns the layer's
// cache.
NodeId Cached(SmallGraph* s, const DecoderShape& d, Caches* caches, const std::string& kind, int layer,
              NodeId x, NodeId at) {
  Builder& b = s->b;
  const std::string name = d.stacked ? kind : kind + std::to_string(layer);
  const Shape shape({d.stacked ? d.layers : 1, d.groups, d.cached, d.features});
  if (caches->count(name) == 0) caches->emplace(name, s->In(name, shape));
  const int64_t row_of_layer = d.stacked ? layer : 0;
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(Shape({1, d.groups, d.tokens, d.features}));
  attrs.map.steps[0].offset = row_of_layer * d.groups * d.cached * d.features;
  attrs.map.steps[0].strides[1] = d.cached * d.features;
  attrs.map.steps[0].strides[2] = 0;
  attrs.map.steps[0].strides[3] = 1;
  attrs.dims = {{d.features, d.cached, false}};
  attrs.may_collide = false;
  const NodeId row = b.Add(b.Iota(Shape({1, 1, d.tokens, 1}), 2), b.Reshape(at, Shape({1, 1, 1, 1})));
  const NodeId out = b.IndexedWrite((*caches)[name], x, {row}, attrs);
  (*caches)[name] = out;
  if (!d.stacked || layer == d.layers - 1) {
    int input = 0;
    while (s->g.inputs[static_cast<size_t>(input)].name != name) ++input;
    s->g.states.push_back({input, static_cast<int>(s->g.outputs.size())});
    s->Out(name + "_out", out);
  }
  return d.stacked ? b.Slice(out, 0, row_of_layer, 1, 1) : out;
}

NodeId Attention(SmallGraph* s, const DecoderShape& d, Caches* caches, NodeId x, int layer, NodeId at) {
  Builder& b = s->b;
  const auto seed = static_cast<uint32_t>(layer * 20 + 20);
  const int64_t queries = d.heads * d.features, keys = d.groups * d.features;
  // One fused projection; each reader takes its columns.
  const NodeId fused = Weight(b, Shape({d.hidden, queries + 2 * keys}), seed);
  const auto heads = [&](int64_t from, int64_t count) {
    const NodeId y = b.MatMul(x, b.Slice(fused, 1, from, 1, count * d.features));
    return b.Transpose(b.Reshape(y, Shape({1, d.tokens, count, d.features})), {0, 2, 1, 3});
  };
  const NodeId q = heads(0, d.heads), k = heads(queries, d.groups), v = heads(queries + keys, d.groups);
  // Rotates half of each head, like rotary embeddings.
  const auto turned = [&](NodeId y) {
    const int64_t half = d.features / 2;
    return b.Concat({b.Unary(TapeOp::kNeg, b.Slice(y, 3, half, 1, half)), b.Slice(y, 3, 0, 1, half)}, 3);
  };
  const NodeId keys_now = Cached(s, d, caches, "k", layer, turned(k), at),
               values_now = Cached(s, d, caches, "v", layer, v, at);
  const NodeId limit = b.BinaryScalar(
      TapeOp::kAdd, b.Add(b.Iota(Shape({1, 1, d.tokens}), 2), b.Reshape(at, Shape({1, 1, 1}))), 1);
  ir::AttentionAttrs attrs;
  attrs.scale = 0.3f;
  const NodeId y = b.Attention(turned(q), keys_now, values_now, ir::kNoNode, limit, attrs);
  const NodeId rows = b.Reshape(b.Transpose(y, {0, 2, 1, 3}), Shape({1, d.tokens, queries}));
  return b.MatMul(rows, Weight(b, Shape({queries, d.hidden}), seed + 1));
}

NodeId GatedMlp(Builder& b, const DecoderShape& d, NodeId x, int layer) {
  const auto seed = static_cast<uint32_t>(layer * 20 + 30);
  const NodeId gate = b.MatMul(x, Weight(b, Shape({d.hidden, d.inner}), seed));
  const NodeId up = b.MatMul(x, Weight(b, Shape({d.hidden, d.inner}), seed + 1));
  const NodeId h = b.Mul(b.Mul(gate, b.Unary(TapeOp::kSigmoid, gate)), up);
  return b.Add(b.MatMul(h, Weight(b, Shape({d.inner, d.hidden}), seed + 2)),
               Weight(b, Shape({d.hidden}), seed + 3));
}

}  // namespace

void MakeDecoder(const DecoderShape& d, SmallGraph* s) {
  Builder& b = s->b;
  const NodeId ids = s->In("ids", Shape({1, d.tokens}), DType::kI64);
  const NodeId at = s->In("at", Shape({1}), DType::kI64);
  const NodeId table = Weight(b, Shape({d.vocabulary, d.hidden}), 1);
  Caches caches;
  NodeId x = b.Gather(table, ids, 0);
  for (int layer = 0; layer < d.layers; ++layer) {
    const NodeId normed = Norm(b, x, static_cast<uint32_t>(layer) + 100);
    const NodeId attended = Attention(s, d, &caches, normed, layer, at);
    if (d.parallel) {
      x = b.Add(b.Add(x, attended), GatedMlp(b, d, normed, layer));
      continue;
    }
    x = b.Add(x, attended);
    x = b.Add(x, GatedMlp(b, d, Norm(b, x, static_cast<uint32_t>(layer) + 200), layer));
  }
  s->Out("logits", b.MatMul(Norm(b, x, 300), b.Transpose(table, {1, 0})));
}

void MakeConvNet(int64_t channels, int64_t classes, SmallGraph* s) {
  Builder& b = s->b;
  const auto conv = [&](NodeId x, int64_t out, int64_t kernel, int64_t groups, uint32_t seed) {
    ir::ConvAttrs attrs;
    attrs.strides = attrs.dilations = {1, 1};
    attrs.pads_begin = attrs.pads_end = {kernel / 2, kernel / 2};
    attrs.groups = groups;
    const NodeId w = Weight(b, Shape({out, b.shape(x)[1] / groups, kernel, kernel}), seed);
    return b.Add(b.Conv(x, w, attrs), Weight(b, Shape({out, 1, 1}), seed + 50));
  };
  ir::PoolAttrs pool;
  pool.kernel = pool.strides = {2, 2};
  pool.dilations = {1, 1};
  pool.pads_begin = pool.pads_end = {0, 0};
  const NodeId picture = s->In("picture", Shape({1, 3, 8, 8}));
  const NodeId x = b.Pool(b.Unary(TapeOp::kTanh, conv(picture, channels, 3, 1, 1)), pool);
  const NodeId wide = b.Unary(TapeOp::kTanh, conv(x, 2 * channels, 1, 1, 2));
  const NodeId deep = b.Unary(TapeOp::kTanh, conv(wide, 2 * channels, 3, 2 * channels, 3));
  const NodeId grouped = conv(deep, 2 * channels, 3, channels / 2, 4);
  const NodeId sum = b.Add(x, conv(grouped, channels, 1, 1, 5));
  const NodeId zero = b.Scalar(DType::kF32, 0);
  const NodeId both = b.PadConstant(b.Concat({sum, x}, 1), zero, {0, 0, 1, 0}, {0, 0, 0, 1});
  const NodeId mean = b.Reshape(b.Mean(both, {2, 3}, true), Shape({1, 2 * channels}));
  s->Out("classes", b.MatMul(mean, Weight(b, Shape({2 * channels, classes}), 9)));
}

void MakeRandom(uint32_t seed, SmallGraph* s) {
  Rng rng(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  Builder& b = s->b;
  const Shape shape({4, 6, 12});
  std::vector<NodeId> pool = {s->In("x", shape)};
  const NodeId index = s->In("at", Shape({6}), DType::kI64);
  const auto any = [&] { return pool[static_cast<size_t>(pick(0, static_cast<int64_t>(pool.size()) - 1))]; };
  const auto step = [&](uint32_t n) {
    const NodeId x = any();
    switch (pick(0, 13)) {
      case 0: return b.Unary(pick(0, 1) != 0 ? TapeOp::kTanh : TapeOp::kNeg, x);
      case 1:
        return b.Binary(pick(0, 1) != 0 ? TapeOp::kAdd : TapeOp::kMul, x, b.Unary(TapeOp::kTanh, any()));
      case 2: return b.Add(x, Weight(b, Shape({12}), n));
      case 3: return b.Reshape(b.Transpose(x, {1, 0, 2}), shape);
      case 4: {
        const int axis = static_cast<int>(pick(0, 2));
        const int64_t half = shape[axis] / 2;
        return b.Concat({b.Slice(x, axis, half, 1, half), b.Slice(any(), axis, 0, 1, half)}, axis);
      }
      case 5: return b.Sub(x, b.Mean(x, {static_cast<int>(pick(0, 2))}, true));
      case 6: {  // a transpose and its inverse
        const NodeId h = b.Unary(TapeOp::kTanh, b.MatMul(x, Weight(b, Shape({12, 24}), n)));
        return b.MatMul(h, Weight(b, Shape({24, 12}), n + 7));
      }
      case 7: return b.MatMul(x, Weight(b, Shape({12, 12}), n));
      case 8: {  // a batched matmul without a weight
        const NodeId scores = b.MatMul(x, b.Transpose(any(), {0, 2, 1}));
        return b.MatMul(b.BinaryScalar(TapeOp::kMul, scores, 0.02), any());
      }
      case 9: return b.Gather(x, index, 1);
      case 10: return b.Gather(Weight(b, Shape({6, 6, 12}), n), b.Slice(index, 0, 0, 1, 4), 0);
      case 11: {
        ir::IndexedAttrs attrs;
        attrs.map = ir::DenseView(shape);
        attrs.map.steps[0].strides[1] = 0;
        attrs.dims = {{12, 6, true}};
        return b.IndexedWrite(x, any(), {b.Reshape(index, Shape({1, 6, 1}))}, attrs);
      }
      case 12: return b.Sub(x, b.Reduce(ir::ReduceKind::kMax, x, {static_cast<int>(pick(0, 2))}, true));
      default: return b.Expand(b.Slice(x, 1, pick(0, 5), 1, 1), shape);
    }
  };
  for (int64_t n = pick(4, 12); n > 0; --n) pool.push_back(step(seed * 100 + static_cast<uint32_t>(n) * 9));
  for (size_t i = pool.size() - 3; i < pool.size(); ++i) s->Out("o" + std::to_string(i), pool[i]);
  if (pick(0, 1) != 0) s->g.states = {{0, 2}};
}

}  // namespace rondo::shard
