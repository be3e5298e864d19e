// Generated kernels against the reference, over memory of exactly their size. All kernels of a suite are one
// module, compiled here with or without a GPU; without one the comparison is skipped.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/add_modules.h"
#include "compiler/codegen/cuda/kernel_binaries.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/host/host_driver.h"
#include "tests/cuda/have_nvrtc.h"
#include "tests/host/driver_case.h"
#include "tests/host/reference.h"
#include "tests/how_many.h"
#include "tools/rondo/kernel_check.h"

namespace rondo::test {

struct Case {
  Arena arena;
  PartMaker maker{&arena};
  Memory memory;
  std::string what;
  Tolerance tolerance;
  // Replaces the comparison with the reference: returns the error in the kernel's results, "" for none.
  std::function<std::string(const Memory& got)> difference;
  bool canaries = true;  // whether it also runs on random inputs
};

// Lets the case's points combine the last f32 that each computes into two numbers (greatest and least), which
// start at 0. The case must be complete and its memory filled.
inline void CombineWhatIsMade(Case* c) {
  Part& part = c->maker.part;
  std::vector<Stage> stages(part.stages.begin(), part.stages.end());
  const bool reduction = part.skeleton == Skeleton::kReduction;
  Tape& tape = reduction ? stages.back().tape : part.skeleton == Skeleton::kMap ? part.body : part.epilogue;
  std::vector<TapeInst> insts(tape.begin(), tape.end());
  uint16_t made = 0;
  for (size_t k = 0; k < insts.size(); ++k) {
    if (ClassOf(insts[k].op) != OpClass::kEffect && insts[k].type == TapeType::kF32)
      made = static_cast<uint16_t>(k);
  }
  for (const TapeOp op : {TapeOp::kCombineMax, TapeOp::kCombineMin}) {
    TapeInst combine;
    combine.op = op;
    combine.a = made;
    combine.arg = c->maker.Operand(DType::kF32, Mode::kReadWrite, {});
    insts.push_back(combine);
    c->memory.params.emplace_back(4, 0);
  }
  tape = c->arena.Copy(insts);
  if (reduction) part.stages = c->arena.Copy(stages);
}

// Kernels of all cases as one plan with a step each.
class Suite {
 public:
  Case& Add(std::string what) {
    std::deque<Case>& cases = IsTaken(added_++, each) ? cases_ : left_out_;
    last_ = &cases.emplace_back();
    last_->what = std::move(what);
    return *last_;
  }

  Case& Last() { return *last_; }
  size_t size() const { return cases_.size(); }

  int each = HowMany("RONDO_SUITE_EACH", 1);  // only one of so many cases is taken (IsTaken)
  KernelConfiguration configuration;
  uint32_t processors = 0;  // 0: the GPU's; with fewer, small work gets the templates of large work

  void Run() {
    if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
    Build();
    Result<Driver*> driver = CreateCudaDriver();
    std::string report;
    for (const char* architecture : {"sm_90a", "sm_80"}) {
      if (driver.ok() && !CudaCodeChoice((*driver)->Open(0).Take(), emitted_.plan).empty()) continue;
      ModuleOptions options;
      options.units.architecture = architecture;
      options.configuration = configuration;
      options.processors = processors;
      Status status = AddCudaModules(&emitted_, options, &report);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    if (!driver.ok()) GTEST_SKIP() << "compiled, not run: " << driver.status().message();
    RunOn(*driver);
    RunOverCanaries(*driver);
    DestroyCudaDriver(*driver);
  }

  // The number of kernels whose text for sm_90a contains these words, after Run.
  size_t Count(const std::string& words) const {
    CudaTarget target = TargetOf("sm_90a");
    target.configuration = configuration;
    if (processors != 0) target.processors = processors;
    const std::vector<std::vector<cuda::ParamFacts>> facts = FactsOf(emitted_.plan);
    size_t count = 0;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const Result<KernelText> text = WriteKernelText(kernels_[k], target, facts[k]);
      if (text.ok() && text->text.find(words) != std::string::npos) ++count;
    }
    return count;
  }

