// Values that share memory in whole programs: states computed in place, caches, outputs, separately updated
// parts of one memory, pieces of concatenations.
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
  EXPECT_NE(m.Why().find("reads state \"s\" as it was when the new value is already there"),
            std::string::npos)
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

// ------------------------------------------------------------------------------------- caches

// A cache with row x written at position p by a Where; each test makes the mask in another way.
class OneHotCache : public AliasModel {
 public:
  explicit OneHotCache(int64_t first = 0) {
    State("cache", {32, 16}, "cache_out");
    Input("x", {1, 16});
    Input("p", {1}, kInt64);
    IntegersBelow(32 + 8);  // some positions are outside the cache
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < 32; ++i) numbers.push_back(first + i);
    Ints("numbers_flat", numbers);
    Ints("column", {32, 1});
    AliasModel::Node("Reshape", {"numbers_flat", "column"}, {"numbers"});
  }
  void Finish() {
    AliasModel::Node("Softmax", {"cache_out"}, {"y"});
    Output("y");
    Check();
    EXPECT_EQ(copied(), 0u);
    EXPECT_EQ(Expect(ExpectationKind::kUpdatedInPlace, "cache"), "");
    const Step& write = plan().programs[0].steps[steps() - 2];
    EXPECT_EQ(plan().kernels[write.kernel].parts[0].loops.size(), 1u) << "one row";
  }
};

TEST(Caches, AOneHotSelectionWritesOneRow) {
  for (int64_t first : {0, 3}) {
    for (bool flipped : {false, true}) {
      OneHotCache m(first);
      m.Node("Equal", {"numbers", "p"}, {"here"});
      m.Node("Not", {"here"}, {"elsewhere"});
      if (flipped) {
        m.Node("Where", {"elsewhere", "cache", "x"}, {"cache_out"});
      } else {
        m.Node("Where", {"here", "x", "cache"}, {"cache_out"});
      }
      m.Finish();
      EXPECT_EQ(m.steps(), first == 0 ? 2u : 3u) << "where numbers begin elsewhere, that is taken off first";
    }
  }
}

TEST(Caches, EachBatchHasAPositionOfItsOwn) {
  AliasModel m;
  m.State("cache", {3, 2, 8, 4}, "cache_out");
  m.Input("x", {3, 2, 1, 4});
  m.Input("p", {3}, kInt64);
  m.IntegersBelow(10);
  m.Ints("numbers_flat", {0, 1, 2, 3, 4, 5, 6, 7});
  m.Ints("along", {1, 1, 8, 1});
  m.Ints("batches", {3, 1, 1, 1});
  m.Node("Reshape", {"numbers_flat", "along"}, {"numbers"});
  m.Node("Reshape", {"p", "batches"}, {"positions"});
  m.Node("Equal", {"positions", "numbers"}, {"here"});
  m.Node("Where", {"here", "x", "cache"}, {"cache_out"});
  m.Check();
  EXPECT_EQ(m.steps(), 1u);
  EXPECT_EQ(m.copied(), 0u);
  const Part& part = m.plan().kernels[m.plan().programs[0].steps[0].kernel].parts[0];
  int64_t points = 1;
  for (int64_t extent : part.loops) points *= extent;
  EXPECT_EQ(points, 3 * 2 * 4) << "one row a batch and head";
}

TEST(Caches, AMaskOfManyPositionsIsNoOneHot) {
  for (const char* compare : {"Less", "LessOrEqual"}) {
    AliasModel m;
    m.State("cache", {8, 4}, "cache_out");
    m.Input("x", {1, 4});
    m.Input("p", {1}, kInt64);
    m.IntegersBelow(8);
    m.Ints("numbers_flat", {0, 1, 2, 3, 4, 5, 6, 7});
    m.Ints("column", {8, 1});
    m.Node("Reshape", {"numbers_flat", "column"}, {"numbers"});
    m.Node(compare, {"numbers", "p"}, {"here"});
    m.Node("Where", {"here", "x", "cache"}, {"cache_out"});
    m.Check();
    EXPECT_EQ(m.copied(), 0u);
  }
}

// On the host rows move in order: each is read before it is overwritten, so no copy is needed.
TEST(Caches, AShiftedCacheIsMovedInOnePass) {
  for (bool sliced_after : {false, true}) {
    AliasModel m;
    m.State("cache", {32, 16}, "cache_out");
    m.Input("x", {1, 16});
    if (sliced_after) {
      m.Node("Concat", {"cache", "x"}, {"longer"}, "axis", 0);
      m.Slice("longer", "cache_out", 1, 33);
    } else {
      m.Slice("cache", "tail", 1, 32);
      m.Node("Concat", {"tail", "x"}, {"cache_out"}, "axis", 0);
    }
    m.Node("Softmax", {"cache_out"}, {"y"});
    m.Output("y");
    m.Check();
    EXPECT_EQ(m.copied(), 31u * 64 + 64);
    EXPECT_EQ(m.arena(), 2048u) << "y; x lies there before it";
    EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "cache"), "");
    EXPECT_NE(m.Why().find("elements of state \"cache\" move within it"), std::string::npos) << m.Why();
  }
}

