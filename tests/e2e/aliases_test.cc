// What shares memory in whole programs: states computed where they lie, caches, outputs, parts of one memory that
// are changed each by itself, pieces of concatenations.
#include "tests/e2e/alias_model.h"

namespace rondo {
namespace {

using Kind = ExpectationKind;

constexpr int kInt64 = onnx::TensorProto::INT64, kBool = onnx::TensorProto::BOOL;

// --------------------------------------------------------------------------------- whole states

TEST(WholeStates, ACounterIsOneKernelInItsOwnMemory) {
  AliasModel m;
  m.State("n", {1}, "n_out", kInt64);
  m.Ints("one", {1});
  m.Node("Add", {"n", "one"}, {"n_out"});
  m.Check();
  EXPECT_EQ(m.steps(), 1u);
  EXPECT_EQ(m.copied(), 0u);
  EXPECT_EQ(m.arena(), 0u);
  EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "n"), "");
}

TEST(WholeStates, WhoReadsTheOldContentsDoesSoFirst) {
  AliasModel m;
  m.State("mean", {64}, "mean_out");
  m.Input("x", {64});
  m.Floats("k", {1}, {0.9f});
  m.Node("Mul", {"mean", "k"}, {"kept"});
  m.Node("Add", {"kept", "x"}, {"mean_out"});
  m.Node("Sub", {"x", "mean"}, {"before"});
  m.Node("Sub", {"x", "mean_out"}, {"after"});
  m.Output("before");
  m.Output("after");
  m.Check();
  EXPECT_EQ(m.copied(), 0u);
  EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "mean"), "");
}

TEST(WholeStates, ARowReductionIsComputedWhereTheStateLies) {
  AliasModel m;
  m.State("s", {4, 16}, "s_out");
  m.Input("x", {4, 16});
  m.Node("Add", {"s", "x"}, {"sum"});
  m.Node("Softmax", {"sum"}, {"s_out"});
  m.Check();
  EXPECT_EQ(m.steps(), 1u);
  EXPECT_EQ(m.copied(), 0u);
}

TEST(WholeStates, WhatReadsOtherElementsThanItWritesGoesThroughACopy) {
  for (const char* through : {"Identity", "Relu"}) {
    AliasModel m;
    m.State("s", {4, 4}, "s_out");
    m.Node("Transpose", {"s"}, {"turned"});
    m.Node(through, {"turned"}, {"other"});
    m.Node("Add", {"s", "other"}, {"s_out"});
    m.Check();
    EXPECT_EQ(m.copied(), 64u);
    EXPECT_NE(m.Why().find("the kernel that computes state \"s\" reads it at other places than it writes"),
              std::string::npos)
        << m.Why();
  }
}

TEST(WholeStates, AMatmulOfTheStateDoesNotWriteWhatItReads) {
  AliasModel m;
  m.State("h", {1, 16}, "h_out");
  m.Input("w", {16, 16});
  m.Input("x", {1, 16});
  m.Node("MatMul", {"h", "w"}, {"hw"});
  m.Node("Add", {"hw", "x"}, {"sum"});
  m.Node("Tanh", {"sum"}, {"h_out"});
  m.Check();
  EXPECT_EQ(m.copied(), 64u);
  EXPECT_NE(m.Why(), "");
}

TEST(WholeStates, WhatStillReadsTheOldContentsWhenTheNewAreThereKeepsThem) {
  AliasModel m;
  m.State("s", {4, 16}, "s_out");
  m.Input("x", {4, 16});
  m.Node("Softmax", {"x"}, {"s_out"});
  m.Node("MatMul", {"s_out", "w"}, {"y"});
  m.Input("w", {16, 16});
  m.Node("Add", {"y", "s"}, {"late"});
  m.Output("late");
  m.Check();
  EXPECT_NE(m.Why().find("reads state \"s\" as it was when the new value is already there"), std::string::npos)
      << m.Why();
}

TEST(WholeStates, TwoThatSwapTakeOneCopyMore) {
  AliasModel m;
  m.State("s", {4, 16}, "s_out");
  m.State("t", {4, 16}, "t_out");
  m.Node("Identity", {"t"}, {"s_out"});
  m.Node("Identity", {"s"}, {"t_out"});
  m.Check();
  EXPECT_EQ(m.copied(), 3u * 256);
}

