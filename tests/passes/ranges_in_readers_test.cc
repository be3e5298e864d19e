// ranges_in_readers: the kernel that quantises an image finds its range itself, in each row, with the same
// results.
#include "compiler/quantise/steps.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct RangedPicture {
  Shape shape{2, 3, 5, 7};
  int along = 2;
  bool with_0 = true;          // the range is extended to contain 0
  bool other_picture = false;  // the range belongs to another image
  bool padded = false, covers = true;
  bool both = false;  // read both padded and unpadded
  bool clusters = true;
};

// The image padded with 0, or without its first column.
NodeId Padded(SmallGraph* s, NodeId x, bool covers) {
  const Shape picture = s->b.shape(x);
  Shape padded = picture;
  padded[3] += 2;
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(padded);
  for (int d = 0; d < 3; ++d) attrs.map.steps[0].strides[d] = ir::DenseView(picture).steps[0].strides[d];
  attrs.map.steps[0].strides[3] = 0;
  attrs.dims = {{1, picture[3], false, false}};
  std::vector<int64_t> places;
  for (int64_t i = 0; i < padded[3]; ++i) places.push_back(i - 1 + (covers || i != 1 ? 0 : -1));
  return s->b.IndexedRead(x, {s->b.Ints(DType::kI32, Shape{1, 1, 1, padded[3]}, places)}, attrs, padded);
}

// Adds a DynamicQuantizeLinear as import writes it. Returns the number of changed images.
int64_t Changed(SmallGraph* s, const RangedPicture& picture) {
  ir::Builder& b = s->b;
  const NodeId x = b.BinaryScalar(TapeOp::kSub, s->In("x", picture.shape), 1);
  const NodeId ranged = picture.other_picture ? s->In("y", picture.shape) : x;
  const auto extreme = [&](ir::ReduceKind kind, TapeOp op) {
    const NodeId lines = b.Reduce(kind, ranged, {picture.along}, true);
    const NodeId all = b.Reduce(kind, lines, {0, 1, 2, 3}, false);
    return b.BinaryScalar(op, all, picture.with_0 ? 0 : 1);
  };
  const NodeId min = extreme(ir::ReduceKind::kMin, TapeOp::kMin),
               max = extreme(ir::ReduceKind::kMax, TapeOp::kMax);
  const NodeId scale = b.BinaryScalar(TapeOp::kDiv, b.Sub(max, min), 255);
  const NodeId zero = b.Cast(b.Unary(TapeOp::kRound, b.Div(b.Unary(TapeOp::kNeg, min), scale)), DType::kU8);
  const auto quantised = [&](NodeId read) {
    NodeId q = b.Add(b.Unary(TapeOp::kRound, b.Div(read, scale)), b.Cast(zero, DType::kF32));
    q = b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, q, 0), 255);
    return b.Cast(q, DType::kU8);
  };
  if (picture.both) s->Out("padded", quantised(Padded(s, x, picture.covers)));
  const NodeId read = picture.padded ? Padded(s, x, picture.covers) : x;
  s->Out("numbers", quantised(read));
  s->Out("scale", scale);
  s->Out("zero", zero);
  PassOptions options;
  options.target.clusters = picture.clusters;
  return ExpectSame(
             s,
             [](ir::Graph* g, const PassOptions& o) {
               return Tidied(g, FindRangesInReaders(g, o.target.clusters));
             },
             options)
      .changes;
}

// Counts reductions of lines: to one number for each row, and to a single number.
std::pair<int64_t, int64_t> RowsAndAll(const SmallGraph& s, int64_t rows) {
  std::pair<int64_t, int64_t> found;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.dead || node.op != Op::kReduce) continue;
    found.first += node.shape.elements() == rows;
    found.second += node.shape.elements() == 1;
  }
  return found;
}

constexpr Shape Large(int64_t rows) { return Shape{1, 16, rows, 512}; }

TEST(RangesInReaders, EachRowFindsTheRangeOfAll) {
  SmallGraph s;
  EXPECT_EQ(Changed(&s, {.shape = Large(9)}), 1);
  EXPECT_EQ(RowsAndAll(s, 9), std::make_pair(int64_t{2}, int64_t{0})) << ir::Dump(s.g);
}

TEST(RangesInReaders, WhatIsPaddedBy0HasTheSameRange) {
  SmallGraph s;
  EXPECT_EQ(Changed(&s, {.shape = Large(9), .padded = true}), 1);
  EXPECT_EQ(RowsAndAll(s, 9), std::make_pair(int64_t{2}, int64_t{0})) << ir::Dump(s.g);
}

TEST(RangesInReaders, OfSmallPicturesItIsFoundAtOnce) {
  for (const bool padded : {false, true}) {
    SmallGraph s;
    EXPECT_EQ(Changed(&s, {.padded = padded}), 1);
    EXPECT_EQ(s.CountOf(Op::kReduce), 2) << ir::Dump(s.g);
  }
  for (const bool clusters : {false, true}) {  // clusters have several blocks
    SmallGraph s;
    EXPECT_EQ(Changed(&s, {.shape = {1, 16, 8, 64}, .clusters = clusters}), 1);
    EXPECT_EQ(s.CountOf(Op::kReduce), clusters ? 2 : 4) << ir::Dump(s.g);
  }
}

TEST(RangesInReaders, PaddedPicturesAreFoundAtOnceOnlyIfTheyAreSmaller) {
  for (const bool padded : {false, true}) {
    SmallGraph s;
    EXPECT_EQ(Changed(&s, {.shape = {1, 16, 20, 60}, .padded = padded}), 1);
    EXPECT_EQ(RowsAndAll(s, 20),
              padded ? std::make_pair(int64_t{2}, int64_t{0}) : std::make_pair(int64_t{0}, int64_t{2}))
        << ir::Dump(s.g);
  }
}

TEST(RangesInReaders, OtherRangesStay) {
  const auto changed = [](const RangedPicture& picture) {
    SmallGraph s;
    return Changed(&s, picture);
  };
  EXPECT_EQ(changed({.shape = {1, 64, 2, 600}}), 0) << "rows are too long for a block";
  EXPECT_EQ(changed({.along = 3}), 0) << "what lies side by side";
  EXPECT_EQ(changed({.with_0 = false}), 0) << "0 is not in the range";
  EXPECT_EQ(changed({.other_picture = true}), 0) << "the range of something else";
  EXPECT_EQ(changed({.padded = true, .covers = false}), 0) << "the range of more than is read";
}

TEST(RangesInReaders, WhoQuantisesThePictureAtOnceFindsTheRangeForPaddedOnes) {
  SmallGraph s;
  EXPECT_EQ(Changed(&s, {.shape = {1, 16, 20, 60}, .both = true}), 1);
  EXPECT_EQ(s.CountOf(Op::kReduce), 2) << ir::Dump(s.g);
}

}  // namespace
}  // namespace rondo::passes
