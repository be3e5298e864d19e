// The kernel template that a matmul gets. Every candidate compiles, also on machines without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/codegen/cuda/device/tile_layout.h"
#include "compiler/codegen/cuda/kernel_binaries.h"
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "core/arena.h"
#include "tests/how_many.h"

namespace rondo {
namespace {

struct Matrices {
  int64_t m, n, k;
  DType type = DType::kBF16;
  bool b_k_major = false;
  int b_count = 1;
  bool tf32 = false;
};

// out = A * B, with a parameter for each operand. With several matmuls, each is a part of one kernel.
class Matmul {
 public:
  explicit Matmul(const Matrices& m) : Matmul(std::vector<Matrices>{m}) {}
  explicit Matmul(const std::vector<Matrices>& matmuls) {
    std::vector<Part> parts;
    for (const Matrices& m : matmuls) parts.push_back(PartOf(m));
    kernel_.parts = arena_.Copy(parts);
  }

  KernelText Text(const CudaTarget& target, uint64_t alignment = 256) const {
    return TextOf(target, {alignment, false});
  }
  // What is known is the same of all parameters.
  KernelText TextOf(const CudaTarget& target, const cuda::ParamFacts& known) const {
    const std::vector<cuda::ParamFacts> facts(kernel_.num_params, known);
    Result<KernelText> text = WriteKernelText(kernel_, target, facts);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() ? text.Take() : KernelText{};
  }

  // The candidates that are generated code.
  std::vector<KernelCandidate> Candidates(const CudaTarget& target) const {
    std::vector<cuda::ParamFacts> facts(kernel_.num_params, {256, false});
    std::vector<KernelCandidate> candidates = KernelCandidates(kernel_, target, facts);
    std::erase_if(candidates, [](const KernelCandidate& candidate) {
      return candidate.configuration.variant == VariantId::kLibrary;
    });
    return candidates;
  }

 private:
  Part PartOf(const Matrices& m) {
    std::vector<Operand> operands;
    auto operand = [&](Mode mode, std::vector<int64_t> strides) {
      Operand o;
      o.param = kernel_.num_params++;
      o.dtype = m.type;
      o.mode = mode;
      o.strides = arena_.Copy(strides);
      operands.push_back(o);
      return static_cast<uint16_t>(operands.size() - 1);
    };
    Part part;
    part.skeleton = Skeleton::kMatMul;
    part.m = part.n = part.reduced = 1;
    part.tf32 = m.tf32;
    part.acc_type = NaturalType(m.type);
    part.loops = arena_.Copy(std::vector<int64_t>{m.m, m.n, m.k});
    part.lhs = operand(Mode::kRead, {m.k, 0, 1});
    std::vector<uint16_t> rhs;
    for (int j = 0; j < m.b_count; ++j) {
      rhs.push_back(operand(Mode::kRead,
                            m.b_k_major ? std::vector<int64_t>{0, m.k, 1} : std::vector<int64_t>{0, 1, m.n}));
    }
    part.rhs = arena_.Copy(rhs);
    std::vector<TapeInst> tape(2);
    tape[0].op = TapeOp::kAcc;
    tape[1].op = TapeOp::kStore;
    tape[0].type = tape[1].type = part.acc_type;
    tape[1].arg = operand(Mode::kWrite, {m.n, 1, 0});
    if (part.acc_type == TapeType::kI64) operands.back().dtype = DType::kI32;
    part.epilogue = arena_.Copy(tape);
    part.operands = arena_.Copy(operands);
    return part;
  }

