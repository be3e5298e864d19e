// Machine code and its contract: which binaries are read, which are refused, and which differ from the
// compiled ones.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "drivers/cuda/choose_module.h"
#include "formats/machine_code/architecture.h"
#include "formats/machine_code/binary_check.h"
#include "formats/machine_code/cubin.h"
#include "formats/machine_code/ptx.h"
#include "tests/cuda/make_cubin.h"
#include "tests/runtime/tiny_plan.h"
#include "tests/says.h"

namespace rondo {
namespace {

FunctionNeeds NeedsOf(uint32_t addresses, size_t maps = 0) {
  FunctionNeeds needs;
  needs.params = PassedParams(addresses, maps);
  needs.registers = 40;
  needs.shared = 1040;
  needs.most_threads = 256;
  needs.cluster = 2;
  return needs;
}

TEST(Cubin, SaysWhatItsFunctionsTake) {
  for (const bool cuda12 : {false, true}) {
    const FunctionNeeds needs = NeedsOf(3, 2);
    const std::vector<uint8_t> binary = MakeCubin(90, {{"f", needs}, {"rondo_g", NeedsOf(700)}}, cuda12);
    Result<Cubin> cubin = Cubin::Read(binary);
    ASSERT_TRUE(cubin.ok()) << cubin.status().message();
    EXPECT_EQ(cubin->architecture(), 90);
    EXPECT_EQ(cubin->Entries(), (std::vector<std::string_view>{"f", "rondo_g"}));
    Result<FunctionNeeds> f = cubin->Function("f");
    ASSERT_TRUE(f.ok()) << f.status().message();
    EXPECT_EQ(f->params, needs.params);
    EXPECT_EQ(f->registers, 40u);
    EXPECT_EQ(f->shared, 1040u);
    EXPECT_EQ(f->most_threads, 256u);
    EXPECT_EQ(f->cluster, 2u);
    EXPECT_EQ(cubin->Function("rondo_g")->params.size(), 702u);
    EXPECT_SAYS(cubin->Function("g").status(), "no function of that name");
  }
}

// Reading ends without a crash, whatever is cut off or changed.
TEST(Cubin, IsSafeAgainstAnyCutAndAnyByte) {
  const std::vector<uint8_t> binary = MakeCubin(90, {{"f", NeedsOf(2)}});
  for (size_t size = 0; size < binary.size(); ++size) {
    const std::vector<uint8_t> cut(binary.begin(), binary.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(Cubin::Read(cut).ok()) << size;
  }
  for (size_t at = 0; at < binary.size(); ++at) {
    for (const uint8_t byte : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<uint8_t> changed = binary;
      changed[at] = byte;
      const Result<Cubin> cubin = Cubin::Read(changed);
      if (!cubin.ok()) continue;
      for (std::string_view entry : const_cast<Result<Cubin>&>(cubin)->Entries())
        (void)(*cubin).Function(entry);
    }
  }
}

TEST(Ptx, SaysWhatItsFunctionsTake) {
  const std::string text =
      "// made by hand\n.version 9.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 d[];\n"
      ".visible .entry f(\n\t.param .u64 f_param_0,\n\t.param .align 64 .b8 f_param_1[128],\n"
      "\t.param .u64 .ptr .global .align 16 f_param_2,\n\t.param .u32 f_param_3\n)\n.maxntid 288, 1, 1\n"
      ".minnctapersm 2\n{ /* .entry x( */ ret; }\n.visible .entry g()\n.reqntid 64\n{ ret; }\n";
  const std::vector<uint8_t> code(text.c_str(), text.c_str() + text.size() + 1);
  Result<Ptx> ptx = Ptx::Read(code);
  ASSERT_TRUE(ptx.ok()) << ptx.status().message();
  EXPECT_EQ(ptx->architecture(), 80);
  EXPECT_EQ(ptx->Entries(), (std::vector<std::string_view>{"f", "g"}));
  EXPECT_EQ(ptx->Function("f")->params, (std::vector<uint32_t>{8, 128, 8, 4}));
  EXPECT_EQ(ptx->Function("f")->most_threads, 288u);
  EXPECT_EQ(ptx->Function("g")->exact_threads, 64u);
  const std::vector<uint8_t> unended(code.begin(), code.end() - 1);
  EXPECT_SAYS(Ptx::Read(unended).status(), "its only zero");
  for (size_t size = 1; size < text.size(); ++size) {
    std::vector<uint8_t> cut(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(size));
    cut.push_back(0);
    (void)Ptx::Read(cut).ok();
  }
}

// A tiny plan with separate code for each of its kernels.
struct Compiled {
  TinyPlan tiny;
  std::vector<std::vector<uint8_t>> codes;
  std::vector<Span<const uint8_t>> spans;
  std::vector<KernelBinary> binaries;
  CodeModule module;
  FunctionNeeds needs;  // of kernel 0's function

  explicit Compiled(const std::function<void(Compiled*)>& before = nullptr) {
    needs = NeedsOf(tiny.data.kernels[0].num_params);
    for (uint32_t k = 0; k < tiny.data.kernels.size(); ++k) {
      KernelBinary binary;
      binary.entry = k == 0 ? "f" : "g";
      binary.code = k;
      binary.grid = 4;
      binary.block = 256;
      binary.text_digest = 77 + k;
      binaries.push_back(binary);
    }
    module.architecture = "sm_90a";
    module.compiler = "nvrtc 13.0";
    if (before) before(this);
    for (uint32_t k = 0; k < tiny.data.kernels.size(); ++k) {
      codes.push_back(
          MakeCubin(90, {{k == 0 ? "f" : "g", k == 0 ? needs : NeedsOf(tiny.data.kernels[k].num_params)}}));
    }
    Seal();
  }
  // Makes the plan from the current members, with their digests.
  void Seal() {
    Place();
    SealBinaries(&tiny.data, tiny.arena);
    binaries.assign(tiny.data.modules[0].binaries.begin(), tiny.data.modules[0].binaries.end());
  }
  void Place() {
    spans.assign(codes.begin(), codes.end());
    module.codes = spans;
    module.binaries = binaries;
    tiny.data.modules = Span<const CodeModule>(&module, 1);
  }
  Status Check() {
    Place();
    return CheckBinaries(tiny.data, module, true);
  }
};

TEST(Binaries, OfACompiledPlanPass) {
  const Status status = Compiled().Check();
  EXPECT_TRUE(status.ok()) << status.message();
}

struct Alteration {
  const char* what;
  std::function<void(Compiled*)> alter;
  const char* says;
};

// Each change to the compiled code is refused, even if the plan's structure allows it.
TEST(Binaries, AnyAlterationAfterwardsIsRefused) {
  const Alteration kAlterations[] = {
      {"a byte of code", [](Compiled* c) { c->codes[0][0x60] ^= 1; }, ""},
      {"a byte at its end", [](Compiled* c) { c->codes[1].back() ^= 0x10; }, ""},
      {"text for code",
       [](Compiled* c) {
         c->codes[0] = {'t', 'e', 'x', 't'};
       },
       "no ELF image"},
      {"codes exchanged", [](Compiled* c) { std::swap(c->codes[0], c->codes[1]); },
       "no function of that name"},
      {"binaries exchanged", [](Compiled* c) { std::swap(c->binaries[0], c->binaries[1]); }, ""},
      {"no such entry", [](Compiled* c) { c->binaries[0].entry = "h"; },
       "function \"h\" of code 0: it has no function"},
      {"blocks", [](Compiled* c) { c->binaries[0].grid = 6; }, "digest"},
      {"blocks that are no clusters", [](Compiled* c) { c->binaries[0].grid = 5; }, "clusters of 2"},
      {"threads", [](Compiled* c) { c->binaries[0].block = 128; }, "digest"},
      {"too many threads", [](Compiled* c) { c->binaries[0].block = 512; }, "at most 256"},
      {"shared memory", [](Compiled* c) { c->binaries[0].shared = 64; }, "digest"},
      {"too much shared memory", [](Compiled* c) { c->binaries[0].shared = 227 << 10; }, "a block's 233472"},
      {"a flag", [](Compiled* c) { c->binaries[0].waits = true; }, "digest"},
      {"a tensor map", [](Compiled* c) { c->binaries[0].tensor_maps = c->tiny.arena.New<TensorMap>(1); },
       "it takes"},
      {"the text", [](Compiled* c) { ++c->binaries[0].text_digest; }, "digest"},
      {"the choice", [](Compiled* c) { c->binaries[0].choice = "mma"; }, "digest"},
      {"the compiler", [](Compiled* c) { c->module.compiler = "nvrtc 13.1"; }, "digest"},
      {"no digest", [](Compiled* c) { c->binaries[0].digest = 0; }, "compile the plan again"},
      {"the architecture", [](Compiled* c) { c->module.architecture = "sm_80"; }, "it is for sm_90"},
      {"the contract",
       [](Compiled* c) {
         std::vector<Kernel> kernels(c->tiny.data.kernels.begin(), c->tiny.data.kernels.end());
         std::swap(kernels[0].parts, kernels[1].parts);
         c->tiny.data.kernels = c->tiny.arena.Copy(kernels);
       },
       "digest"},
  };
  for (const Alteration& a : kAlterations) {
    Compiled compiled;
    a.alter(&compiled);
    const Status status = compiled.Check();
    ASSERT_FALSE(status.ok()) << a.what;
    EXPECT_EQ(status.code(), Code::kCorrupt) << a.what;
    EXPECT_SAYS(status, a.says);
    EXPECT_SAYS(status, std::string("module ") + std::string(compiled.module.architecture));
  }
}

// Code that cannot run is refused even if its digests are right.
TEST(Binaries, CodeThatDoesNotFitItsLaunchIsRefused) {
  const Alteration kAlterations[] = {
      {"a parameter less", [](Compiled* c) { c->needs.params.pop_back(); },
       "parameters, but a launch passes"},
      {"a larger one", [](Compiled* c) { c->needs.params[0] = 128; }, "its parameter 0 has 128 bytes"},
      {"registers", [](Compiled* c) { c->needs.registers = 257; }, "256 threads with 257 registers"},
      {"shared memory", [](Compiled* c) { c->needs.shared = 300 << 10; }, "bytes of shared memory"},
      {"exact threads", [](Compiled* c) { c->needs.exact_threads = 64; }, "it is made for 64"},
  };
  for (const Alteration& a : kAlterations) {
    Compiled compiled(a.alter);
    EXPECT_SAYS(compiled.Check(), a.says);
    EXPECT_SAYS(compiled.Check(), "Mul \"mul_node\"");
  }
}

TEST(Architectures, SayWhereTheyRunAndWhatNobodyHasRun) {
  CodeModule module;
  module.architecture = "sm_80";
  EXPECT_EQ(
      RunsOnText(module),
      "machine code for compute capability 8.0 (A100, A30), 8.6 (A10, A40, RTX 30), 8.7 (Orin) and 8.9 (L4, "
      "L40, RTX 40); it has never run on such GPUs");
  module.architecture = "sm_90a";
  EXPECT_EQ(RunsOnText(module), "machine code for compute capability 9.0 (H100, H200) only");
  module.architecture = "compute_80";
  EXPECT_EQ(RunsOnText(module),
            "PTX for compute capability 8.0 and all later; it has run on compute capability 9.0 only");
  module.architecture = "sm_120a";
  EXPECT_EQ(
      RunsOnText(module),
      "machine code for compute capability 12.0 (RTX 50, RTX PRO 6000) only; it has never run on such GPUs");
  KernelBinary binary;
  binary.shared = 120 << 10;
  module.binaries = Span<const KernelBinary>(&binary, 1);
  module.architecture = "sm_80";
  EXPECT_NE(RunsOnText(module).find("not for 8.6"), std::string::npos) << RunsOnText(module);
  for (const char* name : {"", "sm_", "sm_9", "sm_9000", "sm_90f", "90a", "sm_a", "compute_"})
    EXPECT_FALSE(ParseArchitecture(name)) << name;
}

TEST(Architectures, TheBestModuleIsTakenAndTheOthersSayWhyNot) {
  std::vector<CodeModule> modules;
  for (const char* name : {"compute_80", "sm_80", "sm_86", "sm_90a", "sm_120a"}) {
    modules.emplace_back();
    modules.back().architecture = name;
  }
  PlanData plan;
  plan.modules = modules;
  const std::pair<int, const char*> kBest[] = {{80, "sm_80"},    {86, "sm_86"},       {87, "sm_86"},
                                               {89, "sm_86"},    {90, "sm_90a"},      {100, "compute_80"},
                                               {120, "sm_120a"}, {121, "compute_80"}, {75, ""}};
  for (const auto& [capability, best] : kBest) {
    const cuda::ModuleChoice choice = cuda::ChooseModule(plan, capability, 227 << 10);
    EXPECT_EQ(choice.module == nullptr ? "" : choice.module->architecture, best) << capability;
  }
  const std::string others = cuda::ChooseModule(plan, 86, 99 << 10).others;
  for (const char* words : {"compute_80 would run, but sm_86 is made for more", "sm_80 would run",
                            "sm_90a is machine code for compute capability 9.0 only"})
    EXPECT_NE(others.find(words), std::string::npos) << others;
  // More shared memory than the GPU has.
  KernelBinary binary;
  binary.shared = 120 << 10;
  modules[2].binaries = Span<const KernelBinary>(&binary, 1);
  EXPECT_EQ(cuda::ChooseModule(plan, 86, 99 << 10).module->architecture, "sm_80");
  const std::string lacks = cuda::ChooseModule(plan, 86, 99 << 10).others;
  EXPECT_NE(lacks.find("takes 122880 bytes"), std::string::npos) << lacks;
}

TEST(Architectures, EveryTargetIsTheBestSomewhere) {
  for (const GpuTarget& target : GpuTargets()) {
    const std::optional<CodeArchitecture> code = ParseArchitecture(target.architecture);
    ASSERT_TRUE(code);
    bool best = false;
    for (const GpuGeneration& generation : GpuGenerations()) {
      best = best || TargetFor(generation.capability) == &target;
      if (!RunsOn(*code, generation.capability)) continue;
      EXPECT_LE(target.shared, generation.shared) << target.architecture;
    }
    EXPECT_TRUE(best) << target.architecture;
  }
}

}  // namespace
}  // namespace rondo
