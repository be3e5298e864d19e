// The kernel templates that attention, rows and maps get, by shape, layout, alignment and target. Needs no
// GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/codegen/cuda/device_headers.h"
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "tests/cuda/matmul_kernel.h"
#include "tests/cuda/window_maker.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

const CudaTarget kHopper = TargetOf("sm_90a"), kAmpere = TargetOf("sm_80");

KernelText Text(PartMaker& maker, const CudaTarget& target = kHopper, uint64_t alignment = 256) {
  const Kernel kernel = maker.Make();
  std::vector<cuda::ParamFacts> facts(kernel.num_params, {alignment, false});
  Result<KernelText> text = WriteKernelText(kernel, target, facts);
  EXPECT_TRUE(text.ok()) << text.status().message();
  if (!text.ok()) return {};
  EXPECT_EQ(std::count(text->text.begin(), text->text.end(), '{'),
            std::count(text->text.begin(), text->text.end(), '}'))
      << text->text;
  return text.Take();
}

bool Has(const KernelText& text, const std::string& words) {
  return text.text.find(words) != std::string::npos;
}

struct AttentionMaker {
  Arena arena;
  PartMaker maker{&arena};

  // `loops`: key heads, query heads that share a key head, queries, value features, keys, features.
  AttentionMaker(std::vector<int64_t> loops, DType type) {
    maker.loops = std::move(loops);
    Part& part = maker.part;
    part.skeleton = Skeleton::kAttention;
    part.outer = 2;
    part.m = part.n = part.reduced = part.features = 1;
    part.lhs = maker.Operand(type, Mode::kRead, {0, 1, 2, 5});
    part.keys = maker.Operand(type, Mode::kRead, {0, 4, 5});
    part.values = maker.Operand(type, Mode::kRead, {0, 4, 3});
    const uint16_t out = maker.Operand(type, Mode::kWrite, {0, 1, 2, 3});
    TapeMaker epilogue;
    epilogue.Store(out, type, epilogue.Add(TapeOp::kAcc, TapeType::kF32, 0));
    part.epilogue = maker.Keep(epilogue);
  }
};

TEST(CudaTemplates, AttentionOfHalvesRunsOnTensorCores) {
  AttentionMaker encoder({12, 1, 128, 64, 128, 64}, DType::kF16);
  const KernelText text = Text(encoder.maker);
  EXPECT_TRUE(Has(text, "AttentionWarp<false, 64, 64, 2>"));
  EXPECT_EQ(text.grid,
            12u * 8);  // 16 queries a block: enough blocks for the device, keys split over its warps
}

TEST(CudaTemplates, BlocksOfManyQueriesShareTheirKeysInSharedMemory) {
  AttentionMaker many({96, 1, 128, 64, 128, 64}, DType::kBF16),
      narrow({96, 1, 128, 80, 128, 80}, DType::kF16), wide({96, 1, 128, 256, 128, 256}, DType::kF16);
  EXPECT_TRUE(Has(Text(many.maker), "StagedWgmma<StagedAttention{64, 64, 8, 128, 4, 1, 1, 8, 8, 8}>"));
  EXPECT_TRUE(Has(Text(many.maker), "pipelined_attention<"));
  EXPECT_TRUE(Has(Text(many.maker, kAmpere), "StagedMma<StagedAttention{64, 64, 4, 128, "));
  EXPECT_TRUE(Has(Text(narrow.maker), "StagedWgmma<StagedAttention{80, 80, 8, 128, 3, "));
  EXPECT_TRUE(Has(Text(narrow.maker, kAmpere), "StagedMma<StagedAttention{80, 80, 4, 64, "));
  EXPECT_EQ(Text(many.maker).grid, 96u);  // 128 queries a block
  EXPECT_EQ(Text(many.maker).block, 384u);
  EXPECT_EQ(Text(many.maker, kAmpere).grid, 96u * 2);
  EXPECT_TRUE(Has(Text(wide.maker), "pipelined_attention<"));
  EXPECT_TRUE(Has(Text(wide.maker), "StagedWgmma<StagedAttention{256, 256, 8, 64, 2, "));
}

