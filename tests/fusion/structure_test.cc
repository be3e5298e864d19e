// Required fusions, counted in kernels: the random graphs would not notice a lost fusion.
#include "tests/fusion/structure.h"

#include "compiler/fusion/context.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

// A view of widened elements causes no read of its own.
TEST_F(Structure, WhatOneReaderWidensThroughAViewIsWidenedOnce) {
  const NodeId wide = b_.Cast(b_.Input("x", DType::kF16, Shape{4, 6}), DType::kF32);
  const NodeId y = b_.Unary(TapeOp::kTanh, b_.Transpose(wide, {1, 0}));
  graph_.outputs.push_back({"y", y});
  const NodeId nodes = graph_.size();
  fusion::WidenAtReaders(&graph_);
  EXPECT_EQ(graph_.size(), nodes);
  graph_.outputs.push_back({"z", b_.Unary(TapeOp::kExp, wide)});
  fusion::WidenAtReaders(&graph_);
  EXPECT_EQ(graph_.size(), nodes + 2) << "the second reader has one of its own";
}

TEST_F(Structure, AnOutputAndTheSameInAnotherOrderNeedNoMemoryBesideTheirs) {
  for (const bool turned_first : {false, true}) {
    Graph graph;
    Builder b(&graph);
    const NodeId y = b.Unary(TapeOp::kTanh, b.Input("x", DType::kF32, Shape{4, 6}));
    if (!turned_first) graph.outputs.push_back({"y", y});
    graph.outputs.push_back({"turned", b.Transpose(y, {1, 0})});
    if (turned_first) graph.outputs.push_back({"y", y});
    EXPECT_EQ(Temporaries(ExpectFusionKeepsMeaning(graph, 1)), 0) << turned_first;
  }
}

TEST_F(Structure, CopiesThatShareAKernelKeepTheReasonOfEach) {
  const NodeId x = Input(Shape{4, 6}), y = Input(Shape{4, 6});
  const LoweredProgram together = FuseTo({b_.Transpose(x, {1, 0}), b_.Transpose(y, {1, 0})});
  FuseOptions apart;
  apart.siblings = false;
  const auto alone = Fuse(graph_, apart, nullptr);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  ASSERT_EQ(together.ops.size(), 1u);
  ASSERT_EQ(alone->ops.size(), 2u);
  EXPECT_NE(alone->ops[0].moves_because, alone->ops[1].moves_because);
  EXPECT_EQ(together.ops[0].moves_because, alone->ops[0].moves_because + "; " + alone->ops[1].moves_because);
}

TEST_F(Structure, APointwiseChainIsOneMap) {
  NodeId x = Input(Shape{4, 6});
  NodeId y = b_.Unary(TapeOp::kTanh, b_.Transpose(b_.Add(b_.Unary(TapeOp::kExp, x), x), {1, 0}));
  LoweredProgram program = FuseTo({y});
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.ops[0].kernel.parts[0].skeleton, Skeleton::kMap);
}

// A number that is rounded and clamped to the range of its type stays a float; any other becomes an integer.
TEST_F(Structure, WhatIsQuantisedAndBackInOneKernelStaysAFloat) {
  const auto widened = [](DType type, bool whole, double least, double most) {
    Graph graph;
    Builder b(&graph);
    const NodeId x = b.BinaryScalar(TapeOp::kMul, b.Input("x", DType::kF32, Shape{5, 7}), 90);
    NodeId y = b.BinaryScalar(TapeOp::kAdd, whole ? b.Unary(TapeOp::kRound, x) : x, 3);
    y = b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, y, least), most);
    y = b.BinaryScalar(TapeOp::kSub, b.Cast(b.Cast(y, type), DType::kF32), 3);
    graph.outputs.push_back({"y", b.Unary(TapeOp::kTanh, y)});
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1);
    int count = 0;
    for (const TapeInst& inst : program.ops[0].kernel.parts[0].body)
      count += inst.op == TapeOp::kCast && inst.type == TapeType::kF32;
    return count;
  };
  EXPECT_EQ(widened(DType::kU8, true, 0, 255), 0);
  EXPECT_EQ(widened(DType::kI8, true, -128, 127), 0);
  EXPECT_EQ(widened(DType::kI16, true, -32768, 32767), 0);
  EXPECT_EQ(widened(DType::kU8, true, 0, 256), 1);
  EXPECT_EQ(widened(DType::kU8, true, -1, 255), 1);
  EXPECT_EQ(widened(DType::kI8, true, 0, 255), 1);
  EXPECT_EQ(widened(DType::kU8, false, 0, 255), 1);
}

