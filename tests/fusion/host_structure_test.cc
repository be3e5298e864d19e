// Required fusions and layouts on the host.
#include "compiler/fusion/context.h"
#include "tests/fusion/keeps_meaning.h"
#include "tests/fusion/structure.h"

namespace rondo {
namespace {

// On the host, one kernel computes a tensor's range and quantises the tensor. Elements of a padded tensor are
// computed in their places there, not copied.
TEST_F(Structure, OnTheHostATensorIsQuantisedBesideItsRangeOrWhereItIsPadded) {
  const auto skeletons = [](bool padded, bool shown = false) {
    Graph graph;
    Builder b(&graph);
    const Shape shape{1, 3, 4, 5};
    const NodeId x = b.Input("x", DType::kF32, shape);
    const NodeId most = b.Reshape(b.Reduce(ir::ReduceKind::kMax, x, {0, 1, 2, 3}, true), Shape{});
    NodeId y = b.Unary(TapeOp::kRound, b.Div(x, b.BinaryScalar(TapeOp::kDiv, most, 100)));
    y = b.Cast(b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, y, 0), 255), DType::kU8);
    if (padded) {
      const Shape larger{1, 3, 6, 7};
      const NodeId around = b.Expand(b.Input("around", DType::kU8, Shape{}), larger);
      ir::IndexedAttrs attrs;
      attrs.map = ir::Slice(ir::Slice(ir::DenseView(larger), 2, 1, 1, 4), 3, 1, 1, 5);
      attrs.may_collide = false;
      if (shown) graph.outputs.push_back({"bytes", y});
      y = b.IndexedWrite(around, y, {}, attrs);
    }
    graph.outputs.push_back({"y", y});
    std::vector<Skeleton> found;  // skeletons of the kernels that round
    for (const LoweredOp& op : ExpectFusionKeepsMeaning(graph, 1).ops) {
      const Part& part = op.kernel.parts[0];
      bool rounds = false;
      const auto look = [&](Tape tape) {
        for (const TapeInst& inst : tape) rounds |= inst.op == TapeOp::kRound;
      };
      look(part.body);
      for (const Stage& stage : part.stages) look(stage.tape);
      if (rounds) found.push_back(part.skeleton);
    }
    return found;
  };
  EXPECT_EQ(skeletons(false), std::vector<Skeleton>{Skeleton::kReduction});
  EXPECT_EQ(skeletons(true), std::vector<Skeleton>{Skeleton::kMap});
  EXPECT_EQ(skeletons(true, true),
            std::vector<Skeleton>{Skeleton::kReduction});  // the rounded values are also an output
}

// The stride along the channels of the output of `op`, a convolution or pool.
int64_t ChannelStride(const LoweredOp& op) {
  const Part& part = op.kernel.parts[0];
  EXPECT_EQ(part.skeleton, Skeleton::kConvolution);
  const size_t channels = part.loops[2] > 1 ? 2 : 1;
  for (const Operand& operand : part.operands) {
    if (operand.mode == Mode::kWrite) return operand.strides[channels];
  }
  return 0;
}

TEST_F(Structure, OnTheHostConvolutionsAndWhatLiesBetweenThemKeepTheirChannelsLast) {
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  const Shape kernel{8, 8, 3, 3};
  NodeId a = b_.Conv(Input(Shape{1, 8, 6, 6}), Weight(kernel), attrs);
  NodeId scale = b_.Reduce(ir::ReduceKind::kSum, a, {2, 3}, true);  // as in squeeze and excitation
  NodeId c = b_.Conv(b_.Mul(a, scale), Weight(kernel), attrs);
  NodeId d = b_.Conv(b_.Concat({c, b_.Unary(TapeOp::kTanh, a)}, 1), Weight(Shape{8, 16, 3, 3}), attrs);
  NodeId flat = b_.Reshape(d, Shape{1, 288});  // read as a row, so it keeps its own order
  graph_.outputs.push_back({"y", b_.MatMul(flat, Weight(Shape{288, 5}))});
  LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1);
  std::vector<int64_t> strides;
  for (const LoweredOp& op : program.ops) {
    const Part& part = op.kernel.parts[0];
    if (part.skeleton == Skeleton::kConvolution) strides.push_back(ChannelStride(op));
    EXPECT_TRUE(part.skeleton != Skeleton::kMatMul || part.reduced == 1);
  }
  EXPECT_EQ(strides, (std::vector<int64_t>{1, 1, 36}));
}