 private:
  void Build() {
    emitted_.arena = std::make_unique<Arena>();
    uint64_t arena_bytes = 0;
    for (Case& c : cases_) {
      kernels_.push_back(c.maker.Make());
      Step step;
      step.kernel = static_cast<uint32_t>(kernels_.size() - 1);
      std::vector<Binding> bindings;
      for (size_t p = 0; p < c.maker.sizes.size(); ++p) {
        Buffer buffer;
        buffer.alignment = 256;
        buffer.bytes = static_cast<uint64_t>(c.maker.sizes[p] * ByteSize(c.maker.dtypes[p]));
        buffer.offset = arena_bytes;
        arena_bytes += (buffer.bytes + 511) / 256 * 256;
        buffers_.push_back(buffer);
        bindings.push_back({static_cast<uint32_t>(buffers_.size() - 1), 0});
      }
      step.bindings = emitted_.arena->Copy(bindings);
      steps_.push_back(step);
    }
    program_.steps = steps_;
    emitted_.plan.kernels = kernels_;
    emitted_.plan.buffers = buffers_;
    emitted_.plan.programs = Span<const Program>(&program_, 1);
  }

  void RunOn(Driver* driver) {
    Device* device = driver->Open(0).Take();
    Stream* stream = device->CreateStream().Take();
    Result<Module*> module = device->LoadModule(emitted_.plan);
    ASSERT_TRUE(module.ok()) << module.status().message();
    for (uint32_t k = 0; k < cases_.size(); ++k) RunCase(device, stream, *module, k);
    device->DestroyModule(*module);
    device->DestroyStream(stream);
  }

  // Runs all again like `rondo check --kernels`: other inputs, canaried memory, against the host driver.
  void RunOverCanaries(Driver* driver) {
    Driver* host = CreateHostDriver({}).Take();
    Result<std::vector<tools::KernelVerdict>> verdicts = tools::CheckKernels(emitted_.plan, driver, host, {});
    DestroyHostDriver(host);
    ASSERT_TRUE(verdicts.ok()) << verdicts.status().message();
    for (const tools::KernelVerdict& verdict : *verdicts) {
      if (!cases_[verdict.kernel].canaries) continue;
      for (const std::string& failure : verdict.failures)
        ADD_FAILURE() << cases_[verdict.kernel].what << ": " << failure;
    }
  }

  void RunCase(Device* device, Stream* stream, Module* module, uint32_t k) {
    Case& c = cases_[k];
    Memory want = c.memory, got = c.memory;
    const bool fault = RunReference(kernels_[k], want.Spans());
    std::vector<DeviceAddress> addresses;
    for (auto& param : got.params) {
      addresses.push_back(device->Allocate(param.size(), 256).Take());
      EXPECT_TRUE(device->CopyIn(addresses.back(), param.data(), param.size(), stream).ok());
    }
    Status status = device->Launch(module, k, Span<const DeviceAddress>(addresses), stream, 7);
    uint32_t step = 0;
    if (status.ok()) status = device->Synchronize(stream, &step);
    EXPECT_EQ(!status.ok(), fault) << c.what << ": " << status.message();
    for (size_t p = 0; p < addresses.size(); ++p) {
      EXPECT_TRUE(device->CopyOut(got.params[p].data(), addresses[p], got.params[p].size(), stream).ok());
    }
    EXPECT_TRUE(device->Synchronize(stream, &step).ok());
    for (size_t p = 0; p < addresses.size(); ++p) device->Free(addresses[p], got.params[p].size());
    EXPECT_EQ(c.difference ? c.difference(got) : Difference(c.maker, want, got, c.tolerance), "") << c.what;
  }

  std::deque<Case> cases_, left_out_;
  Case* last_ = nullptr;
  int added_ = 0;
  EmittedPlan emitted_;
  std::vector<Kernel> kernels_;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  Program program_;
};

}  // namespace rondo::test