  Arena arena_;
  Kernel kernel_;
};

std::string TemplateOf(const KernelText& kernel) {
  for (const char* name : {"matmul_few_rows", "matmul_few_rows_bytes", "matmul_few_rows_f32", "matmul_mma",
                           "matmul_wgmma", "matmul_tma", "matmul_simt", "matmul_tf32", "matmul_imma"}) {
    if (kernel.text.find(std::string(name) + "<") != std::string::npos) return name;
  }
  return "plain";
}

std::string TemplateOf(const Matrices& m, uint64_t alignment = 256) {
  return TemplateOf(Matmul(m).Text(TargetOf("sm_90a"), alignment));
}

// Lines that are read once in a run would push out of L2 what the next kernels read.
TEST(CudaMatmuls, WeightsThatL2DoesNotHoldAreTheFirstToLeaveIt) {
  const Matmul matmul({1, 4096, 4096});
  const auto leaves_first = [&](const cuda::ParamFacts& known) {
    return matmul.TextOf(TargetOf("sm_90a"), known).text.find(", 0, 0, 0, 1}>(") != std::string::npos;
  };
  EXPECT_TRUE(leaves_first({256, true, 60 << 20}));
  EXPECT_FALSE(leaves_first({256, true, 40 << 20}));
  EXPECT_FALSE(leaves_first({256, false, 60 << 20}));
}

// A program's constants count once, those of another program or device do not; the larger program decides.
TEST(CudaMatmuls, AllConstantsAreThoseOfTheLargestProgramThatBindsTheParameter) {
  Buffer weight;
  weight.kind = BufferKind::kConstant;
  weight.bytes = 1000;
  std::vector<Buffer> buffers(4, weight);
  buffers[2].kind = BufferKind::kTemporary;
  buffers[3].device = 1;
  const Binding first[] = {{0, 0}, {2, 0}}, second[] = {{1, 0}, {2, 0}}, elsewhere[] = {{3, 0}, {3, 0}};
  const auto launch = [](uint32_t kernel, Span<const Binding> bindings) {
    Step step;
    step.kernel = kernel;
    step.bindings = bindings;
    return step;
  };
  Step call;  // leaves out an input
  call.kind = StepKind::kCustom;
  const Binding left_out;
  call.bindings = Span<const Binding>(&left_out, 1);
  const Step small_steps[] = {launch(0, first), call, launch(0, first)},
             large_steps[] = {launch(0, first), launch(1, second), launch(1, elsewhere)};
  std::vector<Program> programs(2);
  programs[0].steps = small_steps;
  programs[1].steps = large_steps;
  std::vector<Kernel> kernels(2);
  kernels[0].num_params = kernels[1].num_params = 2;
  PlanData plan;
  plan.kernels = kernels;
  plan.buffers = buffers;
  plan.programs = Span<const Program>(programs.data(), 1);
  EXPECT_EQ(FactsOf(plan)[0][0].all_constants, 1000u);
  plan.programs = programs;
  EXPECT_EQ(FactsOf(plan)[0][0].all_constants, 2000u);
}

// The text of a kernel with a unique name, for a module with several kernels.
std::string Renamed(const KernelText& kernel, int number) {
  std::string text = kernel.text;
  const std::string name = "rondo_t" + std::to_string(number);
  const std::string& old = kernel.entry;
  for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + name.size()))
    text.replace(at, old.size(), name);
  return text;
}

TEST(CudaMatmuls, TheTemplateFollowsShapeTypeAndAlignment) {
  EXPECT_EQ(TemplateOf({1, 4096, 4096}), "matmul_few_rows");
  EXPECT_EQ(TemplateOf({8, 4096, 4096}), "matmul_few_rows");
  EXPECT_EQ(TemplateOf({16, 4096, 4096, DType::kF16, true}), "matmul_few_rows");
  EXPECT_EQ(TemplateOf({16, 4096, 4096, DType::kF16}), "matmul_mma");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF16}), "matmul_tma");
  EXPECT_EQ(TemplateOf({512, 4096, 4096, DType::kBF16, true, 2}), "matmul_tma");
  // TMA needs lines at multiples of 16 bytes.
  EXPECT_EQ(TemplateOf({512, 4092, 4096}), "matmul_mma");
  EXPECT_EQ(TemplateOf({512, 4096, 4096}, 8), "matmul_mma");
  EXPECT_EQ(TemplateOf(Matmul({512, 4096, 4096}).Text(TargetOf("sm_80"))), "matmul_mma");
  EXPECT_EQ(TemplateOf({1, 4096, 4096, DType::kF32}), "matmul_few_rows_f32");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF32}), "matmul_simt");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF32, false, 1, true}), "matmul_tf32");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF16, false, 1, true}), "matmul_tma");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF64, false, 1, true}), "plain");
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kF64}), "plain");
  EXPECT_EQ(TemplateOf({1, 8, 8}), "plain");
  for (DType type : {DType::kI8, DType::kU8}) {
    EXPECT_EQ(TemplateOf({128, 768, 768, type, true}), "matmul_imma");
    EXPECT_EQ(TemplateOf({1, 4096, 4096, type, true, 3}), "matmul_few_rows_bytes");
    EXPECT_EQ(TemplateOf({8, 4096, 14336, type, true}), "matmul_few_rows_bytes");
    EXPECT_EQ(TemplateOf({9, 4096, 4096, type, true}), "matmul_imma");
    // Lines along N, and vectors of less than 16 bytes.
    EXPECT_EQ(TemplateOf({1, 4096, 4096, type}), "matmul_imma");
    EXPECT_EQ(TemplateOf({1, 4096, 4096, type, true}, 8), "matmul_imma");
    EXPECT_EQ(TemplateOf({128, 768, 768, type}), "matmul_imma");
    // Sums need more than 32 bits.
    EXPECT_EQ(TemplateOf({128, 64, 70000, type, true}), "plain");
  }
  EXPECT_EQ(TemplateOf({128, 768, 768, DType::kI16}), "plain");
  // Without vectors, a tile can take elements one by one; a stream cannot.
  EXPECT_EQ(TemplateOf({1, 4096, 4096}, 2), "matmul_mma");
}

