// rematerialise: readers that compute a shared value again for themselves, with the same results.
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct Shared {
  int64_t elements = 64;
  bool slow = false, state = false, second = true, output = false, annotated = false;
};

// Cosines and sines of a position's angles. Returns the number of additions after the pass.
int64_t Additions(const Shared& shared) {
  SmallGraph s;
  const NodeId x = s.In("x", {1, shared.elements});
  const NodeId one = s.b.Scalar(DType::kF32, 1);
  NodeId sum = s.b.Add(x, s.b.Expand(one, s.b.shape(x)));
  if (shared.slow) sum = s.b.Unary(TapeOp::kExp, sum);
  if (shared.annotated) s.g.node(sum).annotations["stream"] = "1";
  s.Out("cosine", s.b.Unary(TapeOp::kCos, s.b.Reshape(sum, {shared.elements})));
  if (shared.second) s.Out("sine", s.b.Unary(TapeOp::kSin, sum));
  if (shared.output) s.Out("sum", sum);
  if (shared.state) s.g.states.push_back({0, 0, false});
  ExpectSame(&s, Rematerialise);
  return s.CountOf(TapeOp::kAdd);
}

TEST(Rematerialise, SmallReadersComputeForThemselves) {
  EXPECT_EQ(Additions({}), 2);
  EXPECT_EQ(Additions({.elements = 2048}), 2);
  EXPECT_EQ(Additions({.second = false}), 1) << "there is but one reader";
  EXPECT_EQ(Additions({.second = false, .output = true}), 2) << "the other reader is the caller";
}

TEST(Rematerialise, OthersReadWhatIsThere) {
  EXPECT_EQ(Additions({.elements = 2049}), 1) << "much is computed once";
  EXPECT_EQ(Additions({.slow = true}), 1);
  EXPECT_EQ(Additions({.state = true}), 1) << "what is written in place is read before that";
  EXPECT_EQ(Additions({.annotated = true}), 1) << "it runs where somebody has said";
}

// A chain of shared values is copied together, and a value that two inputs need is copied once.
TEST(Rematerialise, AChainIsCopiedAsAWhole) {
  SmallGraph s;
  const NodeId position = s.In("position", {1}, DType::kI64);
  const NodeId next = s.b.Add(position, s.b.Reshape(s.b.Scalar(DType::kI64, 1), {1}));
  const NodeId any = s.b.Binary(TapeOp::kLess, s.b.Reshape(s.b.Scalar(DType::kI64, 0), {1}), next);
  s.Out("limit", s.b.Select(any, next, position));
  s.Out("mask", s.b.Select(s.b.Expand(any, {4096}), s.In("x", {4096}), s.In("y", {4096})));
  ExpectSame(&s, Rematerialise);
  EXPECT_EQ(s.CountOf(TapeOp::kAdd), 2);
  EXPECT_EQ(s.CountOf(TapeOp::kLess), 2);
  const ir::Node& limit = s.g.node(s.g.BaseOf(s.g.outputs[0].node));
  const NodeId own = s.g.BaseOf(limit.inputs[0]);
  EXPECT_EQ(s.g.BaseOf(s.g.node(own).inputs[1]), s.g.BaseOf(limit.inputs[1]));
  EXPECT_EQ(s.g.UsersOf(own).size(), 1u);
}

}  // namespace
}  // namespace rondo::passes
