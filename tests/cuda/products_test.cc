// Which template a product gets, and that every choice compiles: on machines without a GPU too.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "core/arena.h"

namespace rondo {
namespace {

struct Matrices {
  int64_t rows, columns, depth;
  DType type = DType::kBF16;
  bool right_by_depth = false;
  int rights = 1;
  bool tf32 = false;
};

// out = left * right, with one operand a parameter.
class Product {
 public:
  explicit Product(const Matrices& m) {
    auto operand = [&](Mode mode, std::vector<int64_t> strides) {
      Operand o;
      o.param = static_cast<uint16_t>(operands_.size());
      o.dtype = m.type;
      o.mode = mode;
      o.strides = arena_.Copy(strides);
      operands_.push_back(o);
      return o.param;
    };
    Part part;
    part.skeleton = Skeleton::kContraction;
    part.m = part.n = part.reduced = 1;
    part.tf32 = m.tf32;
    part.loops = arena_.Copy(std::vector<int64_t>{m.rows, m.columns, m.depth});
    part.lhs = operand(Mode::kRead, {m.depth, 0, 1});
    std::vector<uint16_t> rhs;
    for (int j = 0; j < m.rights; ++j) {
      rhs.push_back(operand(Mode::kRead, m.right_by_depth ? std::vector<int64_t>{0, m.depth, 1}
                                                          : std::vector<int64_t>{0, 1, m.columns}));
    }
    part.rhs = arena_.Copy(rhs);
    std::vector<TapeInst> tape(2);
    tape[0].op = TapeOp::kAcc;
    tape[1].op = TapeOp::kStore;
    tape[1].arg = operand(Mode::kWrite, {m.columns, 1, 0});
    part.epilogue = arena_.Copy(tape);
    part.operands = arena_.Copy(operands_);
    kernel_.num_params = static_cast<uint16_t>(operands_.size());
    kernel_.parts = arena_.Copy(std::vector<Part>{part});
  }

  KernelText Text(const CudaTarget& target, uint64_t alignment = 256) const {
    std::vector<cuda::ParamFacts> facts(kernel_.num_params, {alignment, false});
    Result<KernelText> text = WriteKernelText(kernel_, target, facts);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() ? text.Take() : KernelText{};
  }

  // Those that are generated.
  std::vector<MatmulCandidate> Candidates(const CudaTarget& target) const {
    std::vector<cuda::ParamFacts> facts(kernel_.num_params, {256, false});
    std::vector<MatmulCandidate> candidates = KernelCandidates(kernel_, target, facts);
    std::erase_if(candidates, [](const MatmulCandidate& candidate) {
      return candidate.configuration.family == MatmulFamily::kLibrary;
    });
    return candidates;
  }

 private:
  Arena arena_;
  std::vector<Operand> operands_;
  Kernel kernel_;
};

std::string TemplateOf(const KernelText& kernel) {
  for (const char* name : {"matmul_few_rows", "matmul_few_rows_f32", "matmul_mma", "matmul_wgmma",
                           "matmul_tma", "matmul_simt", "matmul_tf32"}) {
    if (kernel.text.find(std::string(name) + "<") != std::string::npos) return name;
  }
  return "plain";
}

std::string TemplateOf(const Matrices& m, uint64_t alignment = 256) {
  return TemplateOf(Product(m).Text(TargetOf("sm_90a"), alignment));
}

// The text of a kernel under a name of its own, for a module that has others.
std::string Renamed(const KernelText& kernel, int number) {
  std::string text = kernel.text;
  const std::string name = "rondo_t" + std::to_string(number);
  const std::string& old = kernel.entry;
  for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + name.size()))
    text.replace(at, old.size(), name);
  return text;
}

TEST(CudaProducts, TheTemplateFollowsShapeTypeAndAlignment) {
  EXPECT_EQ(TemplateOf({1, 4096, 4096}), "matmul_few_rows");
  EXPECT_EQ(TemplateOf({8, 4096, 4096}), "matmul_few_rows");
  EXPECT_EQ(TemplateOf({16, 4096, 4096, DType::kF16, true}), "matmul_few_rows");
  EXPECT_EQ(TemplateOf({16, 4096, 4096, DType::kF16}), "matmul_mma");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF16}), "matmul_tma");
  EXPECT_EQ(TemplateOf({512, 4096, 4096, DType::kBF16, true, 2}), "matmul_tma");
  // TMA wants lines at multiples of 16 bytes.
  EXPECT_EQ(TemplateOf({512, 4092, 4096}), "matmul_mma");
  EXPECT_EQ(TemplateOf({512, 4096, 4096}, 8), "matmul_mma");
  EXPECT_EQ(TemplateOf(Product({512, 4096, 4096}).Text(TargetOf("sm_80"))), "matmul_mma");
  EXPECT_EQ(TemplateOf({1, 4096, 4096, DType::kF32}), "matmul_few_rows_f32");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF32}), "matmul_simt");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF32, false, 1, true}), "matmul_tf32");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF16, false, 1, true}), "matmul_tma");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF64, false, 1, true}), "plain");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF64}), "plain");
  EXPECT_EQ(TemplateOf({1, 8, 8}), "plain");
  // No vectors: a tile takes its elements one by one, a stream does not.
  EXPECT_EQ(TemplateOf({1, 4096, 4096}, 2), "matmul_mma");
}