TEST(CudaMatmuls, FewTilesSplitKOverAClusterOnlyWhereThereAreClusters) {
  Matmul matmul({128, 768, 3072, DType::kF16});
  EXPECT_NE(matmul.Text(TargetOf("sm_90a")).text.find("__cluster_dims__"), std::string::npos);
  EXPECT_EQ(matmul.Text(TargetOf("sm_80")).text.find("__cluster_dims__"), std::string::npos);
}

TEST(CudaMatmuls, SharedMemoryOfEveryCandidateStaysWithinTheTarget) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120a"}) {
    CudaTarget target = TargetOf(architecture);
    for (int64_t rows : {1, 8, 16, 64, 512, 4096}) {
      for (int64_t columns : {64, 768, 4096, 28672}) {
        for (int rights : {1, 2}) {
          for (DType type : {DType::kF16, DType::kF32}) {
            const Matmul matmul({rows, columns, 4096, type, false, rights});
            target.configuration = {};
            for (const KernelCandidate& candidate : matmul.Candidates(target)) {
              target.configuration = candidate.configuration;
              const KernelText text = matmul.Text(target);
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

TEST(CudaMatmuls, ConfigurationsAreKnownByTheirNames) {
  for (const char* name : {"mma 128x128x64 2x4x1 cluster 2", "wgmma 128x256 cluster 1",
                           "simt 64x64 cluster 8", "tma 64x64 1x1x2 cluster 2", "few_rows warps 8 cluster 2",
                           "library 3", "library", "mma", "cluster 4", "", "tf32 64x32", "wgmma 128x64"}) {
    std::optional<KernelConfiguration> configuration = ParseKernelConfiguration(name);
    ASSERT_TRUE(configuration) << name;
    EXPECT_EQ(Text(*configuration), name);
  }
  const char* const kOld[][2] = {{"tile 64x64x64 2x2x2", "mma 64x64x64 2x2x2"},
                                 {"group 128x256", "wgmma 128x256"},
                                 {"bulk 128x64 2x1x1 cluster 2", "tma 128x64 2x1x1 cluster 2"},
                                 {"float 64x64", "simt 64x64"},
                                 {"skinny warps 8 cluster 2", "few_rows warps 8 cluster 2"}};
  for (const auto& [old, now] : kOld) {
    std::optional<KernelConfiguration> configuration = ParseKernelConfiguration(old);
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
    EXPECT_FALSE(ParseKernelConfiguration(name)) << name;
  }
}

TEST(CudaMatmuls, NamesOfBeforeAreRead) {
  const std::pair<const char*, const char*> kNames[] = {
      {"tile 128x128x64 2x4x1 cluster 2", "mma 128x128x64 2x4x1 cluster 2"},
      {"group 128x256 cluster 1", "wgmma 128x256 cluster 1"},
      {"bulk 128x192 2x1x1 cluster 2", "tma 128x192 2x1x1 cluster 2"},
      {"float 64x64 cluster 8", "simt 64x64 cluster 8"},
      {"tile", "mma"}};
  for (const auto& [old, name] : kNames) {
    const std::optional<KernelConfiguration> configuration = ParseKernelConfiguration(old);
    ASSERT_TRUE(configuration) << old;
    EXPECT_EQ(Text(*configuration), name);
  }
}

TEST(CudaMatmuls, EveryCandidateHasANameOfItsOwn) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    for (const Matrices& m :
         {Matrices{1, 4096, 4096}, Matrices{512, 4096, 4096}, Matrices{4, 64, 512, DType::kF32}}) {
      const std::vector<KernelCandidate> candidates = Matmul(m).Candidates(TargetOf(architecture));
      ASSERT_FALSE(candidates.empty());
      std::set<std::string> names;
      for (const KernelCandidate& candidate : candidates) {
        const std::string name = Text(candidate.configuration);
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_EQ(ParseKernelConfiguration(name), candidate.configuration) << name;
      }
    }
  }
}

TEST(CudaMatmuls, OfFewRowsNothingIsEstimatedToBeatTheStream) {
  for (const Matrices& m :
       {Matrices{1, 64, 1024}, Matrices{8, 4096, 4096}, Matrices{1, 128256, 4096},
        Matrices{16, 4096, 4096, DType::kF16, true}, Matrices{2, 4096, 4096, DType::kF32}}) {
    const std::vector<KernelCandidate> candidates = Matmul(m).Candidates(TargetOf("sm_90a"));
    const KernelCandidate& best = candidates[BestCandidate(candidates, {})];
    EXPECT_EQ(best.configuration.variant, VariantId::kFewRows) << m.m << " " << m.n;
    for (const KernelCandidate& other : candidates)
      EXPECT_LE(best.microseconds, other.microseconds) << Text(other.configuration);
  }
}

TEST(CudaMatmuls, WhatAPatternLeavesOpenIsEstimated) {
  const Matmul matmul({512, 4096, 4096});
  CudaTarget target = TargetOf("sm_90a");
  const KernelText best = matmul.Text(target);
  target.configuration = *ParseKernelConfiguration("mma 64x64x64");
  const KernelText tile = matmul.Text(target);
  EXPECT_EQ(Text(tile.configuration).rfind("mma 64x64x64 2x2x2 cluster ", 0), 0u) << Text(tile.configuration);
  const std::vector<KernelCandidate> candidates = matmul.Candidates(target);
  const KernelCandidate& chosen = candidates[BestCandidate(candidates, target.configuration)];
  EXPECT_EQ(chosen.configuration, tile.configuration);
  for (const KernelCandidate& candidate : candidates) {
    EXPECT_TRUE(!Matches(target.configuration, candidate.configuration) ||
                chosen.microseconds <= candidate.microseconds)
        << Text(candidate.configuration);
  }
  // A configuration that is no candidate changes nothing.
  target.configuration = *ParseKernelConfiguration("mma 63x64");
  EXPECT_EQ(matmul.Text(target).text, best.text);
}

TEST(CudaMatmuls, EveryCandidateCompiles) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaTarget target = TargetOf(architecture);
    std::string all;
    int kernels = 0, number = 0;
    for (const Matrices& m :
         {Matrices{4, 4096, 512}, Matrices{8, 4096, 512, DType::kF16, true},
          Matrices{4, 4096, 512, DType::kF32}, Matrices{2, 4096, 512, DType::kF32, true},
          Matrices{200, 256, 512, DType::kF32, false, 1, true}, Matrices{200, 256, 512, DType::kU8, true},
          Matrices{200, 256, 512, DType::kI8}}) {
      for (const KernelCandidate& candidate : Matmul(m).Candidates(target)) {
        const KernelConfiguration& configuration = candidate.configuration;
        if (configuration.variant == VariantId::kMma || configuration.cluster > 1)
          continue;  // the test below compiles these
        if (!IsTaken(number++, HowMany("RONDO_COMPILED_EACH", 3))) continue;
        target.configuration = configuration;
        KernelText kernel = Matmul(m).Text(target);
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

// The blocks of a kernel have as many threads as its widest part needs, which leaves the other parts fewer
// registers.
TEST(CudaMatmuls, PartsOfOneKernelHaveRegistersForTheirAccumulators) {
  CudaTarget target = TargetOf("sm_90a");
  std::string all;
  int kernels = 0;
  std::set<uint32_t> widths;
  for (int64_t m : {512, 2048, 4096}) {
    // In some kernels warpgroups take tiles in turn.
    target.configuration =
        m == 2048 ? *ParseKernelConfiguration("ping_pong 128x128 1x1x1 cluster 1") : KernelConfiguration();
    for (int64_t n : {192, 256, 512}) {
      const int64_t k = n == 256 ? 1024 : 8192;
      const KernelText kernel = Matmul({{m, 2048, k}, {m, n, k}, {m, n, k}}).Text(target);
      widths.insert(kernel.block);
      all += Renamed(kernel, kernels++);
    }
  }
  EXPECT_GT(*widths.rbegin(), 512u);
  Result<std::vector<uint8_t>> code = CompileCuda(all, "sm_90a", "");
  if (!code.ok() && code.status().code() == Code::kUnsupported)
    GTEST_SKIP() << "libnvrtc is not on this machine";
  ASSERT_TRUE(code.ok()) << code.status().message();
}

TEST(CudaMatmuls, EveryTileCompiles) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaTarget target = TargetOf(architecture);
    // Use an A100's shared memory; plans for sm_80 otherwise keep to what all GPUs of the family have.
    target.shared = std::max<uint32_t>(target.shared, 163 << 10);
    std::string all;
    int kernels = 0, number = 0;
    std::vector<KernelConfiguration> tiles = TilesOf(VariantId::kMma, target);
    EXPECT_EQ(tiles.size(), 12u);
    for (const KernelConfiguration& tile : TilesOf(VariantId::kWgmma, target)) tiles.push_back(tile);
    for (const KernelConfiguration& tile : tiles) {
      for (int cluster : {1, 2}) {
        if (!IsTaken(number++, HowMany("RONDO_COMPILED_EACH", 3))) continue;
        target.configuration = tile;
        target.configuration.cluster = target.clusters() ? cluster : 1;
        KernelText kernel = Matmul({256, 256, 512, DType::kF16, kernels % 4 < 2}).Text(target);
        EXPECT_EQ(kernel.configuration, target.configuration) << Text(target.configuration);
        EXPECT_EQ(TemplateOf(kernel), tile.variant == VariantId::kMma ? "matmul_mma" : "matmul_wgmma");
        all += Renamed(kernel, kernels++);
      }
    }
    Result<std::vector<uint8_t>> code = CompileCuda(all, architecture, "");
    if (!code.ok() && code.status().code() == Code::kUnsupported)
      GTEST_SKIP() << "libnvrtc is not on this machine";
    ASSERT_TRUE(code.ok()) << code.status().message();
  }
}

// Warps of a block that split K have separate accumulators, which the readers of the result sum.
TEST(MatmulTiles, WarpsThatSplitKHaveAccumulatorsOfTheirOwnWhereThereIsRoom) {
  cuda::TileMatmul tile{};
  tile.m = tile.n = 32;
  tile.k = 128;
  tile.warps_m = 1;
  tile.warps_n = 2;
  tile.warps_k = 4;
  tile.b_count = tile.cluster = 1;
  EXPECT_EQ(tile.copies(), 4);
  EXPECT_EQ(tile.byte_layout().copies, 4);
  EXPECT_EQ(tile.mma_layout().copies, 4);
  EXPECT_EQ(tile.wgmma_layout().copies, 1);
  EXPECT_GE(tile.byte_layout().shared(1), 4 * cuda::AccumulatorsBytes(32, 32, 1));
  tile.cluster = 2;  // blocks of a cluster read each other's accumulators
  EXPECT_EQ(tile.copies(), 1);
  tile.cluster = 1;
  tile.b_count = 3;
  EXPECT_EQ(tile.copies(), 1);
  EXPECT_LT(tile.byte_layout().shared(1), 4 * cuda::AccumulatorsBytes(32, 32, 3));
}

}  // namespace
}  // namespace rondo
