// The kernel chosen for a matmul by packed weights, by M, N, K and bits, on an H200. Needs no GPU.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/kernel_text.h"
#include "tests/host/packed_part.h"

namespace rondo::test {
namespace {

std::string Chosen(int64_t rows, int64_t columns, int64_t k, PackedType type, int64_t rights = 1) {
  Arena arena;
  PartMaker maker(&arena);
  const int64_t block = type == PackedType::kU4 ? 128 : k;
  const PackedShape shape = BeginPacked(maker, {rows, 1, columns, k}, {type, DType::kBF16, block, 3});
  maker.part.lhs = maker.Operand(DType::kBF16, Mode::kRead, {0, 3});
  AddPacked(maker, shape, rights, DType::kBF16, false);
  const uint16_t out = maker.Operand(DType::kBF16, Mode::kWrite, {0, 1, 2});
  TapeMaker tape;
  tape.Store(out, DType::kBF16, tape.Add(TapeOp::kAcc, TapeType::kF32, 0));
  maker.part.epilogue = maker.Keep(tape);
  const Kernel kernel = maker.Make();
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
  const Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? Text(text->configuration) : "";
}

// The matmuls of a layer of Llama 3 8B, and a narrower one, with the fastest measured stream of each
// (tools/bench/results/packed-weights.md). To change a choice, measure again.
TEST(PackedCandidates, FewRowsOfADecoderTakeTheStreamThatWasQuickest) {
  const struct {
    const char* matmul;
    int64_t columns, k, rights;
    const char *one_row, *four_of_int4, *four_of_int8;
  } cases[] = {{"o", 4096, 4096, 1, "5x2 16 warps 8", "3x2 16 warps 4", "4x4 16 warps 8"},
               {"qkv", 6144, 4096, 1, "5x4 warps 8", "5x4 warps 8", "5x4 warps 8"},
               {"gate and up", 14336, 4096, 2, "5x2 16 warps 8", "5x4 warps 8", "4x4 warps 8"},
               {"down", 4096, 14336, 1, "5x4 16 warps 8", "5x4 warps 8", "5x2 16 warps 8"},
               {"down of 1B", 2048, 8192, 1, "4x4 warps 8", "5x4 warps 8", "4x4 warps 8"}};
  for (const auto& c : cases) {
    const auto chosen = [&](int64_t rows, PackedType type) {
      return Chosen(rows, c.columns, c.k, type, c.rights);
    };
    const auto stream = [](const char* name) { return "packed " + std::string(name) + " cluster 1"; };
    for (const PackedType type : {PackedType::kU4, PackedType::kU8})
      EXPECT_EQ(chosen(1, type), stream(c.one_row)) << c.matmul;
    EXPECT_EQ(chosen(4, PackedType::kU4), stream(c.four_of_int4)) << c.matmul;
    EXPECT_EQ(chosen(4, PackedType::kU8), stream(c.four_of_int8)) << c.matmul;
  }
}

// Tiles are faster from 9 rows on, and from 5 rows on if A over the whole K does not fit beside the stream.
TEST(PackedCandidates, MoreRowsTakeTiles) {
  const auto streams = [](int64_t rows, int64_t k) {
    return Chosen(rows, 4096, k, PackedType::kE4M3).rfind("packed ", 0) == 0;
  };
  EXPECT_TRUE(streams(8, 4096));
  EXPECT_FALSE(streams(9, 4096));
  EXPECT_TRUE(streams(4, 14336));
  EXPECT_FALSE(streams(5, 14336));
}

}  // namespace
}  // namespace rondo::test
