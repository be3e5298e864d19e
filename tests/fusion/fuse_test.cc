// Fused programs compute what the graph means, on random graphs.
#include "compiler/fusion/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/ir/builder.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::Builder;
using ir::Graph;
using ir::NodeId;

// ------------------------------------------------------------------------------- random graphs

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : rng_(seed), b_(&graph_) {
    for (int i = 0; i < 2; ++i)
      pool_.push_back(b_.Input("x" + std::to_string(i), DType::kF32, RandomShape()));
    index_ = b_.Input("index", DType::kI64, Shape{2});
    int steps = 3 + static_cast<int>(Pick(14));
    for (int i = 0; i < steps; ++i) Step();
    int outputs = 1 + static_cast<int>(Pick(2));
    for (int i = 0; i < outputs; ++i) {
      NodeId node = i == 0 ? pool_.back() : Any();
      graph_.outputs.push_back({"y" + std::to_string(i), node});
    }
  }
  Graph graph_;

 private:
  uint64_t Pick(uint64_t n) { return rng_() % n; }
  NodeId Any() {
    size_t n = pool_.size();
    return Pick(2) == 0 ? pool_[n - 1 - Pick(std::min<size_t>(n, 3))] : pool_[Pick(n)];
  }
  Shape RandomShape() {
    Shape shape;
    shape.rank = 2 + static_cast<int>(Pick(3));
    const int64_t kDims[] = {1, 2, 2, 3, 4, 6};
    for (int d = 0; d < shape.rank; ++d) shape[d] = kDims[Pick(6)];
    return shape;
  }
  void Push(NodeId id) {
    if (b_.shape(id).elements() <= 4000 && b_.shape(id).elements() > 0) pool_.push_back(id);
  }

  void Step() {
    NodeId x = Any();
    Shape s = b_.shape(x);
    switch (Pick(18)) {
      case 0:
      case 1: {
        const TapeOp kOps[] = {TapeOp::kNeg, TapeOp::kAbs, TapeOp::kTanh, TapeOp::kSigmoid, TapeOp::kSin};
        return Push(b_.Unary(kOps[Pick(5)], x));
      }
      case 2:
      case 3: {
        for (int tries = 0; tries < 8; ++tries) {
          NodeId y = Any();
          Shape out;
          if (!ir::BroadcastShapes(s, b_.shape(y), &out) || out.rank > 6) continue;
          const TapeOp kOps[] = {TapeOp::kAdd, TapeOp::kMul, TapeOp::kSub, TapeOp::kMax};
          return Push(b_.Binary(kOps[Pick(4)], x, y));
        }
        return Push(b_.BinaryScalar(TapeOp::kMul, x, 0.5));
      }
      case 4: {
        std::vector<int> perm(static_cast<size_t>(s.rank));
        for (int d = 0; d < s.rank; ++d) perm[d] = d;
        std::shuffle(perm.begin(), perm.end(), rng_);
        return Push(b_.Transpose(x, perm));
      }
      case 5: {
        int axis = static_cast<int>(Pick(s.rank));
        int64_t count = 1 + static_cast<int64_t>(Pick(s[axis]));
        int64_t start = static_cast<int64_t>(Pick(s[axis] - count + 1));
        if (Pick(4) == 0) return Push(b_.Slice(x, axis, start + count - 1, -1, count));
        return Push(b_.Slice(x, axis, start, 1, count));
      }
      case 6: {  // merge or split dims
        Shape out;
        if (s.rank >= 3 && Pick(2) == 0) {
          int at = static_cast<int>(Pick(s.rank - 1));
          for (int d = 0; d < s.rank; ++d) {
            if (d == at) {
              out.dims[out.rank++] = s[d] * s[d + 1];
              ++d;
            } else {
              out.dims[out.rank++] = s[d];
            }
          }
        } else if (s.rank < 5) {
          int at = static_cast<int>(Pick(s.rank));
          for (int d = 0; d < s.rank; ++d) {
            if (d == at && s[d] % 2 == 0) out.dims[out.rank++] = 2;
            out.dims[out.rank++] = d == at && s[d] % 2 == 0 ? s[d] / 2 : s[d];
          }
        } else {
          out = s;
        }
        return Push(b_.Reshape(x, out));
      }
      case 7: {
        std::vector<int> axes;
        for (int d = 0; d < s.rank; ++d) {
          if (Pick(2) == 0) axes.push_back(d);
        }
        if (axes.empty()) axes.push_back(s.rank - 1);
        const ir::ReduceKind kKinds[] = {ir::ReduceKind::kSum, ir::ReduceKind::kMax, ir::ReduceKind::kMin};
        return Push(b_.Reduce(kKinds[Pick(3)], x, axes, true));
      }
      case 8: {  // softmax
        int axis = static_cast<int>(Pick(s.rank));
        NodeId m = b_.Reduce(ir::ReduceKind::kMax, x, {axis}, true);
        NodeId e = b_.Unary(TapeOp::kExp, b_.Sub(x, m));
        return Push(b_.Div(e, b_.Reduce(ir::ReduceKind::kSum, e, {axis}, true)));
      }
      case 9: {
        if (s.rank < 2) return;
        Shape w;
        w.rank = 2;
        w[0] = s[s.rank - 1];
        w[1] = 1 + static_cast<int64_t>(Pick(5));
        if (Pick(3) == 0) {  // B is shared by all batches
          std::swap(w[0], w[1]);
          w[1] = s[s.rank - 2];
          return Push(b_.MatMul(b_.Constant(RandomTensor(DType::kF32, w, &rng_, 2)), x));
        }
        if (Pick(3) == 0 && s.rank < 5) {  // B shared by some batches, or rows as batches of one
          x = b_.Reshape(
              x, s.rank == 2 ? Shape{s[0], 1, s[1]} : Shape{s[0], 1, s.elements() / s[0] / w[0], w[0]});
          if (s.rank > 2) {
            w = Shape{Pick(2) == 0 ? s[0] : 1, 1, w[0], w[1]};
          }
        }
        NodeId weight = b_.Constant(RandomTensor(DType::kF32, w, &rng_, 2));
        return Push(b_.MatMul(x, weight));
      }
      case 10: {
        NodeId y = Any();
        if (!(b_.shape(y) == s)) y = x;
        return Push(b_.Concat({x, y, b_.Unary(TapeOp::kNeg, x)}, static_cast<int>(Pick(s.rank))));
      }
      case 11: {
        int axis = static_cast<int>(Pick(s.rank));
        if (s[axis] < 2 || s.rank > 5) return;
        return Push(b_.Gather(x, index_, axis));
      }
      case 12: {
        if (s.rank < 3 || s[s.rank - 1] * s[1] > 40) return;
        ir::ConvAttrs attrs;
        Shape w;
        w.rank = s.rank;
        attrs.groups = s[1] % 2 == 0 && Pick(2) == 0 ? 2 : 1;
        w[0] = attrs.groups * (1 + static_cast<int64_t>(Pick(3)));
        w[1] = s[1] / attrs.groups;
        for (int d = 2; d < s.rank; ++d) {
          w[d] = 1 + static_cast<int64_t>(Pick(3));
          attrs.strides.push_back(1 + static_cast<int64_t>(Pick(2)));
          attrs.dilations.push_back(1 + static_cast<int64_t>(Pick(2)));
          attrs.pads_begin.push_back(2);
          attrs.pads_end.push_back(2);
        }
        return Push(b_.Conv(x, b_.Constant(RandomTensor(DType::kF32, w, &rng_, 2)), attrs));
      }
      case 13: {
        if (s.rank < 3) return;
        ir::PoolAttrs attrs;
        attrs.kind = Pick(2) == 0 ? Combine::kMax : Combine::kMean;
        for (int d = 2; d < s.rank; ++d) {
          attrs.kernel.push_back(2);
          attrs.strides.push_back(1 + static_cast<int64_t>(Pick(2)));
          attrs.dilations.push_back(1);
          attrs.pads_begin.push_back(1);
          attrs.pads_end.push_back(1);
        }
        return Push(b_.Pool(x, attrs));
      }
      case 14: {  // grouped attention of a tensor with itself
        if (s.rank != 4) return;
        ir::AttentionAttrs attrs;
        attrs.scale = 0.5f;
        NodeId k = x, q = b_.Unary(TapeOp::kTanh, x);
        if (Pick(2) == 0) q = b_.Concat({q, x}, 1);
        Shape h = b_.shape(q);
        NodeId mask = ir::kNoNode;
        if (Pick(2) == 0) {
          attrs.has_mask = true;
          NodeId bias = b_.Constant(RandomTensor(DType::kF32, Shape{h[2], s[2]}, &rng_, 2));
          mask = b_.Expand(bias, Shape{h[0], h[1], h[2], s[2]});
        }
        NodeId limit = ir::kNoNode;
        if (Pick(2) == 0) {
          attrs.has_limit = true;
          std::vector<int64_t> keys;
          for (int64_t i = 0; i < h[2]; ++i) keys.push_back(1 + i % s[2]);
          limit = b_.Expand(b_.I64(keys), Shape{h[0], h[1], h[2]});
        }
        return Push(b_.Attention(q, k, x, mask, limit, attrs));
      }
      case 15: {  // scatters rows of one tensor into another
        if (s[0] < 2 || s.rank > 5) return;
        Shape u = s;
        u[0] = 1;
        NodeId updates = b_.Unary(TapeOp::kNeg, b_.Slice(x, 0, 0, 1, 1));
        ir::IndexedAttrs attrs;
        ir::View map = ir::DenseView(u);
        map.steps[0].strides[0] = 0;
        attrs.map = map;
        attrs.dims = {{s.elements() / s[0], s[0], true}};
        attrs.may_collide = Pick(2) == 0;
        attrs.combine = Pick(2) == 0 ? ir::ScatterCombine::kNone : ir::ScatterCombine::kAdd;
        NodeId row = b_.Expand(b_.Reshape(b_.Slice(index_, 0, 1, 1, 1), Shape{1}), u);
        return Push(b_.IndexedWrite(x, updates, {row}, attrs));
      }
      case 16: {
        const DType kTypes[] = {DType::kF16, DType::kBF16, DType::kI32, DType::kF64};
        return Push(b_.Cast(b_.Cast(x, kTypes[Pick(4)]), DType::kF32));
      }
      default: {  // layer norm over the last dim
        NodeId mean = b_.Mean(x, {s.rank - 1}, true);
        NodeId d = b_.Sub(x, mean);
        NodeId var = b_.Mean(b_.Mul(d, d), {s.rank - 1}, true);
        NodeId r = b_.Unary(TapeOp::kRsqrt, b_.BinaryScalar(TapeOp::kAdd, var, 1e-3));
        return Push(b_.Mul(d, r));
      }
    }
  }

  std::mt19937 rng_;
  Builder b_;
  std::vector<NodeId> pool_;
  NodeId index_ = ir::kNoNode;
};

