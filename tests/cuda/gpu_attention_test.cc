// Generated kernels of attention against the reference (gpu_suite.h).
#include <string>

#include "tests/cuda/gpu_suite.h"

namespace rondo::test {
namespace {

constexpr DType kHalves[] = {DType::kF16, DType::kBF16};

struct AttentionShape {
  int64_t batch = 1, heads = 1, shared = 1, queries = 1, keys = 1, features = 64, values = 64;
  enum Limit { kNone, kOne, kCausal, kRandom } limit = kNone;
  DType mask = DType::kI64;  // kI64: none
  float softcap = 0;
  bool apart = false;  // the features of keys and values are not contiguous
  // The mask's number in place of minus infinity, for the keys after a query and for all keys of every
  // seventh query.
  double low = 0;
  int64_t mask_pitch = 0;  // elements from one row of the mask to the next; 0: as many as keys
};

// Loops: batch and key heads, query heads that share a key head, queries, value features, keys, features.
void AddAttention(Suite* suite, const AttentionShape& shape, DType type, uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("attention " + std::to_string(seed) + ": " + Name(type) + " heads " +
                       std::to_string(shape.heads) + "x" + std::to_string(shape.shared) + " queries " +
                       std::to_string(shape.queries) + " keys " + std::to_string(shape.keys) + " features " +
                       std::to_string(shape.features) + "/" + std::to_string(shape.values));
  PartMaker& maker = c.maker;
  Part& part = maker.part;
  part.skeleton = Skeleton::kAttention;
  maker.loops = {
      shape.batch * shape.heads, shape.shared, shape.queries, shape.values, shape.keys, shape.features};
  part.outer = 2;
  part.m = part.n = part.reduced = part.features = 1;
  part.scale = 0.2f;
  part.softcap = shape.softcap;
  part.nan_to_zero = seed % 2 == 0;
  part.lhs = maker.Operand(type, Mode::kRead,
                           seed % 3 == 0 ? std::vector<int>{2, 0, 1, 5} : std::vector<int>{0, 1, 2, 5});
  const std::vector<int> keys = seed % 3 == 0 ? std::vector<int>{4, 0, 5} : std::vector<int>{0, 4, 5};
  part.keys = maker.Operand(type, Mode::kRead, shape.apart ? std::vector<int>{0, 5, 4} : keys);
  part.values =
      maker.Operand(type, Mode::kRead, shape.apart ? std::vector<int>{0, 3, 4} : std::vector<int>{0, 4, 3});
  if (shape.mask != DType::kI64) part.mask = maker.Operand(shape.mask, Mode::kRead, {0, 2, 4});
  if (shape.mask_pitch != 0) {
    const Span<int64_t> strides = c.arena.New<int64_t>(6);
    std::fill(strides.begin(), strides.end(), 0);
    strides[4] = 1;
    strides[2] = shape.mask_pitch;
    strides[0] = shape.mask_pitch * shape.queries;
    maker.operands[part.mask].strides = strides;
    maker.sizes[part.mask] = strides[0] * maker.loops[0];
  }
  if (shape.limit != AttentionShape::kNone) {
    part.limit =
        maker.Operand(DType::kI64, Mode::kRead,
                      shape.limit == AttentionShape::kOne ? std::vector<int>{} : std::vector<int>{2});
  }
  const uint16_t out = maker.Operand(
      type, Mode::kWrite, seed % 3 == 1 ? std::vector<int>{2, 0, 1, 3} : std::vector<int>{0, 1, 2, 3});
  TapeMaker epilogue;
  epilogue.Store(out, type, epilogue.Add(TapeOp::kAcc, TapeType::kF32, 0));
  part.epilogue = maker.Keep(epilogue);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; part.limit != kNoOperand && i < maker.sizes[part.limit]; ++i) {
    const int64_t limit = shape.limit == AttentionShape::kCausal ? i + 1 + (shape.keys - shape.queries) / 2
                          : shape.limit == AttentionShape::kOne  ? shape.keys * 5 / 8
                                                                 : Between(random, 0, shape.keys + 2);
    scalar::Store<int64_t>(DType::kI64, c.memory.params[part.limit].data(), i, limit);
  }
  for (int64_t i = 0; shape.low != 0 && i < maker.sizes[part.mask]; ++i) {
    const int64_t query = i / shape.keys % shape.queries;
    if (i % shape.keys > query || query % 7 == 3)
      scalar::Store<double>(shape.mask, c.memory.params[part.mask].data(), i, shape.low);
  }
  c.tolerance = type == DType::kF32   ? Tolerance{1e-4, 2e-5}
                : type == DType::kF16 ? Tolerance{4e-3, 2e-3}
                                      : Tolerance{2e-2, 1e-2};
}

TEST(GpuKernels, AttentionOfWideQueriesMatchesTheReference) {
  Suite suite;
  uint32_t seed = 700;
  for (DType type : kHalves) {
    AddAttention(&suite, {1, 1, 1, 150, 200, 512, 256}, type, seed++);
    AddAttention(&suite, {1, 2, 1, 70, 130, 320, 64, AttentionShape::kCausal}, type, seed++);
    AddAttention(&suite, {1, 1, 1, 64, 96, 500, 100}, type, seed++);
  }
  suite.Run();
}

TEST(GpuKernels, AttentionMatchesTheReference) {
  Suite suite;
  uint32_t seed = 0;
  const AttentionShape shapes[] = {
      {1, 2, 1, 128, 128, 64, 64},
      {1, 3, 1, 197, 197, 64, 64},
      {1, 1, 1, 17, 33, 32, 48},
      {2, 1, 4, 1, 1024, 128, 128, AttentionShape::kOne},
      {1, 2, 8, 1, 300, 128, 64, AttentionShape::kOne},
      {1, 2, 3, 5, 77, 80, 96, AttentionShape::kRandom},
      {1, 2, 4, 96, 160, 128, 128, AttentionShape::kCausal},
      {1, 1, 2, 70, 70, 64, 112, AttentionShape::kCausal, DType::kI64, 3.0f},
      {1, 2, 1, 40, 50, 16, 16, AttentionShape::kNone, DType::kBool},
      {1, 2, 2, 20, 130, 96, 32, AttentionShape::kRandom, DType::kF32},
      {1, 16, 1, 200, 90, 64, 64, AttentionShape::kNone, DType::kF16},
      {1, 2, 1, 3, 40, 256, 256},
      {1, 2, 1, 9, 20, 24, 24},
      {1, 1, 1, 1, 1, 64, 64},
  };
  for (const AttentionShape& shape : shapes) {
    for (DType type : kHalves) AddAttention(&suite, shape, type, seed++);
  }
  suite.Run();
}

// In f32 by FMA: more queries than a block takes, keys that end within a stage, features that do not divide
// among sixteen threads.
TEST(GpuKernels, AttentionOfFloatsMatchesTheReference) {
  const AttentionShape shapes[] = {
      {1, 3, 1, 128, 128, 32, 32},
      {1, 2, 1, 70, 197, 64, 64, AttentionShape::kRandom},
      {1, 2, 4, 33, 100, 80, 96, AttentionShape::kCausal},
      {2, 1, 4, 1, 300, 128, 128, AttentionShape::kOne},
      {1, 1, 2, 40, 70, 20, 40, AttentionShape::kCausal, DType::kI64, 3.0f},
      {1, 2, 2, 20, 130, 96, 36, AttentionShape::kRandom, DType::kF32},
      {1, 2, 1, 17, 64, 4, 8, AttentionShape::kNone, DType::kBool},
      {1, 1, 1, 1, 1, 16, 256},
  };
  uint32_t seed = 300;
  for (const char* name : {"fma 16", "fma 32", "fma 64"}) {
    Suite suite;
    suite.configuration = *ParseKernelConfiguration(name);
    for (const AttentionShape& shape : shapes) AddAttention(&suite, shape, DType::kF32, seed++);
    suite.Run();
    EXPECT_EQ(suite.Count("fma_attention<"), std::size(shapes)) << name;
  }
}

// Blocks whose queries share keys in shared memory, with several tiles of keys and of queries; the last of
// each is ragged.
TEST(GpuKernels, AttentionOfManyQueriesMatchesTheReference) {
  uint32_t seed = 100;
  const AttentionShape shapes[] = {
      {1, 2, 1, 130, 260, 64, 64},
      {1, 2, 1, 200, 197, 64, 64, AttentionShape::kRandom},
      {1, 2, 4, 100, 300, 32, 32, AttentionShape::kCausal},
      {1, 2, 1, 65, 197, 80, 80},
      {1, 2, 4, 150, 150, 128, 128, AttentionShape::kCausal},
      {1, 2, 2, 90, 150, 128, 128, AttentionShape::kCausal, DType::kBool},
      {1, 1, 3, 90, 210, 128, 64, AttentionShape::kNone, DType::kF32, 3.0f},
      {2, 2, 1, 70, 300, 256, 64, AttentionShape::kOne},
      {1, 1, 2, 80, 100, 256, 256, AttentionShape::kRandom},
      {1, 2, 1, 40, 90, 64, 192, AttentionShape::kNone, DType::kF16},
      {1, 1, 1, 64, 128, 16, 48},
      {1, 1, 33, 1, 1, 128, 128},
      {1, 1, 1, 200, 136, 104, 96, AttentionShape::kRandom},
      {1, 1, 2, 110, 104, 40, 40, AttentionShape::kNone, DType::kBool},
      {1, 1, 2, 60, 140, 64, 72, AttentionShape::kCausal, DType::kF32},
  };
  for (const char* name : {"staged", "pipelined 64x128", "pipelined 64x192", "pipelined 64x256",
                           "pipelined 64x320", "pipelined 128x64", "pipelined 128x96", "pipelined 128x128",
                           "pipelined 128x160", "pipelined 128x192"}) {
    SCOPED_TRACE(name);
    Suite suite;
    suite.configuration = *ParseKernelConfiguration(name);
    for (const AttentionShape& shape : shapes) {
      AddAttention(&suite, shape, kHalves[seed % 2], seed);
      ++seed;
    }
    suite.Run();
    if (suite.configuration.variant == VariantId::kStaged) {
      EXPECT_GE(suite.Count("staged_attention<"), suite.size());
    } else if (suite.each == 1) {
      const std::string rows = std::to_string(suite.configuration.m / 16),
                        keys = std::to_string(suite.configuration.n);
      EXPECT_GT(suite.Count(", " + rows + ", " + keys + ", "), 0u);  // of a StagedAttention
    }
  }
}

// Rows of masks that begin at vectors, although the number of keys is odd.
TEST(GpuKernels, AttentionReadsPaddedMasksAsVectors) {
  uint32_t seed = 500;
  for (const char* name : {"staged", "pipelined 64x128", "pipelined 128x96"}) {
    Suite suite;
    suite.each = 1;
    suite.configuration = *ParseKernelConfiguration(name);
    for (DType mask : {DType::kF16, DType::kBool, DType::kF32}) {
      AddAttention(&suite, {2, 2, 1, 90, 197, 64, 64, AttentionShape::kNone, mask, 0, false, 0, 200},
                   kHalves[seed % 2], seed);
      ++seed;
    }
    suite.Run();
    if (suite.configuration.variant != VariantId::kPipelined) continue;
    EXPECT_EQ(
        suite.Count("MaskAhead<2, 8, ") + suite.Count("MaskAhead<1, 8, ") + suite.Count("MaskAhead<4, 4, "),
        suite.size());
  }
}

// Heads of any size: multiples of 8 but not of 16, shorter vectors, odd sizes whose elements are copied one
// by one, features that are not contiguous.
TEST(GpuKernels, AttentionOfAnyHeadMatchesTheReference) {
  const AttentionShape shapes[] = {
      {1, 2, 1, 70, 77, 40, 40},
      {1, 1, 1, 130, 140, 8, 8, AttentionShape::kCausal},
      {1, 1, 2, 66, 150, 120, 24, AttentionShape::kRandom, DType::kF16},
      {1, 2, 1, 20, 70, 72, 56, AttentionShape::kNone, DType::kBool, 3.0f},
      {1, 1, 1, 65, 66, 248, 200},
      {1, 2, 1, 33, 70, 36, 44, AttentionShape::kRandom},
      {1, 2, 1, 33, 70, 18, 22, AttentionShape::kCausal},
      {1, 2, 3, 21, 77, 37, 37, AttentionShape::kOne, DType::kF32},
      {1, 1, 1, 17, 65, 1, 1},
      {1, 1, 1, 10, 70, 255, 3},
      {1, 2, 1, 30, 72, 40, 64, AttentionShape::kRandom, DType::kI64, 0, true},
      {1, 2, 1, 20, 69, 64, 27, AttentionShape::kNone, DType::kI64, 0, true},
  };
  uint32_t seed = 400;
  Suite floats;
  for (const char* name : {"staged 64x128", "staged 64x64", "staged 128x64", "pipelined"}) {
    Suite halves;
    halves.configuration = *ParseKernelConfiguration(name);
    for (const AttentionShape& shape : shapes) {
      AddAttention(&halves, shape, kHalves[seed % 2], seed);
      ++seed;
    }
    halves.Run();
    // Blocks of 128 queries are only for more than 64 queries; other shapes take another candidate.
    const bool mma = std::string_view(name) == "staged 64x64",
               wide = std::string_view(name) == "staged 128x64" || std::string_view(name) == "pipelined";
    const size_t count = halves.Count(mma ? "StagedMma<" : "StagedWgmma<");
    EXPECT_TRUE(wide ? count > 0 : count == std::size(shapes)) << name << ": " << count;
  }
  for (const AttentionShape& shape : shapes) AddAttention(&floats, shape, DType::kF32, seed++);
  floats.Run();
  EXPECT_EQ(floats.Count("fma_attention<"), std::size(shapes));
}

// Masks without infinities: all keys of a warp's share, or a whole row, may have the same low number.
TEST(GpuKernels, AttentionMatchesUnderMasksOfLowNumbers) {
  AttentionShape shapes[] = {
      {1, 2, 1, 96, 260, 128, 128, AttentionShape::kNone, DType::kBF16},
      {1, 1, 2, 70, 300, 64, 64, AttentionShape::kNone, DType::kF32},
      {1, 2, 1, 66, 200, 40, 40, AttentionShape::kNone, DType::kF16},
      {1, 2, 1, 5, 520, 64, 64, AttentionShape::kNone, DType::kF32},
  };
  shapes[0].low = -3.3895e38;
  shapes[1].low = -1e30;
  shapes[2].low = -65504;
  shapes[3].low = -1e25;
  uint32_t seed = 600;
  for (const char* name : {"staged 64x128", "staged 64x64", "staged 128x64", "pipelined",
                           "flash warps 8 cluster 1", "flash warps 4 cluster 2", "plain"}) {
    SCOPED_TRACE(name);
    Suite halves;
    halves.configuration = *ParseKernelConfiguration(name);
    for (const AttentionShape& shape : shapes) {
      AddAttention(&halves, shape, kHalves[seed % 2], seed);
      ++seed;
    }
    halves.Run();
    if (IsSkipped()) return;
  }
  Suite floats;
  for (const AttentionShape& shape : shapes) {
    if (shape.low < -1e6)
      AddAttention(&floats, shape, DType::kF32,
                   seed++);  // a number nearer to 0 would leave a part of the scores
  }
  floats.Run();
}

// Warps that each read keys and values themselves, with heads that 16 does not divide.
TEST(GpuKernels, AttentionOfFewQueriesHasHeadsOfAnyMultipleOfEight) {
  const AttentionShape shapes[] = {
      {1, 2, 4, 1, 300, 40, 40, AttentionShape::kOne},
      {1, 1, 8, 2, 150, 120, 24},
      {1, 2, 1, 1, 90, 8, 8, AttentionShape::kRandom},
      {2, 1, 3, 5, 77, 72, 56, AttentionShape::kCausal},
      {1, 1, 2, 9, 70, 88, 104, AttentionShape::kNone, DType::kF16},
  };
  for (const char* name : {"flash warps 8 cluster 1", "flash warps 4 cluster 2"}) {
    Suite suite;
    suite.configuration = *ParseKernelConfiguration(name);
    uint32_t seed = 500;
    for (const AttentionShape& shape : shapes) {
      for (DType type : kHalves) AddAttention(&suite, shape, type, seed++);
    }
    suite.Run();
    EXPECT_EQ(suite.Count("AttentionWarp<"), 2 * std::size(shapes)) << name;
  }
}

// All ways in which warps of a block and blocks of a cluster share queries and keys.
TEST(GpuKernels, AttentionByEveryCandidateMatchesTheReference) {
  const AttentionShape shapes[] = {
      {1, 2, 1, 130, 1100, 64, 64},
      {1, 2, 4, 50, 700, 128, 128, AttentionShape::kCausal},
      {1, 1, 2, 70, 600, 64, 112, AttentionShape::kRandom, DType::kI64, 3.0f},
      {2, 2, 4, 1, 1030, 80, 80, AttentionShape::kOne},
  };
  for (const char* name : {"flash warps 8 cluster 1", "flash warps 8 cluster 4", "flash warps 4 cluster 2",
                           "flash warps 2 cluster 1", "flash warps 1 cluster 8", "plain"}) {
    SCOPED_TRACE(name);
    Suite suite;
    suite.configuration = *ParseKernelConfiguration(name);
    uint32_t seed = 200;
    for (const AttentionShape& shape : shapes) {
      for (DType type : kHalves) AddAttention(&suite, shape, type, seed++);
    }
    suite.Run();
    if (IsSkipped()) return;
  }
}

}  // namespace
}  // namespace rondo::test