// Dimensions: heads, rows, features. Rows move within each head. Rows that move up or wrap around are read
// from a copy.
TEST(Caches, ManyHeadsAreShiftedInOnePassAndWhatMovesUpIsNot) {
  for (const bool up : {false, true}) {
    AliasModel m;
    m.State("cache", {3, 32, 16}, "cache_out");
    m.Input("x", {3, 2, 16});
    m.Slice("cache", "kept", up ? 0 : 2, up ? 30 : 32, 1);
    m.Node("Concat", up ? std::vector<std::string>{"x", "kept"} : std::vector<std::string>{"kept", "x"},
           {"cache_out"}, "axis", 1);
    m.Node("Softmax", {"cache_out"}, {"y"});
    m.Output("y");
    m.Check();
    EXPECT_EQ(m.copied(), (up ? 2u : 1u) * 3 * 30 * 64 + 3 * 2 * 64);
  }
}

TEST(Caches, ARingOfRowsTurns) {
  for (const int64_t by : {1, 5, 31}) {
    AliasModel m;
    m.State("cache", {32, 16}, "cache_out");
    m.Slice("cache", "late", by, 32);
    m.Slice("cache", "early", 0, by);
    m.Node("Concat", {"late", "early"}, {"cache_out"}, "axis", 0);
    m.Check();
    EXPECT_EQ(m.copied(), 32u * 64 + static_cast<uint64_t>(by) * 64) << "one pass, and the rows put aside";
  }
}

TEST(Caches, RowsWrittenByIndexOrSliceAreAllThatIsWritten) {
  AliasModel m;
  m.State("cache", {32, 16}, "cache_out");
  m.Input("x", {4, 16});
  m.Slice("cache", "head", 0, 8);
  m.Slice("cache", "tail", 12, 32);
  m.Node("Concat", {"head", "x", "tail"}, {"cache_out"}, "axis", 0);
  m.Check();
  EXPECT_EQ(m.copied(), 256u);
  EXPECT_NE(m.Why().find("input \"x\" is written over a part of state \"cache\""), std::string::npos)
      << m.Why();
}

TEST(Caches, TwoOfOneBufferAreWrittenEachInItsHalf) {
  AliasModel m;
  m.State("cache", {2, 32, 16}, "cache_out");
  m.Input("k", {1, 16});
  m.Input("v", {1, 16});
  m.Input("p", {1, 1}, kInt64);
  m.IntegersBelow(32);
  m.Ints("rows", {32, 16});
  m.Ints("front", {0});
  for (const char* half : {"k", "v"}) {
    const std::string name(half);
    m.Slice("cache", name + "_all", name == "k" ? 0 : 1, name == "k" ? 1 : 2);
    m.Node("Reshape", {name + "_all", "rows"}, {name + "_old"});
    m.Node("ScatterND", {name + "_old", "p", name}, {name + "_new"});
    m.Node("Unsqueeze", {name + "_new", "front"}, {name + "_part"});
  }
  m.Node("Concat", {"k_part", "v_part"}, {"cache_out"}, "axis", 0);
  m.Node("Add", {"k_new", "v_new"}, {"y"});
  m.Output("y");
  m.Check();
  EXPECT_EQ(m.copied(), 0u);
  EXPECT_EQ(m.Expect(Kind::kUpdatedInPlace, "cache"), "");
}

// ------------------------------------------------------------------- parts of one memory, changed

// t = softmax(x), split into parts along `axis`, with one row of each part replaced.
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
  m.Node("MatMul", {"tail", "w"}, {"z0"});  // the steps read y first, then the tail
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

// All rows of "many" share the same memory, so changing one row needs a copy.
TEST(Parts, WhatIsRepeatedIsCopied) {
  AliasModel m;
  m.Input("x", {1, 16});
  m.Input("u", {1, 16});
  m.Input("row", {1, 1}, kInt64);
  m.Ints("shape", {8, 16});
  m.Node("Softmax", {"x"}, {"t"});
  m.Node("Expand", {"t", "shape"}, {"many"});
  m.Node("ScatterND", {"many", "row", "u"}, {"changed"});
  m.Node("Softmax", {"changed"}, {"y"});
  m.Output("y");
  m.Check();
  EXPECT_EQ(m.copied(), 512u);
  EXPECT_NE(m.Why().find("is written to where it is repeated"), std::string::npos) << m.Why();
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
  EXPECT_NE(m.Why().find("input \"x\" is written to, and stays as the caller gave it"), std::string::npos)
      << m.Why();
}

}  // namespace
}  // namespace rondo
