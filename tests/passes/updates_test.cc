// State updates: all forms that exporters write become writes to the state itself.
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

void PairFirst(SmallGraph* s) { s->g.states = {{0, 0}}; }

// The number of writes on the way from input 0 to output 0; the way must consist only of writes.
int64_t ChainLength(const SmallGraph& s) {
  NodeId id = s.g.outputs[0].node;
  int64_t n = 0;
  for (; s.g.node(id).op == Op::kIndexedWrite; id = s.g.node(id).inputs[0]) ++n;
  return id == s.g.inputs[0].node ? n : -1;
}

// rows[at] of a [rows, width] tensor.
NodeId WriteRows(SmallGraph* s, NodeId data, NodeId updates, NodeId at) {
  const Shape d = s->b.shape(data), u = s->b.shape(updates);
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(u);
  attrs.map.steps[0].strides[0] = 0;
  int64_t width = d.elements() / d[0];
  attrs.dims = {{width, d[0], true}};
  Shape column = u;
  for (int i = 1; i < column.rank; ++i) column[i] = 1;
  return s->b.IndexedWrite(data, updates, {s->b.Reshape(at, column)}, attrs);
}

TEST(RecogniseUpdatesTest, StackedTransposedLayersAreRowsOfOneState) {
  SmallGraph s;
  NodeId cache = s.In("c", Shape({2, 2, 5, 3})), at = s.In("at", Shape({1}), DType::kI64);
  std::vector<NodeId> layers;
  NodeId x = s.In("x", Shape({1, 2, 3}));
  for (int64_t l = 0; l < 2; ++l) {
    NodeId rows = s.b.Transpose(s.b.Squeeze(s.b.Slice(cache, 0, l, 1, 1), 0), {1, 0, 2});  // [5, 2, 3]
    NodeId written = s.b.Transpose(WriteRows(&s, rows, x, at), {1, 0, 2});
    layers.push_back(s.b.Unsqueeze(written, 0));
    x = s.b.Reshape(s.b.Reduce(ir::ReduceKind::kSum, written, {1}, true), Shape({1, 2, 3}));
  }
  s.Out("c_out", s.b.Concat(layers, 0));
  s.Out("y", x);
  PairFirst(&s);
  PassResult r = ExpectSame(&s, RecogniseUpdates, {}, 4);
  EXPECT_EQ(r.changes, 2) << r.text;
  EXPECT_EQ(ChainLength(s), 2);
  EXPECT_EQ(s.CountOf(Op::kConcat), 0);
  EXPECT_EQ(s.CountOf(Op::kIndexedWrite), 2);
}

TEST(RecogniseUpdatesTest, PiecesPutBesideOldOnesAreWrites) {
  SmallGraph s;
  NodeId cache = s.In("c", Shape({6, 2})), x = s.In("x", Shape({1, 2}));
  s.Out("c_out",
        s.b.Concat({s.b.Slice(cache, 0, 0, 1, 3), s.b.Unary(TapeOp::kNeg, x), s.b.Slice(cache, 0, 4, 1, 2)},
                   0));
  PairFirst(&s);
  EXPECT_EQ(ExpectSame(&s, RecogniseUpdates).changes, 1);
  EXPECT_EQ(ChainLength(s), 1);
}

TEST(RecogniseUpdatesTest, AShiftedStateIsWrittenAsAWholeAndSaysSo) {
  SmallGraph s;
  NodeId cache = s.In("c", Shape({6, 2})), x = s.In("x", Shape({1, 2}));
  s.Out("c_out", s.b.Concat({s.b.Slice(cache, 0, 1, 1, 5), x}, 0));
  PairFirst(&s);
  PassResult r = ExpectSame(&s, RecogniseUpdates);
  EXPECT_EQ(r.changes, 0);
  EXPECT_NE(r.text.find("state c is written as a whole: elements of the state move within it"),
            std::string::npos)
      << r.text;
}

TEST(RecogniseUpdatesTest, ReadersOfOldRowsRunBeforeTheWrite) {
  SmallGraph s;
  NodeId cache = s.In("c", Shape({6, 2})), x = s.In("x", Shape({1, 2})),
         at = s.In("at", Shape({1}), DType::kI64);
  NodeId old = s.b.Unary(TapeOp::kExp, cache);
  s.Out("c_out", WriteRows(&s, cache, x, at));
  s.Out("old", old);
  PairFirst(&s);
  EXPECT_EQ(ExpectSame(&s, RecogniseUpdates).changes, 1);
  const ir::Node& write = s.g.node(s.g.outputs[0].node);
  EXPECT_EQ(write.weak_after, std::vector<NodeId>{s.g.outputs[1].node});
}

TEST(RecogniseUpdatesTest, OldRowsReadAfterTheWriteKeepTheCopy) {
  SmallGraph s;
  NodeId cache = s.In("c", Shape({6, 2})), x = s.In("x", Shape({1, 2})),
         at = s.In("at", Shape({1}), DType::kI64);
  NodeId rows = s.b.Transpose(s.b.Transpose(cache, {1, 0}), {1, 0});
  NodeId written = WriteRows(&s, rows, x, at);
  s.Out("c_out", written);
  s.Out("difference", s.b.Sub(written, cache));
  PairFirst(&s);
  PassResult r = ExpectSame(&s, RecogniseUpdates);
  EXPECT_EQ(r.changes, 0);
  EXPECT_NE(r.text.find("is written as a whole"), std::string::npos) << r.text;
}

TEST(RecogniseUpdatesTest, OtherRowsMayBeReadAtAnyTime) {
  SmallGraph s;
  NodeId cache = s.In("c", Shape({2, 4, 2})), x = s.In("x", Shape({1, 2})),
         at = s.In("at", Shape({1}), DType::kI64);
  NodeId first = s.b.Squeeze(s.b.Slice(cache, 0, 0, 1, 1), 0),
         second = s.b.Squeeze(s.b.Slice(cache, 0, 1, 1, 1), 0);
  NodeId written = WriteRows(&s, first, x, at);
  s.Out("c_out", s.b.Concat({s.b.Unsqueeze(written, 0), s.b.Unsqueeze(second, 0)}, 0));
  s.Out("y", s.b.Add(written, second));
  PairFirst(&s);
  EXPECT_EQ(ExpectSame(&s, RecogniseUpdates, {}, 3).changes, 1);
  EXPECT_EQ(ChainLength(s), 1);
  EXPECT_TRUE(s.g.node(s.g.outputs[0].node).weak_after.empty());
}

}  // namespace
}  // namespace rondo::passes