// Maximum and minimum of rows, then of all rows, and a value computed from both.
TEST_F(Structure, ReductionsOfTheSameRowsAreOneKernelEach) {
  const NodeId x = Input(Shape{4, 6, 16});
  const auto extreme = [&](ir::ReduceKind kind) {
    return b_.Reduce(kind, b_.Reduce(kind, x, {2}, true), {0, 1, 2}, false);
  };
  const NodeId max = b_.BinaryScalar(TapeOp::kMax, extreme(ir::ReduceKind::kMax), 0);
  const NodeId min = b_.BinaryScalar(TapeOp::kMin, extreme(ir::ReduceKind::kMin), 0);
  const NodeId scale = b_.BinaryScalar(TapeOp::kDiv, b_.Sub(max, min), 255);
  const NodeId zero = b_.Unary(TapeOp::kRound, b_.Div(b_.Unary(TapeOp::kNeg, min), scale));
  const NodeId y = b_.Add(b_.Unary(TapeOp::kRound, b_.Div(x, scale)), zero);
  graph_.outputs.push_back({"y", y});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1);
  ASSERT_EQ(program.ops.size(), 3u);
  EXPECT_EQ(program.ops[0].kernel.parts[0].scalars, 2);
  EXPECT_EQ(program.ops[1].kernel.parts[0].skeleton, Skeleton::kReduction);
  EXPECT_EQ(program.ops[2].kernel.parts[0].skeleton, Skeleton::kMap);
}

// If one reduction waits for the other, they are not one kernel.
TEST_F(Structure, ReductionsThatWaitForOneAnotherAreKernelsOfTheirOwn) {
  const NodeId x = Input(Shape{6, 16});
  const NodeId max = b_.Reduce(ir::ReduceKind::kMax, x, {1}, true);
  const NodeId y = b_.MatMul(b_.Reshape(max, Shape{1, 6}), Input(Shape{6, 96}));
  const NodeId min = b_.Reduce(ir::ReduceKind::kMin, b_.Reshape(y, Shape{6, 16}), {1}, true);
  graph_.outputs.push_back({"y", b_.Add(max, min)});
  EXPECT_EQ(ExpectFusionKeepsMeaning(graph_, 1).ops.size(), 3u);
}

TEST_F(Structure, SmallReductionsOfOneDepthAreOneKernel) {
  const NodeId x = Input(Shape{6, 16}), y = Input(Shape{5, 3, 8});
  graph_.outputs.push_back({"a", b_.Reduce(ir::ReduceKind::kSum, x, {1}, false)});
  graph_.outputs.push_back({"b", b_.Reduce(ir::ReduceKind::kMax, y, {1}, false)});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1);
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.ops[0].kernel.parts.size(), 2u);
}

// GPUs multiply bytes in lines along K. A computed B is written in that order, whatever else reads it.
TEST_F(Structure, ComputedBytesLieAlongKForGpus) {
  const auto strides = [](const TargetTraits& target) {
    Graph graph;
    Builder b(&graph);
    const auto bytes = [&](const char* name, const Shape& shape) {
      return b.Cast(b.BinaryScalar(TapeOp::kMul, b.Input(name, DType::kF32, shape), 9), DType::kI8);
    };
    const NodeId x = bytes("x", Shape{8, 32}), y = bytes("y", Shape{32, 16});
    graph.outputs.push_back({"y", b.Cast(b.MatMul(x, y), DType::kF32)});
    graph.outputs.push_back({"sums", b.Reduce(ir::ReduceKind::kSum, b.Cast(y, DType::kF32), {0}, false)});
    FuseOptions options;
    options.target = target;
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1, options);
    for (const LoweredOp& op : program.ops) {
      const Part& part = op.kernel.parts[0];
      if (part.skeleton != Skeleton::kMatMul) continue;
      const Operand& rhs = part.operands[part.rhs[0]];
      return rhs.strides[part.loops.size() - 1];
    }
    return int64_t{0};
  };
  EXPECT_EQ(strides(GpuTraits()), 1);
  EXPECT_EQ(strides(HostTraits()), 16);
}