// So that their reads need not be waited for, and are of whole vectors.
TEST(CudaTemplates, MasksAreReadAheadOfTheScores) {
  for (const auto& [keys, ahead] :
       {std::pair{128, "MaskAhead<2, 8, "}, {130, "MaskAhead<2, 2, "}, {131, "MaskAhead<2, 1, "}}) {
    AttentionMaker masked({96, 1, 128, 64, keys, 64}, DType::kF16);
    masked.maker.part.mask = masked.maker.Operand(DType::kF16, Mode::kRead, {2, 4});
    EXPECT_TRUE(Has(Text(masked.maker), ahead)) << keys;
  }
  AttentionMaker along_queries({96, 1, 128, 64, 128, 64}, DType::kF16);
  along_queries.maker.part.mask = along_queries.maker.Operand(DType::kF16, Mode::kRead, {4, 2});
  EXPECT_TRUE(Has(Text(along_queries.maker), "NoMaskAhead"));  // a query's keys lie apart
}

TEST(CudaTemplates, FewQueriesLeaveKeysToTheirWarps) {
  AttentionMaker few({160, 4, 8, 128, 2048, 128}, DType::kBF16),
      enough({160, 4, 64, 128, 2048, 128}, DType::kBF16);  // 256 that share keys
  EXPECT_TRUE(Has(Text(few.maker), "AttentionWarp<"));
  EXPECT_TRUE(Has(Text(enough.maker), "pipelined_attention<"));
}

TEST(CudaTemplates, BlocksOfQueriesInFloatsShareTheirKeysInSharedMemory) {
  AttentionMaker few({12, 1, 128, 32, 128, 32}, DType::kF32), many({192, 1, 256, 64, 256, 64}, DType::kF32),
      odd({12, 1, 128, 30, 128, 30}, DType::kF32);
  EXPECT_TRUE(Has(Text(few.maker),
                  "fma_attention<FmaAttention{1, 32, 32, 2, 4, 4, 4}"));  // a block for each 16 queries
  EXPECT_EQ(Text(few.maker).grid, 12u * 8);
  EXPECT_TRUE(Has(Text(many.maker), "fma_attention<FmaAttention{4, 64, 64, 2, 4, 4, 4}"));
  EXPECT_TRUE(Has(Text(many.maker, kAmpere), "fma_attention<"));
  EXPECT_TRUE(Has(Text(odd.maker), "30, 30, 2, 2, 2, 2}"));  // copied by two
  EXPECT_TRUE(
      Has(Text(few.maker, kHopper, 4), "32, 32, 2, 1, 1, 1}"));  // the alignment allows no wider copies
}

TEST(CudaTemplates, AttentionOfAnyHeadUpTo256RunsOnTensorCores) {
  for (const CudaTarget& target : {kHopper, kAmpere}) {
    for (int64_t features = 1; features <= 256; features += features % 8 == 1 ? 3 : 1) {
      for (int64_t queries : {1, 77}) {
        AttentionMaker attention({8, 1, queries, features, 77, features}, DType::kBF16);
        const std::string text = Text(attention.maker, target).text;
        // Results of wider heads do not fit the shared memory that every GPU of sm_80's family has.
        if (target.architecture < 90 && features > 176 && features % 8 != 0) continue;
        const auto has = [&](const char* what) { return text.find(what) != std::string::npos; };
        EXPECT_TRUE(has("staged_attention<") || has("pipelined_attention<") || has("AttentionWarp<"))
            << features << ", " << queries << " queries";
      }
    }
  }
}

TEST(CudaTemplates, AttentionIsComputedByTheCandidateThatIsAskedFor) {
  AttentionMaker attention({12, 1, 128, 64, 128, 64}, DType::kF16);
  const Kernel kernel = attention.maker.Make();
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
  const std::vector<KernelCandidate> candidates = KernelCandidates(kernel, kHopper, facts);
  std::set<std::string> names;
  CudaTarget target = kHopper;
  for (const KernelCandidate& candidate : candidates) {
    names.insert(rondo::Text(candidate.configuration));
    target.configuration = candidate.configuration;
    const KernelText text = Text(attention.maker, target);
    EXPECT_EQ(text.configuration, candidate.configuration) << rondo::Text(candidate.configuration);
    const Result<std::vector<uint8_t>> code = CompileCuda(text.text, "sm_90a", "");
    EXPECT_TRUE(code.ok()) << rondo::Text(candidate.configuration) << ": " << code.status().message();
    if (candidate.configuration.variant == VariantId::kPlain) continue;
    EXPECT_LT(candidate.microseconds, kNotEstimated);
    EXPECT_GT(candidate.microseconds, 1);
  }
  for (const char* name : {"staged 64x128", "flash warps 8 cluster 1", "flash warps 2 cluster 4",
                           "flash warps 1 cluster 8", "plain"})
    EXPECT_TRUE(names.count(name) == 1) << name;
  EXPECT_EQ(names.size(), candidates.size());
  target.configuration = *ParseKernelConfiguration("flash warps 2 cluster 2");
  EXPECT_TRUE(Has(Text(attention.maker, target), "AttentionBlock<AttentionLayout{16, 64, 2}>"));
  EXPECT_EQ(Text(attention.maker, target).grid, 12u * 2 * 2);  // tiles of 4 warps, by two blocks each
  EXPECT_EQ(rondo::Text(Text(attention.maker).configuration), "flash warps 8 cluster 1");
}