// A quantised result that is dequantised again is stored as bytes if a single kernel reads the floats: a map,
// or a reduction and what follows it. It is not if two kernels read them, or if they are an output.
TEST_F(Structure, OnTheHostAProductEndsWithBytesThatOneReaderWidens) {
  enum class Reader { kSoftmax, kTwoKernels, kOutput };
  const auto stores = [](Reader reader) {
    Graph graph;
    Builder b(&graph);
    const Shape shape{6, 8};
    const NodeId sums = b.MatMul(b.Input("x", DType::kU8, shape), b.Input("w", DType::kI8, Shape{8, 8}));
    NodeId y = b.Unary(TapeOp::kRound, b.BinaryScalar(TapeOp::kMul, b.Cast(sums, DType::kF32), 0.5));
    y = b.Cast(b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, y, 0), 255), DType::kU8);
    y = b.BinaryScalar(TapeOp::kMul, b.BinaryScalar(TapeOp::kSub, b.Cast(y, DType::kF32), 100), 0.125);
    const NodeId most = b.Reduce(ir::ReduceKind::kMax, y, {1}, true);
    const NodeId e = b.Unary(TapeOp::kExp, b.Sub(y, most));
    graph.outputs.push_back({"e", b.Div(e, b.Reduce(ir::ReduceKind::kSum, e, {1}, true))});
    if (reader == Reader::kOutput) graph.outputs.push_back({"y", y});
    if (reader == Reader::kTwoKernels)
      graph.outputs.push_back({"z", b.MatMul(b.Transpose(y, {1, 0}), b.Input("z", DType::kF32, shape))});
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1, {}, 10);
    for (const LoweredOp& op : program.ops) {
      const Part& part = op.kernel.parts[0];
      if (part.skeleton != Skeleton::kMatMul || part.acc_type != TapeType::kI64) continue;
      for (const Operand& operand : part.operands) {
        if (operand.mode != Mode::kRead) return operand.dtype;
      }
    }
    return DType::kBool;
  };
  EXPECT_EQ(stores(Reader::kSoftmax), DType::kU8);
  EXPECT_EQ(stores(Reader::kTwoKernels), DType::kF32);
  EXPECT_EQ(stores(Reader::kOutput), DType::kF32);
}

// As in squeeze-and-excitation: dequantised bytes are pooled, and later multiplied by a function of the
// pool's result.
TEST_F(Structure, OnTheHostAReductionReadsTheBytesThatAnotherKernelReads) {
  Graph graph;
  Builder b(&graph);
  const Shape shape{1, 8, 6, 6};
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {0, 0};
  const NodeId weight = b.Ints(DType::kI8, Shape{8, 8, 1, 1}, std::vector<int64_t>(64, 2));
  const NodeId sums = b.Conv(b.Input("x", DType::kU8, shape), weight, attrs);
  NodeId y = b.Unary(TapeOp::kRound, b.BinaryScalar(TapeOp::kMul, b.Cast(sums, DType::kF32), 0.5));
  y = b.Cast(b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, y, 0), 255), DType::kU8);
  y = b.BinaryScalar(TapeOp::kMul, b.BinaryScalar(TapeOp::kSub, b.Cast(y, DType::kF32), 3), 0.125);
  const NodeId pool = b.Reduce(ir::ReduceKind::kSum, y, {2, 3}, true);
  const NodeId squeezed = b.Conv(pool, b.Cast(weight, DType::kF32), attrs);
  graph.outputs.push_back({"y", b.Mul(y, squeezed)});
  int floats = 0, bytes = 0;  // buffers as large as the image
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1, {}, 10);
  for (const LoweredOp& op : program.ops) {
    for (const Operand& operand : op.kernel.parts[0].operands) {
      if (operand.mode == Mode::kRead || op.kernel.parts[0].skeleton == Skeleton::kMap) continue;
      bytes += operand.dtype == DType::kU8;
      floats += operand.dtype == DType::kF32;
    }
  }
  EXPECT_EQ(bytes, 1);   // the first convolution
  EXPECT_EQ(floats, 2);  // the pool's output and the second convolution's
}

// A concatenation that is quantised by its range, and perhaps padded, before a convolution reads it.
TEST_F(Structure, OnTheHostWhatIsQuantisedByItsRangeForAConvolutionHasItsChannelsLast) {
  for (const bool padded : {false, true}) {
    Graph graph;
    Builder b(&graph);
    const Shape shape{1, 8, 6, 6}, larger{1, 8, 8, 8};
    const NodeId half = b.Input("a", DType::kF32, Shape{1, 4, 6, 6});
    const NodeId x = b.Concat({b.Unary(TapeOp::kTanh, half), b.Unary(TapeOp::kAbs, half)}, 1);
    const NodeId most = b.Reshape(b.Reduce(ir::ReduceKind::kMax, x, {0, 1, 2, 3}, true), Shape{});
    NodeId y = b.Unary(TapeOp::kRound, b.Div(x, b.BinaryScalar(TapeOp::kDiv, most, 100)));
    y = b.Cast(b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, y, 0), 255), DType::kU8);
    if (padded) {
      ir::IndexedAttrs write;
      write.map = ir::Slice(ir::Slice(ir::DenseView(larger), 2, 1, 1, 6), 3, 1, 1, 6);
      write.may_collide = false;
      y = b.IndexedWrite(b.Expand(b.Input("around", DType::kU8, Shape{}), larger), y, {}, write);
    }
    ir::ConvAttrs attrs;
    attrs.strides = attrs.dilations = {1, 1};
    attrs.pads_begin = attrs.pads_end = {0, 0};
    const NodeId weight = b.Ints(DType::kI8, Shape{8, 8, 1, 1}, std::vector<int64_t>(64, 2));
    graph.outputs.push_back({"y", b.Conv(y, weight, attrs)});
    int pieces = 0;  // pieces that are written into the concatenation
    for (const LoweredOp& op : ExpectFusionKeepsMeaning(graph, 1).ops) {
      const Part& part = op.kernel.parts[0];
      for (const Operand& operand : part.operands) {
        if (part.skeleton != Skeleton::kMap || operand.dtype != DType::kF32 || operand.mode == Mode::kRead)
          continue;
        ++pieces;
        ASSERT_EQ(part.loops.size(), 2u) << padded;
        EXPECT_EQ(
            (std::vector<int64_t>{part.loops[0], operand.strides[0], part.loops[1], operand.strides[1]}),
            (std::vector<int64_t>{4, 1, 36, 8}));
      }
    }
    EXPECT_GT(pieces, 0) << padded;
  }
}

}  // namespace
}  // namespace rondo
