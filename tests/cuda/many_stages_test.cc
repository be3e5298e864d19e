// Rows with many stages, as in drawing tokens: the rounds are a loop that ends when a round changes nothing,
// and rows stay in shared memory if they fit. No GPU needed.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/kernel_text.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

// What a round begins with: the sum, or the scalar, in which case the stage before may already make that sum.
enum class Begins { kSum, kScalar, kScalarBehindSum };

// Searches a row: each round sums the row by the scalar s1, then computes the next s1 from the sum.
struct SearchMaker {
  Arena arena;
  PartMaker maker{&arena};

  SearchMaker(int64_t rows, int64_t row, int rounds, bool stores = false, bool ends_within = false,
              Begins begins = Begins::kSum) {
    maker.loops = {rows, row};
    Part& part = maker.part;
    part.skeleton = Skeleton::kReduction;
    part.outer = part.reduced = part.kept = 1;
    part.scalars = 3;
    const uint16_t x = maker.Operand(DType::kBF16, Mode::kRead, {0, 1}),
                   y = maker.Operand(DType::kBF16, Mode::kWrite, {0, 1});
    TapeMaker most, sum, next, last;
    most.Add(TapeOp::kReduceMax, TapeType::kF32, 0, most.Load(x, DType::kBF16));
    most.Add(TapeOp::kKeep, TapeType::kF32, 0, most.Load(x, DType::kBF16));
    const auto add = [&](TapeMaker* tape) {
      tape->Add(TapeOp::kReduceSum, TapeType::kF32, 2,
                tape->Binary(TapeOp::kMax, tape->Load(x, DType::kBF16),
                             tape->Add(TapeOp::kScalar, TapeType::kF32, 1)));
    };
    if (begins == Begins::kScalarBehindSum) add(&most);
    add(&sum);
    if (stores) sum.Store(y, DType::kBF16, sum.Load(x, DType::kBF16));
    next.Add(TapeOp::kSetScalar, TapeType::kF32, 1,
             next.Binary(TapeOp::kMin, next.Add(TapeOp::kScalar, TapeType::kF32, 0),
                         next.Add(TapeOp::kScalar, TapeType::kF32, 2)));
    last.Store(y, DType::kBF16, last.Add(TapeOp::kKept, TapeType::kF32, 0));
    std::vector<Stage> stages = {{false, maker.Keep(most)}};
    if (begins != Begins::kSum) stages.push_back({true, maker.Keep(next)});
    for (int round = 0; round < rounds; ++round) {
      stages.push_back({false, maker.Keep(sum)});
      if (round + 1 < rounds || !ends_within) stages.push_back({true, maker.Keep(next)});
    }
    stages.push_back({false, maker.Keep(last)});
    part.stages = arena.Copy(stages);
  }

  std::string Text() {
    const Kernel kernel = maker.Make();
    std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
    Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
    EXPECT_TRUE(text.ok()) << text.status().message();
    if (!text.ok()) return "";
    shared = text->shared;
    return text->text;
  }
  uint32_t shared = 0;
};

bool Says(const std::string& text, const std::string& words) { return text.find(words) != text.npos; }

TEST(CudaManyStages, RoundsEndOnceTheyChangeNothing) {
  const std::string text = SearchMaker(1, 128256, 9).Text();
  EXPECT_TRUE(Says(text, "for (int time = 0; time < 9; ++time)"));
  EXPECT_TRUE(Says(text, "team_bits(was1) == team_bits(s1)) break;")) << text;
  // The last round consists of its sum alone.
  const std::string within = SearchMaker(1, 128256, 9, false, true).Text();
  EXPECT_TRUE(Says(within, "for (int time = 0; time < 9; ++time)"));
  EXPECT_TRUE(Says(within, "if (time == 8) break;")) << within;
  // If a round begins with the scalar, the sum is known before the first round only if the stage before made
  // it.
  EXPECT_TRUE(Says(SearchMaker(1, 128256, 9, false, false, Begins::kScalar).Text(),
                   "if (time > 0 && team_bits(was1)"));
  EXPECT_TRUE(
      Says(SearchMaker(1, 128256, 9, false, false, Begins::kScalarBehindSum).Text(), "if (team_bits(was1)"));
  EXPECT_FALSE(Says(SearchMaker(1, 128256, 9, true).Text(), "break;"))
      << "what is stored is stored each time";
}

TEST(CudaManyStages, RowsLieInSharedMemoryWhereTheyFit) {
  SearchMaker one(1, 128256, 9), sixteen(16, 128256, 9), few(1, 128256, 2), large(1, 262144, 9),
      larger(16, 262144, 9);
  EXPECT_TRUE(Says(one.Text(), "get_words<8>(shared_memory"));
  EXPECT_EQ(one.shared, 8u * 256 * (16 + 32)) << "8 vectors of 8 elements, and as many kept floats, a thread";
  EXPECT_TRUE(Says(sixteen.Text(), "__launch_bounds__(256, 2)"));
  EXPECT_EQ(sixteen.shared, one.shared);
  EXPECT_FALSE(Says(few.Text(), "get_words"));
  EXPECT_EQ(few.shared, 0u);
  EXPECT_TRUE(Says(large.Text(), "get_words"));
  EXPECT_FALSE(Says(larger.Text(), "get_words")) << "two blocks of a multiprocessor do not fit";
}

}  // namespace
}  // namespace rondo::test
