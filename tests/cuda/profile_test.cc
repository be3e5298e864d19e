// Alternatives and profiles: names, digests, files, and their effect on a plan.
#include "tools/rondo/profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "compiler/compile.h"
#include "core/arena.h"
#include "tests/cuda/have_nvrtc.h"
#include "tests/folders.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// out = left * right, in f16.
struct Matmul {
  Matmul() {
    operands.resize(3);
    const int64_t strides[3][3] = {{8, 0, 1}, {0, 1, 16}, {16, 1, 0}};
    for (uint16_t p = 0; p < 3; ++p) {
      operands[p].param = p;
      operands[p].dtype = DType::kF16;
      operands[p].strides = arena.Copy(std::vector<int64_t>(strides[p], strides[p] + 3));
    }
    operands[2].mode = Mode::kWrite;
    part.skeleton = Skeleton::kMatMul;
    part.m = part.n = part.reduced = 1;
    part.loops = arena.Copy(std::vector<int64_t>{4, 16, 8});
    part.lhs = 0;
    part.rhs = arena.Copy(std::vector<uint16_t>{1});
    tape.resize(2);
    tape[0].op = TapeOp::kAcc;
    tape[1].op = TapeOp::kStore;
    tape[1].arg = 2;
    kernel.name = "k0_matmul";
    kernel.num_params = 3;
  }
  Kernel Make() {
    part.operands = arena.Copy(operands);
    part.epilogue = arena.Copy(tape);
    kernel.parts = arena.Copy(std::vector<Part>{part});
    return kernel;
  }
  Arena arena;
  std::vector<Operand> operands;
  std::vector<TapeInst> tape;
  Part part;
  Kernel kernel;
};

TEST(KernelDigest, StaysFromBuildToBuild) { EXPECT_EQ(KernelDigest(Matmul().Make()), 0x36bf447ce7902f17ull); }

TEST(KernelDigest, NamesAndScratchMakeNoDifference) {
  Matmul same;
  same.kernel.name = "k7_other";
  same.kernel.label = "swiglu";
  EXPECT_EQ(KernelDigest(same.Make()), KernelDigest(Matmul().Make()));
  same.kernel.num_params = 4;
  same.kernel.workspace_param = 3;
  same.kernel.workspace_bytes = 4096;
  EXPECT_EQ(KernelDigest(same.Make()), KernelDigest(Matmul().Make()));
}

TEST(KernelDigest, EverythingElseDoes) {
  void (*const kChanges[])(Matmul&) = {
      [](Matmul& p) {
        p.part.loops = p.arena.Copy(std::vector<int64_t>{4, 16, 4});
      },
      [](Matmul& p) { p.part.tf32 = true; },
      [](Matmul& p) { p.operands[1].dtype = DType::kBF16; },
      [](Matmul& p) { p.operands[1].offset = 8; },
      [](Matmul& p) {
        p.operands[0].strides = p.arena.Copy(std::vector<int64_t>{9, 0, 1});
      },
      [](Matmul& p) { p.tape.insert(p.tape.begin() + 1, TapeInst()), p.tape[1].op = TapeOp::kNeg; },
      [](Matmul& p) { p.kernel.num_params = 4; },
  };
  std::set<uint64_t> digests = {KernelDigest(Matmul().Make())};
  for (auto change : kChanges) {
    Matmul matmul;
    change(matmul);
    EXPECT_TRUE(digests.insert(KernelDigest(matmul.Make())).second) << digests.size();
  }
}

tools::TuningProfile SomeProfile() {
  tools::TuningProfile profile;
  profile.gpu = "NVIDIA H200";
  profile.architecture = "sm_90a";
  profile.driver = 13000;
  profile.kernels[0xfedcba9876543210] = {
      "k3_matmul", "MatMul \"q\"", "mma 64x64x64 2x2x2 cluster 2", {{"few_rows warps 8 cluster 1", 7.5}}};
  profile.kernels[1] = {"k1_convolution", "Conv", "library 3", {}};
  return profile;
}