TEST(Fuse, RandomGraphsKeepTheirMeaning) {
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    RandomGraph random(seed);
    ExpectFusionKeepsMeaning(random.graph_, seed);
    if (HasFailure()) return;
  }
}

// Rows of 5 are read as rows of 3 after a permutation. No loop nest walks both, so the updates are copied
// first.
TEST(Fuse, UpdatesThatNoLoopsCanWalkAreCopied) {
  Graph graph;
  Builder b(&graph);
  NodeId x = b.Input("x", DType::kF32, Shape{5, 2, 3});
  NodeId target = b.Input("target", DType::kF32, Shape{4, 2, 5});
  NodeId written = b.Unary(TapeOp::kTanh, x);
  NodeId updates =
      b.Reshape(b.Transpose(b.Reduce(ir::ReduceKind::kMax, written, {1}, true), {1, 2, 0}), Shape{5, 1, 3});
  ir::IndexedAttrs attrs;
  attrs.map = ir::Slice(ir::Transpose(ir::DenseView(Shape{4, 2, 5}), std::vector<int>{2, 1, 0}), 1, 0, 1, 1);
  attrs.map = ir::Slice(attrs.map, 2, 1, 1, 3);
  attrs.may_collide = false;
  graph.outputs.push_back({"y", b.IndexedWrite(target, updates, {}, attrs)});
  ExpectFusionKeepsMeaning(graph, 1);
}

TEST(Fuse, EachKindOfFusionCanBeLeftOut) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    RandomGraph random(seed);
    for (int bits = 0; bits < 16; ++bits) {
      FuseOptions options;
      options.epilogues = bits & 1;
      options.reductions = bits & 2;
      options.inlining = bits & 4;
      options.siblings = bits & 8;
      ExpectFusionKeepsMeaning(random.graph_, seed, options);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace rondo