TEST_F(Structure, ANormIsOneReductionWithItsPointwiseTail) {
  NodeId x = Input(Shape{2, 3, 16});
  LoweredProgram program = FuseTo({Silu(RmsNorm(x, Weight(Shape{16})))});
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.ops[0].kernel.parts[0].skeleton, Skeleton::kReduction);
}

TEST_F(Structure, ASoftmaxIsOneReductionThatComputesEachExponentialOnce) {
  LoweredProgram program = FuseTo({Softmax(Input(Shape{2, 3, 16}))});
  ASSERT_EQ(program.ops.size(), 1u);
  const Part& part = program.ops[0].kernel.parts[0];
  int exponentials = 0;
  for (const Stage& stage : part.stages) {
    for (const TapeInst& inst : stage.tape) exponentials += inst.op == TapeOp::kExp;
  }
  EXPECT_EQ(exponentials, 1);
  EXPECT_EQ(part.kept, 1);
}

// Also if only a later stage's sum reads it, and the stored values are computed from that sum.
TEST_F(Structure, AnExponentialThatALaterSumReadsIsComputedOnce) {
  const NodeId softmax = Softmax(Input(Shape{6, 16}));
  const NodeId expected = b_.Reduce(ir::ReduceKind::kSum, b_.Mul(softmax, Input(Shape{16})), {1}, true);
  graph_.outputs.push_back({"y", b_.Unary(TapeOp::kSqrt, b_.Mul(expected, expected))});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1);
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.ops[0].kernel.parts[0].kept, 1);
}

TEST_F(Structure, AKeptRowIsNotTakenForTheValuesOfOtherRows) {
  NodeId e = b_.Unary(TapeOp::kExp, Input(Shape{8, 8}));
  NodeId both = b_.Add(e, b_.Transpose(e, {1, 0}));
  graph_.outputs.push_back({"y", b_.Div(both, b_.Reduce(ir::ReduceKind::kSum, e, {1}, true))});
  LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1);
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.ops[0].kernel.parts[0].kept, 1);
}

// Sixteen scalars a row are enough for any number of successive reductions, as in a binary search.
TEST_F(Structure, ReductionsOneAfterTheOtherAreOneKernelWhoseStagesRepeat) {
  NodeId x = b_.BinaryScalar(TapeOp::kMax, Input(Shape{3, 32}), -9);
  NodeId at = b_.Reduce(ir::ReduceKind::kMin, x, {1}, true);
  NodeId width = b_.Sub(b_.Reduce(ir::ReduceKind::kMax, x, {1}, true), at);
  for (int round = 0; round < 20; ++round) {
    width = b_.BinaryScalar(TapeOp::kMul, width, 0.5);
    NodeId next = b_.Add(at, width), from = at;
    NodeId above = b_.Cast(b_.Binary(TapeOp::kLessEqual, next, x), DType::kF32);
    NodeId enough = b_.Binary(TapeOp::kLessEqual, b_.Scalar(DType::kF32, 5),
                              b_.Reduce(ir::ReduceKind::kSum, above, {1}, true));
    at = b_.Select(enough, next, from);
    width = b_.Sub(next, from);
  }
  graph_.outputs.push_back({"y", at});
  LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1);
  ASSERT_EQ(program.ops.size(), 1u);
  const Part& part = program.ops[0].kernel.parts[0];
  EXPECT_LE(part.scalars, 8);
  ASSERT_EQ(part.stages.size(), 2 * 21u) << "elements and a row in turns";
  for (size_t s = 5; s + 5 < part.stages.size(); ++s) {
    const Tape a = part.stages[s].tape, b = part.stages[s + 2].tape;
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TapeInst& p, const TapeInst& q) {
      return p.op == q.op && p.arg == q.arg && p.a == q.a && p.b == q.b && p.c == q.c;
    })) << s;
  }
}

