// Batches that share a side of a matmul are more rows or columns of one matmul.
#include "compiler/fusion/context.h"
#include "tests/fusion/keeps_meaning.h"
#include "tests/fusion/structure.h"

namespace rondo {
namespace {

// Batches, rows and columns of the only matmul of `program`.
struct Extents {
  int64_t batches = 1, rows = 1, columns = 1;
  bool operator==(const Extents&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Extents& e) {
    return out << e.batches << " batches of " << e.rows << " x " << e.columns;
  }
};
Extents ExtentsOf(const LoweredProgram& program) {
  Extents e;
  int found = 0;
  for (const LoweredOp& op : program.ops) {
    const Part& part = op.kernel.parts[0];
    if (part.skeleton != Skeleton::kMatMul) continue;
    ++found;
    for (int l = 0; l < EpilogueLoops(part); ++l) {
      (l < part.outer ? e.batches : l < part.outer + part.m ? e.rows : e.columns) *= part.loops[l];
    }
  }
  EXPECT_EQ(found, 1);
  return e;
}

TEST_F(Structure, BatchesThatShareTheirRightSideAreRowsOfOneProduct) {
  NodeId x = Input(Shape{19, 1, 8});  // as nn.MultiheadAttention exports it
  LoweredProgram program = FuseTo({b_.Add(b_.MatMul(x, Weight(Shape{8, 24})), Weight(Shape{24}))});
  EXPECT_EQ(ExtentsOf(program), (Extents{1, 19, 24}));
  const Part& part = program.ops[0].kernel.parts[0];
  EXPECT_EQ(part.loops.size(), 3u);  // one loop for each role: batches and rows are joined
}

TEST_F(Structure, SharedRightSidesAreFoundThroughViewsPrologueAndEpilogue) {
  const Shape weight{8, 12};
  // Batches that are permuted, have several dims, or have size 1; and a B that is expanded or reshaped.
  NodeId x = Input(Shape{5, 1, 3, 2, 8});
  NodeId wide = b_.Expand(b_.Reshape(Weight(weight), Shape{1, 1, 1, 8, 12}), Shape{3, 5, 1, 8, 12});
  struct {
    const char* what;
    NodeId product;
    Extents want;
  } cases[] = {
      {"several dims", b_.MatMul(x, Weight(weight)), {1, 30, 12}},
      {"permuted", b_.MatMul(b_.Transpose(x, {3, 1, 2, 0, 4}), Weight(weight)), {1, 30, 12}},
      {"expanded", b_.MatMul(b_.Transpose(x, {2, 0, 1, 3, 4}), wide), {1, 30, 12}},
      {"prologue", b_.MatMul(b_.Mul(x, Weight(Shape{8})), Weight(weight)), {1, 30, 12}},
      {"split",
       b_.Transpose(b_.Reshape(b_.MatMul(x, Weight(weight)), Shape{5, 6, 3, 4}), {2, 0, 1, 3}),
       {1, 30, 12}},
      {"some batches", b_.MatMul(x, b_.Expand(Weight(Shape{3, 8, 12}), Shape{5, 1, 3, 8, 12})), {3, 10, 12}},
  };
  for (auto& c : cases) {
    graph_.outputs.clear();
    EXPECT_EQ(ExtentsOf(FuseTo({b_.Unary(TapeOp::kTanh, c.product)})), c.want) << c.what;
    ExpectFusionKeepsMeaning(graph_, 1);
  }
}

TEST_F(Structure, BatchesThatShareTheirLeftSideAreColumnsOfOneProduct) {
  NodeId x = Input(Shape{6, 8, 3});
  EXPECT_EQ(ExtentsOf(FuseTo({b_.MatMul(Weight(Shape{16, 8}), x)})), (Extents{1, 16, 18}));
  graph_.outputs.clear();
  // With few rows and many columns, each batch's B is read once as it is.
  NodeId wide = Input(Shape{6, 8, 32});
  EXPECT_EQ(ExtentsOf(FuseTo({b_.MatMul(Weight(Shape{2, 8}), wide)})), (Extents{6, 2, 32}));
  graph_.outputs.clear();
  EXPECT_EQ(ExtentsOf(FuseTo({b_.MatMul(Input(Shape{6, 9, 8}), x)})), (Extents{6, 9, 3}));
}

TEST_F(Structure, ALeftSideThatCountsItsBatchesIsNotShared) {
  const Shape shape{6, 9, 8};
  NodeId counted = b_.Add(b_.Expand(Input(Shape{9, 8}), shape), b_.Cast(b_.Iota(shape, 0), DType::kF32));
  LoweredProgram program = FuseTo({b_.MatMul(counted, Input(Shape{6, 8, 3}))});
  EXPECT_EQ(ExtentsOf(program), (Extents{6, 9, 3}));
  ExpectFusionKeepsMeaning(graph_, 1);
}

}  // namespace
}  // namespace rondo
