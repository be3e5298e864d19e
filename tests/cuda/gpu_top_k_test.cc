// The first elements of rows, against the reference (gpu_suite.h).
#include <limits>

#include "core/element.h"
#include "core/scalar.h"
#include "tests/cuda/gpu_suite.h"

namespace rondo::test {
namespace {

// What rows hold, besides numbers at random.
enum class Filling { kAny, kTies, kSame, kSpecial };

struct TopKCase {
  int64_t rows, elements, ranks;
  DType type;
  Filling filling = Filling::kAny;
  bool largest = true;
  bool apart = false;  // rows lie side by side in memory
};

void Fill(const TopKCase& t, Random& random, std::vector<char>* bytes) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kOdd[] = {kInf, -kInf, kNan, -kNan, 0.0, -0.0, 1e-7, -1e-7};
  for (int64_t i = 0; i < t.rows * t.elements; ++i) {
    const auto drawn = static_cast<int64_t>(random());
    if (!IsFloat(t.type)) {
      const int64_t whole = t.filling == Filling::kSame   ? 3
                            : t.filling == Filling::kTies ? drawn % 5 - 2
                                                          : drawn;
      scalar::Store<int64_t>(t.type, bytes->data(), i, whole);
      continue;
    }
    double x = static_cast<double>(drawn % 200001 - 100000) / 25000;
    if (t.filling == Filling::kTies) x = static_cast<double>(drawn % 3);
    if (t.filling == Filling::kSame) x = -1;
    if (t.filling == Filling::kSpecial && drawn % 3 == 0) x = kOdd[drawn / 3 % 8];
    if (t.type == DType::kF64) {
      scalar::Store<double>(t.type, bytes->data(), i, x);
    } else {
      scalar::Store<float>(t.type, bytes->data(), i, static_cast<float>(x));
    }
  }
}

void AddTopK(Suite* suite, const TopKCase& t) {
  Random random(static_cast<uint32_t>(t.elements * 31 + t.ranks));
  Case& c = suite->Add("the first " + std::to_string(t.ranks) + " of " + std::to_string(t.rows) +
                       " rows of " + std::to_string(t.elements) + " " + Name(t.type) + " filling " +
                       std::to_string(static_cast<int>(t.filling)));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kTopK;
  maker.part.combine = t.largest ? Combine::kMax : Combine::kMin;
  maker.part.acc_type = TapeType::kI64;
  maker.part.m = maker.part.n = maker.part.reduced = 1;
  maker.loops = {t.rows, t.ranks, t.elements};
  maker.part.lhs =
      maker.Operand(t.type, Mode::kRead, t.apart ? std::vector<int>{2, 0} : std::vector<int>{0, 2});
  maker.StoreAccumulators(maker.Operand(DType::kI64, Mode::kWrite, {0, 1}), TapeType::kI64);
  c.memory.Randomise(maker, random);
  Fill(t, random, &c.memory.params[maker.operands[maker.part.lhs].param]);
  c.tolerance = {};
}

constexpr DType kNumbers[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI64,
                              DType::kI32, DType::kI16, DType::kI8,   DType::kU8,  DType::kU64};

TEST(GpuTopK, ShortRowsAreSortedByAWarp) {
  Suite suite;
  for (int64_t elements : {2, 8, 31, 32, 33, 64, 100, 128, 200, 256}) {
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kI8, DType::kU16}) {
      const bool odd = (elements + static_cast<int>(type)) % 2 != 0;
      AddTopK(&suite, {11, elements, odd ? elements : std::max<int64_t>(2, elements / 7), type,
                       IsFloat(type) && odd ? Filling::kSpecial : Filling::kTies, !odd, elements == 33});
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("top_k_lanes<"), suite.size());
}

TEST(GpuTopK, RowsOfEveryTypeMatchTheReference) {
  Suite suite;
  for (DType type : kNumbers) {
    for (const Filling filling : {Filling::kAny, Filling::kTies, Filling::kSpecial}) {
      AddTopK(&suite, {3, 1000, 10, type, filling, filling != Filling::kTies});
      AddTopK(&suite, {2, 777, 300, type, filling, filling == Filling::kTies, true});
    }
    AddTopK(&suite, {1, 40, 7, type, Filling::kAny, false});
  }
  suite.Run();
}

// Ranks are divided among blocks, elements among the blocks of a cluster.
TEST(GpuTopK, FewLongRowsAreShared) {
  Suite suite;
  for (DType type : {DType::kF16, DType::kF32, DType::kI64}) {
    AddTopK(&suite, {1, 20000, 2000, type});
    AddTopK(&suite, {2, 50257, 50, type, Filling::kAny, false});
    AddTopK(&suite, {1, 70001, 5, type, Filling::kTies});
    AddTopK(&suite, {1, 33333, 600, type, Filling::kSame});
    AddTopK(&suite, {1, 3000, 3000, type, Filling::kSpecial});
  }
  suite.Run();
  EXPECT_GT(suite.Count("__cluster_dims__(8"), 5u);
}

// Where many rows fill the GPU, a block puts all ranks of a row in order.
TEST(GpuTopK, ManyRanksOfManyRowsMatchTheReference) {
  Suite suite;
  suite.processors = 1;
  for (DType type : {DType::kF16, DType::kF32, DType::kF64}) {
    AddTopK(&suite, {2, 5000, 700, type});
    AddTopK(&suite, {1, 9000, 9000, type, Filling::kTies});
    AddTopK(&suite, {1, 4097, 1500, type, Filling::kSpecial, false});
  }
  suite.Run();
}

}  // namespace
}  // namespace rondo::test