// Clusters of 4 do not fill all multiprocessors. If a few more clusters than fit were launched, these would
// begin only when all others have ended.
TEST(CudaTemplates, ClustersOfAttentionFindRoomAtOnce) {
  AttentionMaker one({8, 1, 4, 128, 2048, 128}, DType::kBF16), four({32, 1, 4, 128, 2048, 128}, DType::kBF16);
  EXPECT_EQ(Text(one.maker).configuration.cluster, 8);
  EXPECT_EQ(Text(four.maker).configuration.cluster, 2);
}

TEST(CudaTemplates, StagesOfKeysFitAMultiprocessorAsOftenAsTheLaunchSays) {
  for (const CudaTarget& target : {kHopper, kAmpere}) {
    for (int64_t features : {16, 64, 80, 128, 192, 256}) {
      AttentionMaker attention({160, 1, 128, features, 512, features}, DType::kBF16);
      CudaTarget asked = target;
      asked.configuration = *ParseKernelConfiguration("staged");
      const KernelText text = Text(attention.maker, asked);
      // Results of wider heads do not fit the shared memory that every GPU of sm_80's family has.
      EXPECT_EQ(Has(text, "staged_attention<"), target.architecture >= 90 || features <= 128) << features;
      if (!Has(text, "staged_attention<")) continue;
      EXPECT_LE(text.shared + 1024, target.shared) << features;
      const uint32_t resident = Has(text, "__launch_bounds__(256, 2)") ? 2 : 1;
      EXPECT_LE(resident * (text.shared + 1024), target.shared_processor) << features;
      EXPECT_EQ(resident, features <= 128 ? 2u : 1u) << features;
    }
  }
}

TEST(CudaTemplates, DecodingSplitsTheKeysOverAClusterWhereThereAreFewHeads) {
  AttentionMaker few({8, 4, 1, 128, 2048, 128}, DType::kBF16);
  EXPECT_TRUE(Has(Text(few.maker), "__cluster_dims__(8"));
  EXPECT_TRUE(
      Has(Text(few.maker),
          "AttentionBlock<AttentionLayout{4, 128, 8}>"));  // query heads that share keys are in one block
  EXPECT_EQ(Text(few.maker).grid, 64u);
  AttentionMaker many({128, 4, 1, 128, 2048, 128}, DType::kBF16);
  EXPECT_FALSE(Has(Text(many.maker), "__cluster_dims__"));
  EXPECT_FALSE(Has(Text(few.maker, kAmpere), "__cluster_dims__"));
}

TEST(CudaTemplates, WarpsReadWholeVectorsOfAttentionAndBlocksAnything) {
  AttentionMaker floats({2, 1, 8, 64, 32, 64}, DType::kF32), eights({2, 1, 8, 24, 32, 24}, DType::kF16),
      fours({2, 1, 8, 28, 32, 28}, DType::kF16), fits({2, 1, 8, 64, 32, 64}, DType::kF16),
      wide({2, 1, 8, 264, 32, 264}, DType::kF16);
  EXPECT_FALSE(Has(Text(floats.maker), "AttentionWarp"));
  EXPECT_TRUE(Has(Text(eights.maker), "AttentionWarp"));
  EXPECT_TRUE(Has(Text(fits.maker), "AttentionWarp"));
  EXPECT_TRUE(Has(Text(fours.maker), "0, 4, 4, 4}"));
  EXPECT_TRUE(Has(Text(fits.maker, kHopper, 2), "0, 1, 1, 1}"));  // the memory's alignment is hardly known
  EXPECT_FALSE(Has(Text(wide.maker), "AttentionWarp"));
  EXPECT_FALSE(Has(Text(wide.maker), "staged_attention<"));
}