TEST(CudaProducts, FewTilesSplitTheDepthOverAClusterOnlyWhereThereAreClusters) {
  Product product({128, 768, 3072, DType::kF16});
  EXPECT_NE(product.Text(TargetOf("sm_90a")).text.find("__cluster_dims__"), std::string::npos);
  EXPECT_EQ(product.Text(TargetOf("sm_80")).text.find("__cluster_dims__"), std::string::npos);
}

TEST(CudaProducts, SharedMemoryOfEveryCandidateStaysWithinTheTarget) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120a"}) {
    CudaTarget target = TargetOf(architecture);
    for (int64_t rows : {1, 8, 16, 64, 512, 4096}) {
      for (int64_t columns : {64, 768, 4096, 28672}) {
        for (int rights : {1, 2}) {
          for (DType type : {DType::kF16, DType::kF32}) {
            const Product product({rows, columns, 4096, type, false, rights});
            target.matmul = {};
            for (const MatmulCandidate& candidate : product.Candidates(target)) {
              target.matmul = candidate.configuration;
              const KernelText text = product.Text(target);
              EXPECT_LE(text.shared, target.shared)
                  << architecture << " " << rows << " " << columns << " " << Text(candidate.configuration);
              EXPECT_GE(text.grid, 1u);
            }
          }
        }
      }
    }
  }
}

TEST(CudaProducts, ConfigurationsAreKnownByTheirNames) {
  for (const char* name : {"mma 128x128x64 2x4x1 cluster 2", "wgmma 128x256 cluster 1",
                           "simt 64x64 cluster 8", "tma 64x64 1x1x2 cluster 2", "few_rows warps 8 cluster 2",
                           "library 3", "library", "mma", "cluster 4", "", "tf32 64x32", "wgmma 128x64"}) {
    std::optional<MatmulConfiguration> configuration = ParseMatmulConfiguration(name);
    ASSERT_TRUE(configuration) << name;
    EXPECT_EQ(Text(*configuration), name);
  }
  const char* const kOld[][2] = {{"tile 64x64x64 2x2x2", "mma 64x64x64 2x2x2"},
                                 {"group 128x256", "wgmma 128x256"},
                                 {"bulk 128x64 2x1x1 cluster 2", "tma 128x64 2x1x1 cluster 2"},
                                 {"float 64x64", "simt 64x64"},
                                 {"skinny warps 8 cluster 2", "few_rows warps 8 cluster 2"}};
  for (const auto& [old, now] : kOld) {
    std::optional<MatmulConfiguration> configuration = ParseMatmulConfiguration(old);
    ASSERT_TRUE(configuration) << old;
    EXPECT_EQ(Text(*configuration), now);
  }
  for (const char* name : {"mmas",
                           "mma ",
                           " mma",
                           "mma  128x128",
                           "mma 128x128 cluster",
                           "mma 0x128",
                           "tile ",
                           "bulks",
                           "tile  64",
                           "mma 128x",
                           "mma x128",
                           "mma -1x4",
                           "mma 1x2x3x4",
                           "cluster 2 warps 8",
                           "library x",
                           "library 3 4",
                           "3x",
                           "mma 128x128 cluster 2 cluster 2",
                           "mma 99999999999999999999x2",
                           "library cluster 2",
                           "mma 128x128 1x1 1x1"}) {
    EXPECT_FALSE(ParseMatmulConfiguration(name)) << name;
  }
}

TEST(CudaProducts, NamesOfBeforeAreRead) {
  const std::pair<const char*, const char*> kNames[] = {
      {"tile 128x128x64 2x4x1 cluster 2", "mma 128x128x64 2x4x1 cluster 2"},
      {"group 128x256 cluster 1", "wgmma 128x256 cluster 1"},
      {"bulk 128x192 2x1x1 cluster 2", "tma 128x192 2x1x1 cluster 2"},
      {"float 64x64 cluster 8", "simt 64x64 cluster 8"},
      {"tile", "mma"}};
  for (const auto& [old, name] : kNames) {
    const std::optional<MatmulConfiguration> configuration = ParseMatmulConfiguration(old);
    ASSERT_TRUE(configuration) << old;
    EXPECT_EQ(Text(*configuration), name);
  }
}

TEST(CudaProducts, EveryCandidateHasANameOfItsOwn) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    for (const Matrices& m :
         {Matrices{1, 4096, 4096}, Matrices{512, 4096, 4096}, Matrices{4, 64, 512, DType::kF32}}) {
      const std::vector<MatmulCandidate> candidates = Product(m).Candidates(TargetOf(architecture));
      ASSERT_FALSE(candidates.empty());
      std::set<std::string> names;
      for (const MatmulCandidate& candidate : candidates) {
        const std::string name = Text(candidate.configuration);
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_EQ(ParseMatmulConfiguration(name), candidate.configuration) << name;
      }
    }
  }
}