TEST(WholeStates, AMaskOfPositionsIsAppliedInPlace) {
  AliasModel m;
  m.State("cache", {32, 16}, "cache_out");
  m.Input("x", {32, 16});
  m.Input("mask", {32, 1}, kBool);
  m.Node("Where", {"mask", "x", "cache"}, {"cache_out"});
  m.Node("Softmax", {"cache_out"}, {"y"});
  m.Output("y");
  m.Check();
  EXPECT_EQ(m.copied(), 0u);
  EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "cache"), "");
}

// ------------------------------------------------------------------- parts of one memory, changed

// t = softmax(x), and one row of each of its parts replaced.
void HalvesOf(AliasModel* m, int64_t axis) {
  m->Input("x", {8, 16});
  m->Input("u", {1, axis == 0 ? 16 : 8});
  m->Node("Softmax", {"x"}, {"t"});
  m->Slice("t", "p", 0, axis == 0 ? 4 : 8, axis);
  m->Slice("t", "q", axis == 0 ? 4 : 8, axis == 0 ? 8 : 16, axis);
  for (const char* half : {"p", "q"}) {
    const std::string name(half);
    m->Ints(name + "_flat", {name == "p" ? 1 : 2});
    m->Ints(name + "_shape", {1, 1});
    m->Node("Reshape", {name + "_flat", name + "_shape"}, {name + "_row"});
    m->Node("ScatterND", {name, name + "_row", "u"}, {name + "_new"});
    m->Node("Softmax", {name + "_new"}, {name + "_out"});
    m->Output(name + "_out");
  }
}

TEST(Parts, DisjointViewsAreChangedInOneMemory) {
  for (int64_t axis : {0, 1}) {
    AliasModel m;
    HalvesOf(&m, axis);
    m.Check();
    EXPECT_LE(m.copied(), 128u) << "only the rows that are written";
    EXPECT_EQ(m.Expect(Kind::kSharesMemory, "t", "t"), "");
    EXPECT_EQ(m.Expect(Kind::kDiesAfter, "t", "Softmax_q_out"), "") << "with its last alias";
  }
}

TEST(Parts, WhatReadsElementsThatAreNotReplacedIsNotHeldUp) {
  AliasModel m;
  m.Input("x", {8, 16});
  m.Input("u", {1, 16});
  m.Input("row", {1, 1}, kInt64);
  m.Node("Softmax", {"x"}, {"t"});
  m.Slice("t", "head", 0, 4);
  m.Slice("t", "tail", 4, 8);
  m.Node("ScatterND", {"head", "row", "u"}, {"changed"});
  m.Node("Softmax", {"changed"}, {"y"});
  m.Node("MatMul", {"tail", "w"}, {"z0"});  // reads y first, and then the tail
  m.Input("w", {16, 16});
  m.Node("Add", {"z0", "y"}, {"z"});
  m.Output("z");
  m.Check();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Parts, WhatIsReadAsItWasIsCopied) {
  AliasModel m;
  m.Input("x", {8, 16});
  m.Input("u", {1, 16});
  m.Input("row", {1, 1}, kInt64);
  m.Node("MatMul", {"x", "w"}, {"t"});
  m.Node("ScatterND", {"t", "row", "u"}, {"changed"});
  m.Node("Softmax", {"changed"}, {"y"});
  m.Node("MatMul", {"y", "w"}, {"yw"});
  m.Input("w", {16, 16});
  m.Node("Add", {"yw", "t"}, {"z"});
  m.Output("z");
  m.Check();
  EXPECT_EQ(m.copied(), 512u);
  EXPECT_NE(m.Why().find("others read it as it was"), std::string::npos) << m.Why();
}

TEST(Parts, AnInputIsNeverChanged) {
  AliasModel m;
  m.Input("x", {8, 16});
  m.Input("u", {1, 16});
  m.Input("row", {1, 1}, kInt64);
  m.Node("ScatterND", {"x", "row", "u"}, {"changed"});
  m.Node("Softmax", {"changed"}, {"y"});
  m.Output("y");
  m.Check();
  EXPECT_EQ(m.copied(), 512u);
  EXPECT_NE(m.Why().find("input \"x\" is written to, and stays as the caller gave it"), std::string::npos) << m.Why();
}

}  // namespace
}  // namespace rondo