// Each row divided by its sum.
struct RowMaker {
  Arena arena;
  PartMaker maker{&arena};

  RowMaker(int64_t rows, int64_t row, DType type, TapeOp reduces = TapeOp::kReduceSum) {
    maker.loops = {rows, row};
    maker.part.skeleton = Skeleton::kReduction;
    maker.part.outer = maker.part.reduced = maker.part.scalars = 1;
    const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1}),
                   y = maker.Operand(type, Mode::kWrite, {0, 1});
    TapeMaker sum, divide;
    sum.Add(reduces, TapeType::kF32, 0, sum.Load(x, type));
    divide.Store(
        y, type,
        divide.Binary(TapeOp::kDiv, divide.Load(x, type), divide.Add(TapeOp::kScalar, TapeType::kF32, 0)));
    maker.part.stages = arena.Copy(std::vector<Stage>{{false, maker.Keep(sum)}, {false, maker.Keep(divide)}});
  }
};

TEST(CudaTemplates, RowsAreReadOnceAndKeptInRegisters) {
  RowMaker row(19, 768, DType::kF16);
  const KernelText text = Text(row.maker);
  const size_t first = text.text.find("load_words");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(text.text.find("load_words", first + 1), std::string::npos);
  EXPECT_EQ(text.grid, 3u);  // a warp a row
  RowMaker wide(19, 4096, DType::kF16), odd(19, 49, DType::kF16), endless(999, 1 << 20, DType::kF16);
  EXPECT_EQ(Text(wide.maker).grid, 19u);  // a block a row
  EXPECT_FALSE(Has(Text(odd.maker), "load_words"));
  RowMaker anywhere(19, 1001, DType::kF16);  // vectors begin at each row's first aligned element
  EXPECT_TRUE(Has(Text(anywhere.maker), "const u32 head = "));
  EXPECT_TRUE(Has(Text(anywhere.maker), "load_words<4>"));
  // Rows too long for that are still read as vectors, by each stage.
  const std::string again = Text(endless.maker).text;
  EXPECT_NE(again.find("load_words"), again.rfind("load_words"));
  EXPECT_EQ(again.find("cache0"), std::string::npos);
}

TEST(CudaTemplates, OneRowWhoseExtremesAreFoundIsSharedFromFewerElementsOn) {
  const auto shared = [](int64_t rows, int64_t elements, TapeOp reduces) {
    RowMaker row(rows, elements, DType::kF16, reduces);
    return Has(Text(row.maker), "__cluster_dims__(8");
  };
  EXPECT_TRUE(shared(1, 8192, TapeOp::kReduceMax));
  EXPECT_FALSE(shared(1, 4096, TapeOp::kReduceMax));
  EXPECT_FALSE(shared(2, 8192, TapeOp::kReduceMax));
  EXPECT_FALSE(shared(1, 8192, TapeOp::kReduceSum));
}

TEST(CudaTemplates, BlocksOfAClusterShareLongRowsWhereThereAreFewOrNoBlockKeepsOne) {
  const auto clusters = [](int64_t rows, int64_t elements, const CudaTarget& target) {
    RowMaker row(rows, elements, DType::kF16);
    const KernelText text = Text(row.maker, target);
    for (int blocks : {2, 4, 8}) {
      if (!Has(text, "__cluster_dims__(" + std::to_string(blocks))) continue;
      EXPECT_EQ(text.grid, static_cast<uint32_t>(rows * blocks));
      EXPECT_TRUE(Has(text, "team_send<Sum, float, " + std::to_string(blocks)));
      return blocks;
    }
    EXPECT_FALSE(Has(text, "team_"));
    return 1;
  };
  EXPECT_EQ(clusters(1, 128256, kHopper), 8);
  EXPECT_EQ(clusters(16, 128256, kHopper), 8);
  EXPECT_EQ(clusters(40, 50257, kHopper), 4) << "two blocks a multiprocessor";
  EXPECT_EQ(clusters(16, 1 << 22, kHopper), 8) << "too long for registers";
  EXPECT_EQ(clusters(400, 20000, kHopper), 1) << "rows enough";
  EXPECT_EQ(clusters(400, 128256, kHopper), 4) << "rows enough, but no block keeps one";
  EXPECT_EQ(clusters(1, 8192, kHopper), 1) << "too short";
  EXPECT_EQ(clusters(16, 128256, kAmpere), 1);
}