TEST_F(Structure, AnAnnotationKeepsATwinOutOfAProduct) {
  NodeId x = Input(Shape{5, 8});
  NodeId gate = b_.MatMul(x, Weight(Shape{8, 12})), up = b_.MatMul(x, Weight(Shape{8, 12}));
  graph_.node(up).annotations["fuse"] = "off";
  EXPECT_EQ(FuseTo({b_.Mul(Silu(gate), up)}).ops.size(), 2u);
}

// An annotated value is not fused as a twin, prologue, epilogue, producer, part of a norm or sibling.
TEST_F(Structure, WhatIsAnnotatedForAnotherStreamIsComputedThere) {
  for (int annotated = 0; annotated < 5; ++annotated) {
    graph_ = Graph();
    NodeId x = Input(Shape{5, 8});
    NodeId negative = b_.Unary(TapeOp::kNeg, x);
    NodeId gate = b_.MatMul(negative, Weight(Shape{8, 12})), up = b_.MatMul(negative, Weight(Shape{8, 12}));
    NodeId silu = Silu(gate);
    NodeId both = b_.Mul(silu, up);
    const NodeId row = b_.Unary(TapeOp::kAbs, both);  // reads the same value as the softmax
    const NodeId on_stream[] = {negative, up, silu, both, row};
    graph_.node(on_stream[annotated]).annotations["stream"] = "1";
    LoweredProgram program = FuseTo({Softmax(row)});
    size_t there = 0;
    for (const LoweredOp& op : program.ops) there += op.annotations.count("stream");
    EXPECT_EQ(there, 1u) << annotated;
    EXPECT_GE(program.ops.size(), 3u) << annotated;
  }
}

TEST_F(Structure, TheResidualAndWhatMakesItJoinTheReductionThatReadsThem) {
  NodeId x = Input(Shape{2, 16});
  NodeId h = b_.Add(x, b_.Unary(TapeOp::kExp, x));
  LoweredProgram program = FuseTo({RmsNorm(h, Weight(Shape{16}))});
  EXPECT_EQ(program.ops.size(), 1u);
}

TEST_F(Structure, AnActivationWithADiamondJoinsTheProductBeforeIt) {
  NodeId y = b_.Add(b_.MatMul(Input(Shape{4, 8}), Weight(Shape{8, 16})), Weight(Shape{16}));
  NodeId inner = b_.Unary(TapeOp::kErf, b_.BinaryScalar(TapeOp::kMul, y, 0.7071));
  NodeId gelu = b_.Mul(b_.BinaryScalar(TapeOp::kMul, y, 0.5), b_.BinaryScalar(TapeOp::kAdd, inner, 1));
  EXPECT_EQ(FuseTo({gelu}).ops.size(), 1u);
}

TEST_F(Structure, AGatedProductIsOneContractionWithTwoAccumulators) {
  for (bool gate_first : {true, false}) {
    graph_ = Graph();
    NodeId x = Input(Shape{1, 8});
    NodeId a = b_.MatMul(x, Weight(Shape{8, 16})), u = b_.MatMul(x, Weight(Shape{8, 16}));
    NodeId gate = gate_first ? a : u, up = gate_first ? u : a;
    LoweredProgram program = FuseTo({b_.Mul(Silu(gate), up)});
    ASSERT_EQ(program.ops.size(), 1u) << gate_first;
    EXPECT_EQ(program.ops[0].kernel.parts[0].rhs.size(), 2u);
  }
}

TEST_F(Structure, QueryKeyAndValueProductsAreOneKernel) {
  NodeId x = Input(Shape{1, 8});
  std::vector<NodeId> products;
  for (int i = 0; i < 3; ++i) products.push_back(b_.MatMul(x, Weight(Shape{8, 16})));
  LoweredProgram program = FuseTo(products);
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.ops[0].kernel.parts.size(), 3u);
  graph_.outputs.clear();
  FuseOptions apart;
  apart.siblings = false;
  EXPECT_EQ(FuseTo(products, apart).ops.size(), 3u);
}

