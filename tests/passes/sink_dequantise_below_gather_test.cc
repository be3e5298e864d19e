// sink_dequantise_below_gather: only the rows of a packed table that a run reads are widened.
#include "compiler/quantise/quantise.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

constexpr int64_t kRows = 40, kColumns = 6, kTaken = 5;

// Rows `index` of a table (bytes - 3) * scale, with a scale for each row.
struct Table : SmallGraph {
  NodeId table = ir::kNoNode;

  Table() {
    b.FoldConstants(false);
    std::vector<int64_t> numbers;
    std::vector<double> scales;
    for (int64_t i = 0; i < kRows * kColumns; ++i) numbers.push_back((i * 37 + 11) % 251 - 128);
    for (int64_t i = 0; i < kRows; ++i) scales.push_back(0.01 * static_cast<double>(i + 1));
    const NodeId scale = b.Expand(b.Floats(DType::kF32, {kRows, 1}, scales), {kRows, kColumns});
    const NodeId wide = b.Cast(b.Ints(DType::kI8, {kRows, kColumns}, numbers), DType::kF32);
    table = b.Mul(b.BinaryScalar(TapeOp::kSub, wide, 3), scale);
    Out("y", b.Gather(table, In("index", {kTaken}, DType::kI64), 0));
  }
  // The number of computing nodes as large as the table.
  int64_t WholeTables() const {
    int64_t n = 0;
    for (NodeId id = 0; id < g.size(); ++id) {
      const ir::Node& node = g.node(id);
      n += !node.dead && node.op == Op::kPointwise && node.shape.elements() >= kRows * kColumns;
    }
    return n;
  }
};

TEST(SinkDequantiseBelowGather, OnlyTheRowsThatAreTakenAreWidened) {
  Table s;
  EXPECT_EQ(ExpectSame(&s, LowerQuantised, {}, kRows - 1).changes, 1);
  EXPECT_EQ(s.WholeTables(), 0) << ir::Dump(s.g);
  EXPECT_EQ(s.CountOf(Op::kIndexedRead), 2);  // one for numbers, one for the rows' scales
  // Folding has nothing left to widen.
  EXPECT_EQ(ExpectSame(&s, FoldConstants, {}, kRows - 1).changes, 0) << ir::Dump(s.g);
}

TEST(SinkDequantiseBelowGather, ASmallTableThatAMatmulReadsAsWellIsLeftToBeFolded) {
  Table s;
  s.Out("product", s.b.MatMul(s.In("x", {2, kRows}), s.table));
  EXPECT_EQ(ExpectSame(&s, LowerQuantised, {}, kRows - 1).changes, 0);
  PassOptions large;
  large.fold_bytes = kRows * kColumns;
  EXPECT_EQ(ExpectSame(&s, LowerQuantised, large, kRows - 1).changes, 1);
}

TEST(SinkDequantiseBelowGather, WhatIsNoWideningStaysAsItIs) {
  SmallGraph s;
  s.b.FoldConstants(false);
  const NodeId angles =
      s.b.Unary(TapeOp::kCos, s.b.Floats(DType::kF32, {kRows, 1}, std::vector<double>(kRows, 0.5)));
  s.Out("y", s.b.Gather(angles, s.In("index", {kTaken}, DType::kI64), 0));
  EXPECT_EQ(ExpectSame(&s, LowerQuantised, {}, kRows - 1).changes, 0);
}

}  // namespace
}  // namespace rondo::passes