// Blocks that only fill a part's last cluster compute nothing of the next part.
TEST(CudaTemplates, PartsBehindBlocksOfAClusterBeginWithAWholeOne) {
  RowMaker shared(1, 128256, DType::kF16), rows(3, 768, DType::kF16);
  const Part parts[] = {rows.maker.Make().parts[0], shared.maker.Make().parts[0], rows.maker.Make().parts[0]};
  Kernel kernel = shared.maker.Make();
  kernel.parts = parts;
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
  const Result<KernelText> text = WriteKernelText(kernel, kHopper, facts);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_TRUE(Has(*text, "\nif (blockIdx.x < 8u) return;\nif (blockIdx.x < 16u) { "));
  EXPECT_TRUE(Has(*text, "_part1(blockIdx.x - 8u, "));
  EXPECT_TRUE(Has(*text, "\nif (blockIdx.x < 24u) return;\n"));
}

// y = x, 16 by 512, as other types.
struct MapMaker {
  MapMaker(DType from, DType to) {
    maker.loops = {16, 512};
    maker.part.skeleton = Skeleton::kMap;
    maker.part.outer = 2;
    const uint16_t x = maker.Operand(from, Mode::kRead, {0, 1}), y = maker.Operand(to, Mode::kWrite, {0, 1});
    TapeMaker body;
    body.Store(y, to, body.Load(x, from));
    maker.part.body = maker.Keep(body);
  }
  Arena arena;
  PartMaker maker{&arena};
};

TEST(CudaTemplates, MapsMoveSixteenBytesAThreadWhereAlignmentAllows) {
  MapMaker map(DType::kF16, DType::kF16);
  EXPECT_EQ(Text(map.maker).grid, 4u);               // 8 elements a thread
  EXPECT_EQ(Text(map.maker, kHopper, 8).grid, 8u);   // 4
  EXPECT_EQ(Text(map.maker, kHopper, 2).grid, 32u);  // 1
}

TEST(CudaTemplates, BytesMoveAsVectors) {
  MapMaker map(DType::kU8, DType::kI8);
  const KernelText text = Text(map.maker);
  EXPECT_TRUE(Has(text, "widen_u8<8>") && Has(text, "store_i8<8>")) << text.text;
  EXPECT_EQ(text.grid, 4u);
  EXPECT_FALSE(Has(Text(map.maker, kHopper, 2), "store_i8<"));  // two bytes are less than a word
  const Result<std::vector<uint8_t>> code = CompileCuda(text.text, "sm_90a", "");
  EXPECT_TRUE(code.ok()) << code.status().message();
}

struct WindowText {
  Arena arena;
  PartMaker maker{&arena};
  KernelText text;

  WindowText(const WindowCase& v, DType type, uint64_t alignment = 256) {
    MakeWindows(v, type, type, &maker);
    text = Text(maker, kHopper, alignment);
  }
};

TEST(CudaTemplates, TheGreatestOfBytesIsFoundAmongTheFloatsThatTheyAre) {
  WindowCase v{Combine::kMax, 1, 64, {56, 56}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true, true};
  EXPECT_TRUE(Has(WindowText(v, DType::kU8).text, "WindowLine<LaneU8, WINDOW_MAX, "));
  v.combine = Combine::kSum;
  EXPECT_FALSE(Has(WindowText(v, DType::kU8).text, "WindowLine<"));
  v.combine = Combine::kProduct;  // sums of so few elements can be floats
  EXPECT_TRUE(Has(WindowText(v, DType::kI8).text, ", 0, LaneI8>::add("));
  v.kernel = {17, 17};
  EXPECT_FALSE(Has(WindowText(v, DType::kI8).text, "WindowLine<"));
}

