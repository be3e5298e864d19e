// Required fusions, counted in kernels: the random graphs would not notice a lost fusion.
#include <gtest/gtest.h>

#include "compiler/fusion/context.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/builder.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::Builder;
using ir::Graph;
using ir::NodeId;

class Structure : public testing::Test {
 protected:
  Structure() : b_(&graph_) {}
  NodeId Weight(const Shape& shape) {
    auto data = std::make_shared<ir::ConstantData>();
    data->shape = shape;
    data->synthetic = true;
    data->synthetic_key = ++weights_;
    data->synthetic_scale = 1;
    return b_.Constant(data);
  }
  NodeId Input(const Shape& shape) {
    return b_.Input("x" + std::to_string(graph_.inputs.size()), DType::kF32, shape);
  }
  NodeId RmsNorm(NodeId x, NodeId weight) {
    NodeId mean = b_.Mean(b_.Mul(x, x), {b_.shape(x).rank - 1}, true);
    NodeId r = b_.Unary(TapeOp::kRsqrt, b_.BinaryScalar(TapeOp::kAdd, mean, 1e-5));
    return b_.Mul(b_.Mul(x, r), weight);
  }
  NodeId Silu(NodeId x) { return b_.Mul(x, b_.Unary(TapeOp::kSigmoid, x)); }
  NodeId Softmax(NodeId x) {
    int axis = b_.shape(x).rank - 1;
    NodeId e = b_.Unary(TapeOp::kExp, b_.Sub(x, b_.Reduce(ir::ReduceKind::kMax, x, {axis}, true)));
    return b_.Div(e, b_.Reduce(ir::ReduceKind::kSum, e, {axis}, true));
  }
  LoweredProgram FuseTo(std::vector<NodeId> outputs, const FuseOptions& options = {}) {
    for (NodeId node : outputs) graph_.outputs.push_back({"y" + std::to_string(graph_.outputs.size()), node});
    auto program = Fuse(graph_, options, nullptr);
    EXPECT_TRUE(program.ok()) << program.status().message();
    return program.ok() ? program.Take() : LoweredProgram();
  }
  static int Temporaries(const LoweredProgram& program) {
    int n = 0;
    for (const LoweredValue& value : program.values) n += value.kind == BufferKind::kTemporary;
    return n;
  }

  Graph graph_;
  Builder b_;
  uint64_t weights_ = 0;
};

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

// ------------------------------------------------------------- batches that share a side of a product

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

// ------------------------------------------------------------------------------- layouts on the host

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
