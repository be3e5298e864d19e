// Failures of a GPU, its driver or its memory: the cuda driver over a libcuda that fails on request.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "compiler/compile.h"
#include "core/synthetic.h"
#include "drivers/host/host_driver.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/e2e/harness.h"
#include "tests/plan/call_plan.h"
#include "tests/runtime/open_tiny.h"

namespace rondo {
namespace {

constexpr int kIllegalAddress = 700, kUnknown = 999;

class CudaFaults : public testing::Test {
 protected:
  CudaFaults() { fake_cuda::SetMachine({}); }
  ~CudaFaults() override {
    fake_cuda::Heal();
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
  }
};

TEST_F(CudaFaults, TooLittleMemoryIsOneSentenceAndOthersLive) {
  fake_cuda::Machine machine;
  machine.device_bytes = 208 << 20;  // steps of 66 MiB, and one that the weights lie in
  fake_cuda::SetMachine(machine);
  TinyPlan tiny;
  tiny.NeedMore(0, 64 << 20, 0);
  FakeGpu gpu(&tiny.data);
  FakeSession s;
  const Status opened = s.Open(tiny.data, tiny.weight_bytes());
  ASSERT_TRUE(opened.ok()) << opened.message();
  const fake_cuda::Balance before = fake_cuda::Held();
  std::vector<Session> more;
  Status status;
  while (status.ok() && more.size() < 10) {
    Result<Session> session = Session::Create(s.runtime, s.plan);
    status = session.status();
    if (session.ok()) more.push_back(session.Take());
  }
  EXPECT_SAYS(status,
              "device 0: the session's arena and state of 67117056 bytes; 8388608 of 218103808 bytes are "
              "free");
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_TRUE(RunAddOnce(s.sessions[0]).ok());
  more.clear();
  EXPECT_EQ(fake_cuda::Held(), before);
  s.Close();
}

// As with NVIDIA's own library, the process loses its other GPUs too.
TEST_F(CudaFaults, AFaultThatIsFinalEndsSessionsOnGpusAndNoOthers) {
  TinyPlan tiny;
  FakeGpu gpu(&tiny.data);
  FakeSession first, second;
  const uint32_t one = 1;
  ASSERT_TRUE(first.Open(tiny.data, tiny.weight_bytes(), nullptr, 2).ok());
  ASSERT_TRUE(second.Open(tiny.data, tiny.weight_bytes(), nullptr, 1, {&one, 1}).ok());
  TinyPlan host_plan;
  HostOptions host_options;
  Driver* host = CreateHostDriver(host_options).Take();
  {
    Runtime runtime = Runtime::Create(host).Take();
    Plan plan = Plan::FromData(host_plan.data, host_plan.weight_bytes()).Take();
    Session on_host = Session::Create(runtime, plan).Take();
    EXPECT_TRUE(first.runtime.Ready().ok());

    gpu.before = [](uint32_t) { return kIllegalAddress; };
    const Status faulted = RunAddOnce(first.sessions[0]);
    gpu.before = nullptr;
    EXPECT_SAYS(faulted, "device 0");
    EXPECT_SAYS(faulted, "(700)");
    EXPECT_SAYS(faulted, "the process must be replaced");
    EXPECT_SAYS(RunAddOnce(first.sessions[0]), "(700)");
    EXPECT_SAYS(RunAddOnce(first.sessions[1]), "no session on a GPU can go on");
    EXPECT_SAYS(Session::Create(first.runtime, first.plan).status(), "no session on a GPU can go on");
    EXPECT_SAYS(first.runtime.Ready(), "the process must be replaced");

    EXPECT_SAYS(RunAddOnce(second.sessions[0]), "no session on a GPU can go on");
    EXPECT_SAYS(second.runtime.Ready(), "the process must be replaced");
    EXPECT_TRUE(runtime.Ready().ok());
    EXPECT_TRUE(RunAddOnce(on_host).ok());
  }
  DestroyHostDriver(host);
  first.Close();
  second.Close();
}

// Also in a graph of two streams, whichever stream has the step.
TEST_F(CudaFaults, AnIndexOutOfRangeFailsItsRunAlone) {
  for (uint32_t stream : {0u, 1u}) {
    TinyPlan tiny;
    std::vector<Program> programs(tiny.data.programs.begin(), tiny.data.programs.end());
    Step step = programs[TinyPlan::kPick].steps[0];
    step.stream = stream;
    programs[TinyPlan::kPick].steps = Span<const Step>(&step, 1);
    programs[TinyPlan::kPick].num_streams = 2;
    tiny.data.programs = programs;
    FakeGpu gpu(&tiny.data);
    FakeSession s;
    const Status opened = s.Open(tiny.data, tiny.weight_bytes());
    ASSERT_TRUE(opened.ok()) << opened.message();
    int64_t index = 7;
    float z = 0;
    const Input inputs[] = {{"index", kNone, DType::kI64, {1}, &index, 8}};
    const Output outputs[] = {{"z", kNone, DType::kF32, &z, 4}};
    const Status bad = s.sessions[0].Run(TinyPlan::kPick, inputs, outputs);
    EXPECT_SAYS(bad, "(Gather \"gather_node\")");
    EXPECT_EQ(bad.code(), Code::kOutOfRange);
    index = 2;
    EXPECT_TRUE(s.sessions[0].Run(TinyPlan::kPick, inputs, outputs).ok());
    EXPECT_EQ(z, 3);
    EXPECT_TRUE(s.runtime.Ready().ok());
    s.Close();
  }
}

struct Machines {
  const char* code;
  int major, minor;
  bool runs;
};

TEST_F(CudaFaults, MachineCodeRunsWhereItCan) {
  const Machines kCases[] = {
      {"sm_80", 8, 0, true},      {"sm_80", 8, 6, true},      {"sm_80", 9, 0, false},
      {"sm_90a", 9, 0, true},     {"sm_90a", 10, 0, false},   {"sm_90a", 8, 9, false},
      {"sm_86", 8, 0, false},     {"sm_90a", 10, 3, false},   {"sm_100a", 10, 0, true},
      {"sm_120a", 12, 1, false},  {"compute_80", 9, 0, true}, {"compute_80", 12, 0, true},
      {"compute_90", 8, 9, false}};
  for (const Machines& c : kCases) {
    fake_cuda::Machine machine;
    machine.major = c.major;
    machine.minor = c.minor;
    fake_cuda::SetMachine(machine);
    TinyPlan tiny;
    FakeGpu gpu(&tiny.data, c.code);
    FakeSession s;
    const Status status = s.Open(tiny.data, tiny.weight_bytes());
    EXPECT_EQ(status.ok(), c.runs) << c.code << " on " << c.major << "." << c.minor;
    if (!c.runs) {
      EXPECT_SAYS(status, "the plan has no machine code for sm_" + std::to_string(c.major * 10 + c.minor) +
                              " (Fake GPU): " + c.code + " is ");
    }
    s.Close();
  }
}

TEST_F(CudaFaults, ADriverOlderThanThePlanNeedsIsNamed) {
  TinyPlan tiny;
  FakeGpu gpu(&tiny.data);
  tiny.data.requirements.least_driver_version = 13010;
  FakeSession s;
  const Status status = s.Open(tiny.data, tiny.weight_bytes());
  EXPECT_SAYS(status, "the plan needs driver version 13010; \"cuda\" has 13000");
  EXPECT_EQ(status.code(), Code::kUnsupported);
}

TEST_F(CudaFaults, ADamagedModuleIsRefused) {
  TinyPlan tiny;
  FakeGpu gpu(&tiny.data);
  CodeModule broken = tiny.data.modules[0];
  const uint8_t code[] = {1, 2, 3, 4, 5};
  const Span<const uint8_t> codes[] = {code};
  broken.codes = codes;
  tiny.data.modules = Span<const CodeModule>(&broken, 1);
  FakeSession s;
  EXPECT_SAYS(s.Open(tiny.data, tiny.weight_bytes()), "module sm_90, code 0: 5 bytes are no ELF image");
}

// The code that is loaded must be the code that was compiled, apart from the file's hashes.
TEST_F(CudaFaults, AnAlteredBinaryIsNotLoaded) {
  const std::function<void(KernelBinary*)> kAlterations[] = {
      [](KernelBinary* i) { ++i->grid; }, [](KernelBinary* i) { i->shared = 16; },
      [](KernelBinary* i) { i->waits = true; }, [](KernelBinary* i) { i->digest = 0; }};
  for (const auto& alter : kAlterations) {
    TinyPlan tiny;
    FakeGpu gpu(&tiny.data);
    CodeModule module = tiny.data.modules[0];
    std::vector<KernelBinary> binaries(module.binaries.begin(), module.binaries.end());
    alter(&binaries[1]);
    module.binaries = binaries;
    tiny.data.modules = Span<const CodeModule>(&module, 1);
    FakeSession s;
    const Status status = s.Open(tiny.data, tiny.weight_bytes());
    EXPECT_SAYS(status, "kernel 1 \"");
    EXPECT_SAYS(status, "digest");
    EXPECT_EQ(status.code(), Code::kCorrupt);
  }
}

// What a function of PTX needs is known only after NVIDIA's driver has compiled it.
TEST_F(CudaFaults, CompiledPtxIsComparedWithItsLaunch) {
  for (const bool fits : {true, false}) {
    fake_cuda::Machine machine;
    machine.function_threads = fits ? 256 : 128;
    fake_cuda::SetMachine(machine);
    TinyPlan tiny;
    FakeGpu gpu(&tiny.data, "compute_80");
    FakeSession s;
    const Status status = s.Open(tiny.data, tiny.weight_bytes());
    EXPECT_EQ(status.ok(), fits) << status.message();
    if (!fits) EXPECT_SAYS(status, "256 threads a block are launched; it is made for at most 128");
    s.Close();
  }
  fake_cuda::SetMachine({});
}

// ------------------------------------------------------------------------------ weights

TEST_F(CudaFaults, SyntheticWeightsAreTheHostsWithAndWithoutTheKernel) {
  for (bool kernel : {true, false}) {
    TinyPlan tiny;
    FakeGpu gpu(&tiny.data);
    if (!kernel) fake_cuda::RemoveKernel("rondo_synthetic");
    Driver* driver = CreateCudaDriver().Take();
    Device* device = driver->Open(0).Take();
    Stream* stream = device->CreateStream().Take();
    for (int type = 0; type < kNumDTypes; ++type) {
      const auto dtype = static_cast<DType>(type);
      const uint64_t elements = 1001, bytes = elements * static_cast<uint64_t>(ByteSize(dtype));
      std::vector<uint8_t> expected(bytes), got(bytes);
      FillSyntheticRange(dtype, 42, 0.3f, 0, elements, expected.data());
      const DeviceAddress to = device->Allocate(bytes, 256).Take();
      uint32_t step = 0;
      ASSERT_TRUE(device->FillSynthetic(to, dtype, elements, 42, 0.3f, stream).ok());
      ASSERT_TRUE(device->CopyOut(got.data(), to, bytes, stream).ok());
      ASSERT_TRUE(device->Synchronize(stream, &step).ok());
      EXPECT_EQ(got, expected) << Name(dtype);
      device->Free(to, bytes);
    }
    device->DestroyStream(stream);
    DestroyCudaDriver(driver);
  }
}

TEST_F(CudaFaults, LargeWeightsGoThroughPageLockedMemoryThatIsGivenBack) {
  TinyPlan tiny;
  std::vector<Buffer> buffers(tiny.data.buffers.begin(), tiny.data.buffers.end());
  Buffer large;
  large.kind = BufferKind::kConstant;
  large.bytes = (33 << 20) + 12345;
  buffers.push_back(large);
  PlanData data = tiny.data;
  data.buffers = buffers;
  FakeGpu gpu(&data);
  Driver* driver = CreateCudaDriver().Take();
  Device* device = driver->Open(0).Take();
  Stream* stream = device->CreateStream().Take();
  const int64_t held = fake_cuda::Held().host_blocks;
  ::rondo::Module* module = device->LoadModule(data).Take();
  EXPECT_EQ(fake_cuda::Held().host_blocks, held + 1);
  std::vector<uint8_t> bytes(large.bytes), got(large.bytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(SyntheticMix(i));
  const DeviceAddress to = device->Allocate(large.bytes, 256).Take();
  uint32_t step = 0;
  for (int i = 0; i < 2; ++i) {
    const Status copied = device->CopyIn(to, bytes.data(), bytes.size(), stream);
    ASSERT_TRUE(copied.ok()) << copied.message();
  }
  ASSERT_TRUE(device->Synchronize(stream, &step).ok());
  EXPECT_EQ(fake_cuda::Held().host_blocks, held);
  ASSERT_TRUE(device->CopyOut(got.data(), to, got.size(), stream).ok());
  ASSERT_TRUE(device->Synchronize(stream, &step).ok());
  EXPECT_EQ(got, bytes);
  device->Free(to, large.bytes);
  device->DestroyModule(module);
  device->DestroyStream(stream);
  DestroyCudaDriver(driver);
}

// ------------------------------------------------------------------------------ every call fails once

class CudaWalk : public CudaFaults {
 protected:
  // Opens a session, runs every program, and returns all outputs.
  Status Life(std::vector<uint8_t>* results) {
    FakeSession s;
    RONDO_RETURN_IF_ERROR(s.Open(*data_, weights_, ops_));
    for (uint32_t p = 0; p < data_->programs.size(); ++p) {
      Tensors t(*data_, p);
      RONDO_RETURN_IF_ERROR(s.sessions[0].Run(p, t.inputs, t.outputs));
      for (const auto& bytes : t.bytes) results->insert(results->end(), bytes.begin(), bytes.end());
      RunOptions options;
      options.stepwise = true;
      RONDO_RETURN_IF_ERROR(s.sessions[0].Run(p, t.inputs, t.outputs, options));
    }
    return Status::Ok();
  }

  // Fails every `stride`-th call in turn.
  void Walk(const char* what, PlanData* data, Span<const uint8_t> weights, const OpRegistry* ops,
            uint64_t stride) {
    FakeGpu gpu(data);
    data_ = data;
    weights_ = weights;
    ops_ = ops;
    std::vector<uint8_t> expected;
    const Status good = Life(&expected);
    ASSERT_TRUE(good.ok()) << good.message();
    uint64_t points = 0, harmless = 0;
    for (int error : {kUnknown, kIllegalAddress}) {
      for (uint64_t point = 0;; point += stride) {
        std::vector<uint8_t> results;
        fake_cuda::Arm(point, error);
        const Status status = Life(&results);
        const fake_cuda::Count count = fake_cuda::Disarm();
        fake_cuda::Heal();
        ASSERT_EQ(fake_cuda::Held(), fake_cuda::Balance())
            << what << ": " << count.failed << ", call " << point;
        if (!count.fired) {
          EXPECT_TRUE(status.ok()) << status.message();
          break;
        }
        ++points;
        if (status.ok()) {
          ++harmless;
          EXPECT_EQ(results, expected) << what << ": " << count.failed << ", call " << point;
          continue;
        }
        EXPECT_NE(std::string(status.message()).find("(" + std::to_string(error) + ")"), std::string::npos)
            << what << ": " << count.failed << ", call " << point << ": " << status.message();
        EXPECT_FALSE(NamesAStepTwice(status.message())) << status.message();
      }
      std::vector<uint8_t> after;
      ASSERT_TRUE(Life(&after).ok()) << what;
      EXPECT_EQ(after, expected);
    }
    std::printf("%-12s %llu calls failed, %llu of them harmless\n", what,
                static_cast<unsigned long long>(points), static_cast<unsigned long long>(harmless));
    EXPECT_LE(harmless, points / 20) << what << ": failures go unnoticed";
  }

  const PlanData* data_ = nullptr;
  Span<const uint8_t> weights_;
  const OpRegistry* ops_ = nullptr;
};

TEST_F(CudaWalk, Kernels) {
  TinyPlan tiny(true);
  Walk("kernels", &tiny.data, tiny.weight_bytes(), nullptr, 1);
}

TEST_F(CudaWalk, SyntheticWeights) {
  TinyPlan tiny(false, true);
  Walk("synthetic", &tiny.data, {}, nullptr, 1);
}

TEST_F(CudaWalk, CustomOps) {
  OpRegistry ops;
  ASSERT_TRUE(ops.Register("libtest.so", RegisterTestOps).ok());
  Sample sample = MakeCallSample();
  CallOutsideGraphs(&sample.data, sample.arena);
  Walk("custom ops", &sample.data, {}, &ops, 1);
}

TEST_F(CudaWalk, AModel) {
  CompileOptions options;
  options.models = {{"main", DataPath("pycoder/decode.onnx")}};
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const std::vector<uint8_t> weights = AssembleWeights(*compiled);
  PlanData data = compiled->plan;
  Walk("pycoder", &data, weights, nullptr, 1);
}

// ------------------------------------------------------------------------------ machines that lack something

}  // namespace
}  // namespace rondo