TEST(CudaTemplates, ConvolutionsOfOneChannelAGroupSlideAlongTheLastAxis) {
  WindowCase v{Combine::kProduct, 1, 96, {56, 56}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, true, true};
  const KernelText half = WindowText(v, DType::kF16).text;
  EXPECT_TRUE(Has(half, "WindowLine<LaneF16, WINDOW_PRODUCT, ")) << half.text;
  EXPECT_TRUE(Has(half, ", 1}>::add("));  // weights of neighbouring channels at once
  EXPECT_TRUE(Has(half, IncludeLine("windows")));
  EXPECT_FALSE(Has(half, "device/matmul") ||
               Has(half, "device/attention"));  // the text includes only the headers that it needs
  EXPECT_TRUE(
      Has(WindowText(v, DType::kF16, 2).text, "WINDOW_PRODUCT, Window{1, "));  // the alignment is unknown
  v.channels_last = v.weights_last = false;
  EXPECT_TRUE(Has(WindowText(v, DType::kBF16).text, "WindowLine<LaneBF16, WINDOW_PRODUCT, Window{1, "));
  EXPECT_TRUE(Has(WindowText(v, DType::kF32).text, "WindowLine<LaneF32, WINDOW_PRODUCT, Window{1, "));
  EXPECT_FALSE(Has(WindowText(v, DType::kF64).text, "WindowLine"));
  // A dilation that overflows a thread's ints.
  const WindowCase far{Combine::kProduct, 1, 16, {1 << 22}, {2}, {1}, {1 << 21}, {0}, {0}, true, true};
  EXPECT_FALSE(Has(WindowText(far, DType::kF16).text, "WindowLine"));
}

TEST(CudaTemplates, PoolsSlideAlongTheLastAxis) {
  WindowCase v{Combine::kMax, 1, 64, {112}, {3}, {2}, {1}, {1}, {1}, true};
  EXPECT_TRUE(Has(WindowText(v, DType::kF16).text, "WINDOW_MAX, "));
  v.combine = Combine::kMean;
  EXPECT_TRUE(Has(WindowText(v, DType::kF16).text, "(float)present[t]"));
}

TEST(CudaTemplates, RowsSideBySideAreReadAsVectors) {
  Arena arena;
  PartMaker wide(&arena), odd(&arena);
  MakeColumns(1, 64, 12544, DType::kF16, &wide);
  MakeColumns(1, 7, 196, DType::kF16, &odd);
  EXPECT_TRUE(Has(Text(wide), "join_columns_of_warp<Sum, 2, 8>("));
  EXPECT_TRUE(
      Has(Text(wide), "__cluster_dims__("));  // with few rows, blocks of a cluster share a row's elements
  EXPECT_FALSE(Has(Text(wide, kAmpere), "__cluster_dims__("));
  EXPECT_FALSE(Has(Text(odd), "join_columns"));
}

TEST(CudaTemplates, AWarpComputesAPointWhereProductsAreTiny) {
  const auto text = [](int64_t columns, int64_t depth) {
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {1, columns, depth};
    Part& part = maker.part;
    part.skeleton = Skeleton::kMatMul;
    part.m = part.n = part.reduced = 1;
    part.lhs = maker.Operand(DType::kF16, Mode::kRead, {0, 2});
    part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF16, Mode::kRead, {1, 2})});
    const uint16_t out = maker.Operand(DType::kF16, Mode::kWrite, {0, 1});
    TapeMaker epilogue;
    epilogue.Store(out, DType::kF16, epilogue.Add(TapeOp::kAcc, TapeType::kF32, 0));
    part.epilogue = maker.Keep(epilogue);
    return Text(maker).text;
  };
  EXPECT_NE(text(48, 1152).find("b0_words[round]"), std::string::npos);    // squeeze and excitation
  EXPECT_EQ(text(1024, 4096).find("b0_words[round]"), std::string::npos);  // large enough to stream
}