TEST_F(Structure, ACheapProducerOfTheLeftSideIsAPrologue) {
  NodeId x = Input(Shape{4, 8});
  LoweredProgram program = FuseTo({b_.MatMul(b_.Mul(x, Weight(Shape{8})), Weight(Shape{8, 16}))});
  ASSERT_EQ(program.ops.size(), 1u);
  EXPECT_FALSE(program.ops[0].kernel.parts[0].prologue.empty());
}

TEST_F(Structure, AnEpilogueFollowsAPermutedReader) {
  NodeId y = b_.MatMul(Input(Shape{2, 6, 8}), Weight(Shape{8, 12}));
  NodeId heads = b_.Transpose(b_.Reshape(y, Shape{2, 6, 3, 4}), {0, 2, 1, 3});
  EXPECT_EQ(FuseTo({b_.Unary(TapeOp::kTanh, heads)}).ops.size(), 1u);
}

TEST_F(Structure, HeadsAreStoredAsTheProductThatMergesThemReadsThem) {
  ir::AttentionAttrs attrs;
  const Shape heads{1, 3, 6, 8};
  NodeId y = b_.Attention(Input(heads), Input(heads), Input(heads), ir::kNoNode, ir::kNoNode, attrs);
  NodeId merged = b_.Reshape(b_.Transpose(y, {0, 2, 1, 3}), Shape{6, 24});
  LoweredProgram program = FuseTo({b_.MatMul(merged, Weight(Shape{24, 16}))});
  ASSERT_EQ(program.ops.size(), 2u);
  const Part& product = program.ops[1].kernel.parts[0];
  ASSERT_EQ(product.skeleton, Skeleton::kMatMul);
  EXPECT_EQ(std::vector<int64_t>(product.loops.begin(), product.loops.end()),
            (std::vector<int64_t>{6, 16, 24}));
  const Span<const int64_t> strides = product.operands[product.lhs].strides;
  EXPECT_EQ(std::vector<int64_t>(strides.begin(), strides.end()), (std::vector<int64_t>{24, 0, 1}));
}

TEST_F(Structure, PiecesOfAConcatenationAreComputedInPlace) {
  NodeId x = Input(Shape{2, 8});
  NodeId a = b_.MatMul(x, Weight(Shape{8, 4})), c = b_.MatMul(x, Weight(Shape{8, 5}));
  LoweredProgram program = FuseTo({b_.Concat({a, c}, 1)});
  EXPECT_EQ(program.ops.size(), 1u);  // both matmuls are one kernel, which writes the output directly
  EXPECT_EQ(Temporaries(program), 0);
}

// A dense block: each layer reads what all layers before it have computed.
TEST_F(Structure, ShorterConcatenationsLieInTheLongestOne) {
  for (const bool in_order : {true, false}) {
    graph_ = {};
    NodeId layers = b_.MatMul(Input(Shape{6, 8}), Weight(Shape{8, 4}));
    std::vector<NodeId> pieces = {layers};
    for (int k = 1; k < 4; ++k) {
      pieces.push_back(b_.MatMul(layers, Weight(Shape{4 * k, 4})));
      if (!in_order && k == 2) std::swap(pieces[0], pieces[1]);
      layers = b_.Concat(pieces, 1);
    }
    graph_.outputs.push_back({"y", b_.MatMul(layers, Weight(Shape{16, 3}))});
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1);
    EXPECT_EQ(Temporaries(program), in_order ? 1 : 2) << "the longest, and one in another order";
    EXPECT_EQ(program.ops.size(), in_order ? 5u : 7u);
  }
}

TEST_F(Structure, WorkThatTwoKernelsReadIsDoneOnce) {
  NodeId x = Input(Shape{4, 8});
  NodeId e = b_.Unary(TapeOp::kExp, x);
  LoweredProgram program =
      FuseTo({b_.MatMul(e, Weight(Shape{8, 4})), b_.Reduce(ir::ReduceKind::kSum, e, {1}, true)});
  int exponentials = 0;
  for (const LoweredOp& op : program.ops) {
    for (const Part& part : op.kernel.parts) {
      for (const TapeInst& inst : part.body) exponentials += inst.op == TapeOp::kExp;
      for (const Stage& stage : part.stages) {
        for (const TapeInst& inst : stage.tape) exponentials += inst.op == TapeOp::kExp;
      }
    }
  }
  EXPECT_EQ(exponentials, 1);
}