TEST(CudaProducts, OfFewRowsNothingIsEstimatedToBeatTheStream) {
  for (const Matrices& m :
       {Matrices{1, 64, 1024}, Matrices{8, 4096, 4096}, Matrices{1, 128256, 4096},
        Matrices{16, 4096, 4096, DType::kF16, true}, Matrices{2, 4096, 4096, DType::kF32}}) {
    const std::vector<MatmulCandidate> candidates = Product(m).Candidates(TargetOf("sm_90a"));
    const MatmulCandidate& best = candidates[BestCandidate(candidates, {})];
    EXPECT_EQ(best.configuration.family, MatmulFamily::kFewRows) << m.rows << " " << m.columns;
    for (const MatmulCandidate& other : candidates)
      EXPECT_LE(best.microseconds, other.microseconds) << Text(other.configuration);
  }
}

TEST(CudaProducts, WhatAPatternLeavesOpenIsEstimated) {
  const Product product({512, 4096, 4096});
  CudaTarget target = TargetOf("sm_90a");
  const KernelText best = product.Text(target);
  target.matmul = *ParseMatmulConfiguration("mma 64x64x64");
  const KernelText tile = product.Text(target);
  EXPECT_EQ(Text(tile.configuration).rfind("mma 64x64x64 2x2x2 cluster ", 0), 0u) << Text(tile.configuration);
  const std::vector<MatmulCandidate> candidates = product.Candidates(target);
  const MatmulCandidate& chosen = candidates[BestCandidate(candidates, target.matmul)];
  EXPECT_EQ(chosen.configuration, tile.configuration);
  for (const MatmulCandidate& candidate : candidates) {
    EXPECT_TRUE(!Matches(target.matmul, candidate.configuration) ||
                chosen.microseconds <= candidate.microseconds)
        << Text(candidate.configuration);
  }
  // What is no candidate changes nothing.
  target.matmul = *ParseMatmulConfiguration("mma 63x64");
  EXPECT_EQ(product.Text(target).text, best.text);
}

TEST(CudaProducts, EveryCandidateCompiles) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaTarget target = TargetOf(architecture);
    std::string all;
    int kernels = 0;
    for (const Matrices& m : {Matrices{4, 4096, 512}, Matrices{8, 4096, 512, DType::kF16, true},
                              Matrices{4, 4096, 512, DType::kF32}, Matrices{2, 4096, 512, DType::kF32, true},
                              Matrices{200, 256, 512, DType::kF32, false, 1, true}}) {
      for (const auto& [configuration, microseconds] : Product(m).Candidates(target)) {
        if (configuration.family == MatmulFamily::kMma || configuration.cluster > 1) continue;  // as below
        target.matmul = configuration;
        KernelText kernel = Product(m).Text(target);
        EXPECT_EQ(kernel.configuration, configuration) << Text(configuration);
        all += Renamed(kernel, kernels++);
      }
    }
    Result<std::vector<uint8_t>> code = CompileCuda(all, architecture, "");
    if (!code.ok() && code.status().code() == Code::kUnsupported)
      GTEST_SKIP() << "libnvrtc is not on this machine";
    ASSERT_TRUE(code.ok()) << code.status().message();
  }
}

TEST(CudaProducts, EveryTileCompiles) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaTarget target = TargetOf(architecture);
    // An A100's: plans for sm_80 keep within what all of its family have.
    target.shared = std::max<uint32_t>(target.shared, 163 << 10);
    std::string all;
    int kernels = 0;
    std::vector<MatmulConfiguration> tiles = TilesOf(MatmulFamily::kMma, target);
    EXPECT_EQ(tiles.size(), 12u);
    for (const MatmulConfiguration& tile : TilesOf(MatmulFamily::kWgmma, target)) tiles.push_back(tile);
    for (const MatmulConfiguration& tile : tiles) {
      for (int cluster : {1, 2}) {
        target.matmul = tile;
        target.matmul.cluster = target.clusters() ? cluster : 1;
        KernelText kernel = Product({256, 256, 512, DType::kF16, kernels % 4 < 2}).Text(target);
        EXPECT_EQ(kernel.configuration, target.matmul) << Text(target.matmul);
        EXPECT_EQ(TemplateOf(kernel), tile.family == MatmulFamily::kMma ? "matmul_mma" : "matmul_wgmma");
        all += Renamed(kernel, kernels++);
      }
    }
    Result<std::vector<uint8_t>> code = CompileCuda(all, architecture, "");
    if (!code.ok() && code.status().code() == Code::kUnsupported)
      GTEST_SKIP() << "libnvrtc is not on this machine";
    ASSERT_TRUE(code.ok()) << code.status().message();
  }
}

}  // namespace
}  // namespace rondo