TEST(CudaTemplates, AIsMadeFromVectorsWhereItLiesAlongK) {
  const auto text = [](int64_t depth, uint64_t alignment) {
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {196, 112, depth};
    Part& part = maker.part;
    part.skeleton = Skeleton::kMatMul;
    part.m = part.n = part.reduced = 1;
    part.lhs = maker.Operand(DType::kF16, Mode::kRead, {0, 2});
    part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF16, Mode::kRead, {1, 2})});
    const uint16_t scale = maker.Operand(DType::kF32, Mode::kRead, {2}),
                   out = maker.Operand(DType::kF16, Mode::kWrite, {0, 1});
    TapeMaker prologue, epilogue;
    const uint16_t x = prologue.Binary(TapeOp::kMul, prologue.Load(part.lhs, DType::kF16),
                                       prologue.Load(scale, DType::kF32));
    prologue.Add(TapeOp::kYield, TapeType::kF32, 0, prologue.Cast(x, TapeType::kF32, DType::kF16));
    part.prologue = maker.Keep(prologue);
    epilogue.Store(out, DType::kF16, epilogue.Add(TapeOp::kAcc, TapeType::kF32, 0));
    part.epilogue = maker.Keep(epilogue);
    return Text(maker, kHopper, alignment).text;
  };
  const auto vectors = [](const std::string& t) {
    return t.find("float* x) {") != std::string::npos && t.find(", 1, -8, ") != std::string::npos;
  };
  EXPECT_TRUE(vectors(text(672, 256)));  // images times the result of squeeze and excitation
  EXPECT_FALSE(vectors(text(676, 256)));
  EXPECT_FALSE(vectors(text(672, 4)));
}

TEST(CudaTemplates, TmaSwizzlesLinesOf128BytesByWholeLines) {
  MatmulKernel product({1, 512, 4096, 4096}, DType::kF16, DType::kF16, {});
  CudaTarget asked = kHopper;
  asked.configuration = *ParseKernelConfiguration("tma");
  const KernelText text = Text(product.maker(), asked);
  EXPECT_FALSE(text.tensor_maps.empty());
  for (const TensorMap& map : text.tensor_maps) {
    EXPECT_EQ(map.box[0] * sizeof(uint16_t), 128u);
    EXPECT_EQ(map.swizzle, 128u);
  }
}

TEST(CudaTemplates, EveryKernelWaitsForEarlierOnesWhereTheTargetCan) {
  RowMaker row(4, 64, DType::kF32);
  EXPECT_TRUE(Text(row.maker).waits);
  EXPECT_FALSE(Text(row.maker, kAmpere).waits);
  EXPECT_TRUE(Has(Text(row.maker), "wait_for_earlier();"));
  AttentionMaker attention({2, 1, 8, 64, 32, 64}, DType::kF16);
  EXPECT_TRUE(Has(Text(attention.maker), "wait_for_earlier();"));
}

// Prefetches into L2 are only hints, and so is their size. A kernel issues them before the kernels ahead are
// complete if few of its blocks would wait.
TEST(CudaTemplates, LongRowsDoNotBeginWhileTheKernelAheadOfThemRuns) {
  RowMaker brief(64, 8192, DType::kF16), many(1 << 16, 8192, DType::kF16), endless(32, 1 << 22, DType::kF16);
  EXPECT_TRUE(Text(brief.maker).waits);
  EXPECT_TRUE(Text(many.maker).waits);
  EXPECT_FALSE(Text(endless.maker).waits);
}

TEST(CudaTemplates, FewQueriesHaveTheirKeysFetchedBeforeTheyWait) {
  AttentionMaker few({8, 4, 1, 128, 2048, 128}, DType::kBF16), many({512, 1, 8, 64, 64, 64}, DType::kBF16);
  const std::string text = Text(few.maker).text;
  EXPECT_LT(text.find("::fetch("), text.find("wait_for_earlier();"));
  EXPECT_TRUE(Has(Text(few.maker), "AttentionWarp<true, 128, 128, 1>"));  // it uses 4 of 16 rows
  EXPECT_FALSE(Has(Text(many.maker), "::fetch("));
  EXPECT_FALSE(Has(Text(few.maker, kAmpere), "::fetch("));
  few.maker.part.limit = few.maker.Operand(DType::kI64, Mode::kRead, {});
  EXPECT_TRUE(Has(Text(few.maker), "hinted_bound("));
  Indirect by_data;  // an index that may be out of range must not be prefetched
  by_data.operand = few.maker.Operand(DType::kI64, Mode::kRead, {});
  by_data.extent = 4;
  few.maker.operands[few.maker.part.limit].indirects = few.arena.Copy(std::vector<Indirect>{by_data});
  EXPECT_FALSE(Has(Text(few.maker), "hinted_bound("));
}