TEST_F(Structure, PartOfAPictureIsChangedInItsOwnMemory) {
  const Shape part{2, 4};
  ir::IndexedAttrs attrs;
  attrs.map = ir::Slice(ir::DenseView(part), 0, 1, 1, 1);  // its second row
  attrs.may_collide = false;
  const NodeId picture = b_.Unary(TapeOp::kTanh, Input(Shape{4, 8}));
  const NodeId shown = b_.Slice(b_.Slice(picture, 0, 1, 1, 2), 1, 2, 1, 4);
  const NodeId changed = b_.IndexedWrite(shown, Input(Shape{1, 4}), {}, attrs);
  graph_.outputs.push_back({"y", b_.MatMul(changed, Weight(Shape{4, 3}))});
  graph_.outputs.push_back({"first", b_.MatMul(b_.Slice(picture, 0, 0, 1, 1), Weight(Shape{8, 3}))});
  EXPECT_EQ(Temporaries(ExpectFusionKeepsMeaning(graph_, 1)), 1) << "of which no copy is made";
}

TEST_F(Structure, NothingIsFusedThatWouldWaitForItself) {
  // The matmul's epilogue must not take the last addition, because its other input reads the matmul through a
  // reduction.
  NodeId y = b_.MatMul(Input(Shape{4, 8}), Weight(Shape{8, 8}));
  NodeId total = b_.Reduce(ir::ReduceKind::kSum, y, {0, 1}, true);
  LoweredProgram program = FuseTo({b_.Add(y, total)});
  EXPECT_GE(program.ops.size(), 2u);
}

TEST_F(Structure, AnAnnotationKeepsANodeAlone) {
  NodeId x = Input(Shape{4, 6});
  NodeId e = b_.Unary(TapeOp::kExp, x);
  graph_.node(e).annotations["fuse"] = "off";
  EXPECT_EQ(FuseTo({b_.Unary(TapeOp::kTanh, e)}).ops.size(), 2u);
}

TEST_F(Structure, ControlEdgesOrderKernels) {
  NodeId x = Input(Shape{4, 6});
  NodeId first = b_.Unary(TapeOp::kExp, x), second = b_.Unary(TapeOp::kTanh, x);
  graph_.node(first).strong_after = {second};
  LoweredProgram program = FuseTo({first, second});
  ASSERT_EQ(program.ops.size(), 2u);
  EXPECT_EQ(program.ops[1].deps, std::vector<int>{0});
  EXPECT_EQ(program.ops[0].kernel.parts[0].body[1].op, TapeOp::kTanh);
}

// Only when parts are emitted does the pass find views that no loop nest can read in place. Then it computes
// the node alone, or copies what it reads. This stays inside the pass: it does not show in annotations, and
// such kernels can still be fused with siblings.
TEST_F(Structure, ObstaclesAreConstraintsNotAnnotations) {
  std::vector<NodeId> outputs;
  for (int i = 0; i < 2; ++i) {
    NodeId x = Input(Shape{2, 3, 4});
    for (int k = 0; k < 3; ++k) {
      for (int turn = 0; turn < 3; ++turn) {
        x = b_.Transpose(b_.Transpose(x, {1, 0, 2}), {2, 0, 1});
        x = b_.Reshape(b_.Reshape(x, Shape{24}), Shape{4, 3, 2});
      }
      x = b_.Unary(TapeOp::kTanh, x);
    }
    outputs.push_back(x);
    graph_.outputs.push_back({"y" + std::to_string(i), x});
  }
  const std::string before = ir::Dump(graph_);
  FuseReport report;
  FuseOptions apart;
  apart.siblings = false;
  auto alone = Fuse(graph_, apart, &report);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_GT(report.copies, 0);
  EXPECT_GT(report.rounds, 1);
  EXPECT_LE(report.rounds, 12);
  EXPECT_EQ(ir::Dump(graph_), before);
  auto joined = Fuse(graph_, {}, nullptr);
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  EXPECT_EQ(2 * joined->ops.size(), alone->ops.size());
  for (const LoweredOp& op : joined->ops) EXPECT_TRUE(op.annotations.empty());
}

}  // namespace
}  // namespace rondo