// A profile with the times that `rondo profile` adds.
tools::TuningProfile SomeTimes() {
  tools::TuningProfile profile = SomeProfile();
  profile.nccl = "2.31.2";
  profile.times[0xfedcba9876543210] = {"k3_matmul", "MatMul \"layers.0.q\"", 8, 12.3456};
  profile.times[7] = {"k0_map", "Add", 1, 0.5};
  profile.collectives = {{CollectiveOp::kAllReduce, 2, false, {{4096, 7.125}, {65536, 8.5}}},
                         {CollectiveOp::kAllReduce, 2, true, {{4096, 3.5}}},
                         {CollectiveOp::kAllGather, 8, false, {{1, 2.25}}}};
  profile.taken = 0.25;
  profile.runs = {{"0123456789abcdef", "main", 2, 2120.5, 2057.1}};
  return profile;
}

TEST(Profile, RoundTripKeepsEverything) {
  const std::string text = tools::ProfileJson(SomeProfile());
  Result<tools::TuningProfile> read = tools::ParseProfile(text, "p.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(tools::ProfileJson(*read), text);
  EXPECT_EQ(read->gpu, "NVIDIA H200");
  EXPECT_EQ(read->driver, 13000u);
  EXPECT_EQ(read->kernels.at(0xfedcba9876543210).microseconds.at("few_rows warps 8 cluster 1"), 7.5);
  const KernelProfile choices = tools::ChoicesOf(*read);
  EXPECT_EQ(choices.architecture, "sm_90a");
  EXPECT_EQ(choices.choices.at(1).variant, VariantId::kLibrary);
}

TEST(Profile, TimesGoToTheCompilerAsTheyAreWritten) {
  const std::string text = tools::ProfileJson(SomeTimes());
  Result<tools::TuningProfile> read = tools::ParseProfile(text, "p.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(tools::ProfileJson(*read), text);
  const std::shared_ptr<const MeasuredTimes> times = tools::ChoicesOf(*read).times;
  ASSERT_NE(times, nullptr);
  EXPECT_EQ(times->kernels.at(0xfedcba9876543210), 12.346);
  EXPECT_EQ(times->collectives.size(), 3u);
  EXPECT_EQ(times->taken, 0.25);
  EXPECT_EQ(*times->OfCollective(CollectiveOp::kAllReduce, 4096, 2, true), 3.5);
  EXPECT_NE(times->profile.find("of NVIDIA H200, sm_90a"), std::string::npos) << times->profile;
  // A different text is a different profile.
  Result<tools::TuningProfile> other = tools::ParseProfile(text + " ", "p.json");
  EXPECT_NE(other->hash, read->hash);
  EXPECT_EQ(tools::ChoicesOf(SomeProfile()).times, nullptr);
  EXPECT_EQ(text.find("\"small\"") != std::string::npos, true);
}

TEST(Profile, OfAnotherMachineIsNotMerged) {
  tools::TuningProfile here = SomeTimes();
  EXPECT_TRUE(tools::SameMachine(SomeTimes(), here, "p.json").ok());
  here.gpu = "NVIDIA A100";
  EXPECT_EQ(std::string(tools::SameMachine(SomeTimes(), here, "p.json").message()),
            "--merge: p.json is of NVIDIA H200, sm_90a, but this is NVIDIA A100, sm_90a");
}

TEST(Profile, WrittenBeforeConfigurationsWereRenamedIsRead) {
  std::string text = tools::ProfileJson(SomeProfile());
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  replace("\"mma 64x64x64", "\"tile 64x64x64");
  replace("\"few_rows warps 8 cluster 1\"", "\"bulk 128x64 1x1x1 cluster 1\"");
  Result<tools::TuningProfile> read = tools::ParseProfile(text, "p.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const tools::ProfiledKernel& kernel = read->kernels.at(0xfedcba9876543210);
  EXPECT_EQ(kernel.choice, "mma 64x64x64 2x2x2 cluster 2");
  EXPECT_EQ(kernel.microseconds.count("tma 128x64 1x1x1 cluster 1"), 1u);
}

TEST(Profile, WhatIsWrongIsSaid) {
  const std::string good = tools::ProfileJson(SomeTimes());
  const struct {
    const char *from, *to, *says;
  } kBroken[] = {
      {"{", "", "not a JSON object"},
      {"\"rondo_profile\": 1", "\"rondo_profile\": 2", "version is 2, and this build reads 1"},
      {"\"rondo_profile\": 1", "\"profile\": 1", "no profile of rondo tune"},
      {"\"gpu\": \"NVIDIA H200\"", "\"gpu\": 4", "\"gpu\" is not a text"},
      {"\"driver\": 13000", "\"driver\": -1", "\"driver\" is not a number"},
      {"\"kernels\": [", "\"kernels\": 3, \"other\": [", "\"kernels\" is not a list"},
      {"\"key\": \"0000000000000001\"", "\"key\": \"1\"", "kernel 0: \"key\" is not 16 hexadecimal digits"},
      {"\"key\": \"0000000000000001\"", "\"key\": \"000000000000000g\"", "kernel 0: \"key\" is not 16"},
      {"\"key\": \"0000000000000001\"", "\"key\": \"fedcba9876543210\"", "an earlier one has its key"},
      {"\"choice\": \"library 3\"", "\"choice\": \"libraries\"", "\"libraries\" is not the name of a choice"},
      {"7.5", "-7.5", "kernel 1: the time of \"few_rows warps 8 cluster 1\" is not a number above 0"},
      {"7.5", "\"7.5\"", "is not a number above 0"},
      {"\"microseconds\": {}", "\"microseconds\": []", "not a list of times by choice"},
      {"\"nccl\": \"2.31.2\"", "\"nccl\": 2", "\"nccl\" is not a text"},
      {"\"times\": [", "\"times\": {}, \"other\": [", "\"times\" is not a list"},
      {"\"times\": [", "\"times\": [3, ", "time 0: it is not an object"},
      {"\"key\": \"0000000000000007\"", "\"key\": \"7\"", "time 0: \"key\" is not 16 hexadecimal digits"},
      {"\"launches\": 8", "\"launches\": 0", "time 1: \"launches\" is not a number from 1 to 4294967295"},
      {"12.346", "-12.346", "time 1: \"microseconds\" is not a number of microseconds from 0.001 to 1e+09"},
      {"12.346", "1e999", "not a JSON object"},
      {"12.346", "1e300", "time 1: \"microseconds\" is not a number of microseconds"},
      {"\"collectives\": [", "\"collectives\": 1, \"other\": [", "\"collectives\" is not a list"},
      {"\"op\": \"all-reduce\"", "\"op\": \"all\"", "collective 0: \"all\" is no collective"},
      {"\"ranks\": 2", "\"ranks\": 65", "collective 0: \"ranks\" is not a number from 2 to 64"},
      {"\"by\": \"nccl\"", "\"by\": \"mpi\"", "collective 0: \"by\" is none of nccl, small, host: \"mpi\""},
      {"\"4096\": 7.125", "\"4k\": 7.125", "collective 0: \"4k\" is not a number of bytes from 1 to"},
      {"\"4096\": 7.125", "\"0\": 7.125", "collective 0: \"0\" is not a number of bytes from 1 to"},
      {"7.125", "null", "collective 0: the time of 4096 bytes is not a number of microseconds"},
      {"\"ranks\": 8", "\"ranks\": 2, \"op\": \"all-reduce\"", "collective 2: an earlier one is the same"},
      {"\"taken\": 0.25", "\"taken\": 1", "\"taken\" is not a number from 0 to 0.95"},
      {"\"taken\": 0.25", "\"taken\": \"most\"", "\"taken\" is not a number from 0 to 0.95"},
      {"\"devices\": 2", "\"devices\": -2", "run 0: \"devices\" is not a number from 1 to 64"},
      {"\"estimated\": 2057.1", "\"estimated\": 0", "run 0: \"estimated\" is not a number of microseconds"},
  };
  for (const auto& broken : kBroken) {
    std::string text = good;
    const size_t at = text.find(broken.from);
    ASSERT_NE(at, std::string::npos) << broken.from;
    text.replace(at, std::string(broken.from).size(), broken.to);
    Result<tools::TuningProfile> read = tools::ParseProfile(text, "p.json");
    ASSERT_FALSE(read.ok()) << broken.says;
    EXPECT_EQ(read.status().code(), Code::kCorrupt);
    const std::string message = read.status().message();
    EXPECT_NE(message.find("profile p.json: "), std::string::npos) << message;
    EXPECT_NE(message.find(broken.says), std::string::npos) << message;
  }
}

// ------------------------------------------------------------------------------------- in plans

CompileOptions InF16(const std::string& model) {
  CompileOptions options;
  options.models = {{"main", SourceFolder() + "/tests/data/" + model}};
  static const TemporaryFolder cache;
  options.kernel_cache = cache.string();
  options.targets = *ParseTargets("cuda:sm_90a");
  options.precision = Precision::kF16;
  options.matmuls = Matmuls::kGenerated;
  return options;
}

Span<const uint8_t> CodeOf(const CodeModule& module, uint32_t kernel) {
  return module.codes[module.binaries[kernel].code];
}

bool SameBytes(Span<const uint8_t> a, Span<const uint8_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST(Profile, ChangesTheImagesThatItNamesAndNothingElse) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  CompileOptions options = InF16("fixtures/bert_ts17/model.onnx");
  Result<CompiledPlan> plain = CompileToMemory(options);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_TRUE(plain->plan.modules[0].alternatives.empty());

  options.alternatives = 3;
  Result<CompiledPlan> rich = CompileToMemory(options);
  ASSERT_TRUE(rich.ok()) << rich.status().message();
  const CodeModule& module = rich->plan.modules[0];
  const KernelAlternative* other = nullptr;
  std::map<uint32_t, int> present, others;
  for (const KernelAlternative& a : module.alternatives) {
    EXPECT_TRUE(ParseKernelConfiguration(a.choice)) << a.choice;
    const bool same =
        a.binary.kind == BinaryKind::kFunction && a.binary.code == module.binaries[a.kernel].code;
    ++(same ? present : others)[a.kernel];
    if (!same && a.binary.kind == BinaryKind::kFunction) other = &a;
  }
  ASSERT_NE(other, nullptr);
  for (const auto& [kernel, count] : others) {
    EXPECT_EQ(present[kernel], 1) << "the choice that runs has its name, too";
    EXPECT_LE(count, 4) << "three, and a library's";
  }

  options.alternatives = 0;
  options.profile.architecture = "sm_90a";
  options.profile.choices[KernelDigest(rich->plan.kernels[other->kernel])] =
      *ParseKernelConfiguration(other->choice);
  options.profile.choices[1] = *ParseKernelConfiguration("mma");
  Result<CompiledPlan> tuned = CompileToMemory(options);
  ASSERT_TRUE(tuned.ok()) << tuned.status().message();
  EXPECT_EQ(tuned->report.profile.taken, 1u);
  EXPECT_EQ(tuned->report.profile.unused, 1u);
  EXPECT_TRUE(tuned->report.profile.unknown.empty());
  ASSERT_EQ(tuned->plan.kernels.size(), plain->plan.kernels.size());
  for (uint32_t k = 0; k < plain->plan.kernels.size(); ++k) {
    EXPECT_EQ(KernelDigest(tuned->plan.kernels[k]), KernelDigest(plain->plan.kernels[k]));
    EXPECT_EQ(SameBytes(CodeOf(tuned->plan.modules[0], k), CodeOf(plain->plan.modules[0], k)),
              k != other->kernel);
  }
  EXPECT_TRUE(SameBytes(CodeOf(tuned->plan.modules[0], other->kernel), module.codes[other->binary.code]));
  EXPECT_EQ(tuned->plan.modules[0].binaries[other->kernel].grid, other->binary.grid);
  EXPECT_EQ(tuned->plan.buffers.size(), plain->plan.buffers.size());
  EXPECT_EQ(tuned->plan.requirements.devices[0].arena, plain->plan.requirements.devices[0].arena);

  // An impossible configuration, or a profile for another architecture, is reported and changes nothing.
  for (auto& [key, choice] : options.profile.choices) choice = *ParseKernelConfiguration("mma 63x63x63");
  Result<CompiledPlan> unknown = CompileToMemory(options);
  ASSERT_TRUE(unknown.ok());
  ASSERT_EQ(unknown->report.profile.unknown.size(), 1u);
  EXPECT_NE(unknown->report.profile.unknown[0].find("mma 63x63x63"), std::string::npos);
  options.profile.architecture = "sm_80";
  Result<CompiledPlan> foreign = CompileToMemory(options);
  ASSERT_TRUE(foreign.ok());
  EXPECT_EQ(foreign->report.profile.unused, 2u);
  for (uint32_t k = 0; k < plain->plan.kernels.size(); ++k) {
    EXPECT_TRUE(SameBytes(CodeOf(unknown->plan.modules[0], k), CodeOf(plain->plan.modules[0], k)));
    EXPECT_TRUE(SameBytes(CodeOf(foreign->plan.modules[0], k), CodeOf(plain->plan.modules[0], k)));
  }
}

TEST(Profile, ChoosesAmongTheCandidatesOfAttentionAndConvolutions) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  const struct {
    const char* model;
    Skeleton skeleton;
  } kModels[] = {{"fixtures/bert_ts17/model.onnx", Skeleton::kAttention},
                 {"fixtures/mobilenetv2/model.onnx", Skeleton::kConvolution}};
  for (const auto& [model, skeleton] : kModels) {
    SCOPED_TRACE(model);
    CompileOptions options = InF16(model);
    options.alternatives = 2;
    Result<CompiledPlan> rich = CompileToMemory(options);
    ASSERT_TRUE(rich.ok()) << rich.status().message();
    std::map<uint32_t, std::string> asked;  // kernels that do not use this candidate yet
    const CodeModule& module = rich->plan.modules[0];
    for (const KernelAlternative& a : module.alternatives) {
      if (rich->plan.kernels[a.kernel].parts[0].skeleton == skeleton &&
          a.binary.kind == BinaryKind::kFunction && a.binary.code != module.binaries[a.kernel].code)
        asked[a.kernel] = a.choice;
    }
    ASSERT_FALSE(asked.empty());
    options.alternatives = 0;
    options.profile.architecture = "sm_90a";
    for (const auto& [kernel, choice] : asked)
      options.profile.choices[KernelDigest(rich->plan.kernels[kernel])] = *ParseKernelConfiguration(choice);
    Result<CompiledPlan> tuned = CompileToMemory(options);
    ASSERT_TRUE(tuned.ok()) << tuned.status().message();
    EXPECT_EQ(tuned->report.profile.taken, asked.size());
    EXPECT_TRUE(tuned->report.profile.unknown.empty());
    for (const auto& [kernel, choice] : asked)
      EXPECT_EQ(tuned->plan.modules[0].binaries[kernel].choice, choice);
  }
}

TEST(Profile, AsksForALibraryBeforeMemoryIsPlanned) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  CompileOptions options = InF16("pycoder/prefill64.onnx");
  options.alternatives = 1;
  Result<CompiledPlan> rich = CompileToMemory(options);
  ASSERT_TRUE(rich.ok()) << rich.status().message();
  options.alternatives = 0;
  options.profile.architecture = "sm_90a";
  uint32_t asked = 0;
  for (const KernelAlternative& a : rich->plan.modules[0].alternatives) {
    if (a.choice != "library") continue;
    options.profile.choices[KernelDigest(rich->plan.kernels[a.kernel])] = *ParseKernelConfiguration(a.choice);
    ++asked;
  }
  ASSERT_GT(asked, 0u);
  Result<CompiledPlan> tuned = CompileToMemory(options);
  ASSERT_TRUE(tuned.ok()) << tuned.status().message();
  EXPECT_EQ(tuned->report.profile.taken, asked);
  uint32_t of_library = 0;
  for (const KernelBinary& binary : tuned->plan.modules[0].binaries)
    of_library += binary.kind == BinaryKind::kLibraryMatmul;
  EXPECT_EQ(of_library, asked);
  EXPECT_GT(tuned->plan.requirements.devices[0].workspace, 0u);

  // Not with --deterministic, where results must be the same with every version of the library.
  options.deterministic = true;
  options.alternatives = 1;
  Result<CompiledPlan> deterministic = CompileToMemory(options);
  ASSERT_TRUE(deterministic.ok()) << deterministic.status().message();
  EXPECT_EQ(deterministic->report.profile.taken, 0u);
  EXPECT_EQ(deterministic->report.profile.unknown.size(), asked);
  for (const KernelBinary& binary : deterministic->plan.modules[0].binaries)
    EXPECT_EQ(binary.kind, BinaryKind::kFunction);
  EXPECT_FALSE(deterministic->plan.modules[0].alternatives.empty());
  for (const KernelAlternative& a : deterministic->plan.modules[0].alternatives)
    EXPECT_EQ(a.binary.kind, BinaryKind::kFunction) << a.choice;
}

TEST(Deterministic, NeedsGeneratedProducts) {
  CompileOptions options = InF16("pycoder/prefill64.onnx");
  options.deterministic = true;
  options.matmuls = Matmuls::kLibrary;
  Result<CompiledPlan> refused = CompileToMemory(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(refused.status().message()).find("generated matmuls"), std::string::npos);
}

}  // namespace
}  // namespace rondo