// A few blocks of attention let the next kernel begin. They do so before they wait only in a plan with packed
// weights.
TEST(CudaTemplates, SmallKernelsLetTheNextBeginBeforeTheyWaitWhereWeightsArePacked) {
  AttentionMaker attention({2, 1, 8, 64, 32, 64}, DType::kF16);
  const Kernel kernel = attention.maker.Make();
  Part packed = kernel.parts[0];
  packed.packed.type = PackedType::kU4;
  const Part parts[] = {packed};
  Kernel other = kernel;
  other.parts = parts;
  const auto begins_first = [&](Span<const Kernel> plan) {
    const std::string text = Text(attention.maker, TargetOf("sm_90a", plan)).text;
    return text.find("launch_dependents();") < text.find("wait_for_earlier();");
  };
  const Kernel plain[] = {kernel}, with_packed[] = {kernel, other};
  EXPECT_FALSE(begins_first(plain));
  EXPECT_TRUE(begins_first(with_packed));
  // In such a plan kernels of up to two blocks a multiprocessor do so too, and prefetch a part of their data
  // into L2.
  AttentionMaker batch({128, 4, 1, 128, 2048, 128}, DType::kBF16),
      large({512, 4, 1, 128, 64, 128}, DType::kBF16);
  const CudaTarget target = TargetOf("sm_90a", with_packed);
  EXPECT_TRUE(Has(Text(batch.maker, target), "hint < 256 ? hint : 256,"));
  EXPECT_FALSE(Has(Text(batch.maker, TargetOf("sm_90a", plain)), "::fetch("));
  EXPECT_FALSE(Has(Text(large.maker, target), "::fetch("));
}

// y[index[i], j] += x[i, j], or with an index for each element.
struct UpdateMaker {
  Arena arena;
  PartMaker maker{&arena};

  UpdateMaker(int64_t updates, int64_t row, int64_t places, bool each = false) {
    maker.loops = {updates, row};
    maker.part.skeleton = Skeleton::kMap;
    maker.part.sequential = true;
    maker.part.outer = 2;
    const uint16_t x = maker.Operand(DType::kF32, Mode::kRead, {0, 1}),
                   index = maker.Operand(DType::kI64, Mode::kRead,
                                         each ? std::vector<int>{0, 1} : std::vector<int>{0}),
                   y = maker.Operand(DType::kF32, Mode::kReadWrite, {0, 1});
    maker.operands[y].strides = arena.Copy(std::vector<int64_t>{0, 1});
    maker.sizes[y] = places * row;
    maker.operands[y].indirects = arena.Copy(std::vector<Indirect>{{index, true, true, row, places}});
    TapeMaker body;
    const uint16_t was = body.Load(y, DType::kF32), value = body.Load(x, DType::kF32);
    body.Store(y, DType::kF32, body.Add(TapeOp::kAdd, TapeType::kF32, 0, was, value));
    maker.part.body = maker.Keep(body);
  }
};

// OwnedPlaces: points, places, clusters that share them, blocks of a cluster, threads of a team.
TEST(CudaTemplates, ClustersShareTheSearchForManyUpdates) {
  UpdateMaker many(100000, 64, 10000), few(1000, 64, 50000), wide(20000, 768, 30000),
      narrow(1000000, 1, 100000), one(100000, 64, 1), elements(100000, 64, 10000, true);
  EXPECT_TRUE(Has(Text(many.maker), "OwnedPlaces{100000, 10000, 16, 8, 16,"));
  EXPECT_TRUE(Has(Text(many.maker, kAmpere), "OwnedPlaces{100000, 10000, 108, 1, 16,"));
  EXPECT_TRUE(Has(Text(few.maker), "OwnedPlaces{1000, 50000, 264, 1, 16,"));
  EXPECT_TRUE(Has(Text(wide.maker), "OwnedPlaces{20000, 30000, 27, 8, 32,"));
  EXPECT_TRUE(Has(Text(narrow.maker), "OwnedPlaces{1000000, 100000, 16, 8, 1,"));
  EXPECT_TRUE(Has(Text(one.maker), "OwnedPlaces{100000, 1, 1, 8, 16,"));
  EXPECT_TRUE(Has(Text(elements.maker), "OwnedPlaces{400000, 40000, 1, 8, 1,"));  // 16 times 4 columns
}

}  // namespace
}  // namespace rondo::test
