// Matmuls by cuBLASLt against the host driver, over canaried memory. Compiled everywhere; without a GPU, or
// without the library, the comparison is skipped.
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "compiler/codegen/cuda/add_modules.h"
#include "compiler/codegen/cuda/matmul/library_matmul.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/host/host_driver.h"
#include "formats/plan/verifier.h"
#include "tests/cuda/matmul_kernel.h"
#include "tools/rondo/kernel_check.h"

namespace rondo::test {
namespace {

// A plan with one step for each matmul, each with its own memory.
class MatmulPlan {
 public:
  void Add(const MatmulKernel& kernel) {
    kernels_.push_back(kernel.kernel());
    Kernel& k = kernels_.back();
    const std::optional<LibraryMatmul> matmul = LibraryMatmulOf(k);
    ASSERT_TRUE(matmul.has_value()) << kernel.text();
    emitted_.library.push_back(LibraryMatmul().algorithm);
    names_.push_back(kernel.text());
    k.name = names_.back();
    k.workspace_param = k.num_params++;
    k.workspace_bytes = MostWorkspace(*matmul, 90) + kWorkspaceSlack;
    std::vector<Binding> bindings;
    for (size_t p = 0; p < kernel.bytes().size(); ++p)
      Bind(kernel.bytes()[p], BufferKind::kTemporary, &bindings);
    Bind(k.workspace_bytes, BufferKind::kWorkspace, &bindings);
    Step step;
    step.kernel = static_cast<uint32_t>(kernels_.size() - 1);
    step.bindings = emitted_.arena->Copy(bindings);
    steps_.push_back(step);
  }

  void Run() {
    program_.name = "main";
    program_.steps = steps_;
    Partition all;
    all.num_steps = static_cast<uint32_t>(steps_.size());
    program_.partitions = Span<const Partition>(&all, 1);
    program_.arena_bytes = program_.arena_lower_bound = device_.arena;
    device_.workspace = device_.arena;
    emitted_.plan.requirements.devices = Span<const DeviceBytes>(&device_, 1);
    emitted_.plan.kernels = kernels_;
    emitted_.plan.buffers = buffers_;
    emitted_.plan.programs = Span<const Program>(&program_, 1);
    std::string report;
    ModuleOptions options;
    options.units.architecture = "sm_90a";
    Status status = AddCudaModules(&emitted_, options, &report);
    if (status.code() == Code::kUnsupported) GTEST_SKIP() << status.message();
    ASSERT_TRUE(status.ok()) << status.message();
    status = VerifyPlan(emitted_.plan);
    ASSERT_TRUE(status.ok()) << status.message();
    Result<Driver*> driver = CreateCudaDriver();
    if (!driver.ok()) GTEST_SKIP() << "compiled, not run: " << driver.status().message();
    status = (*driver)->Supports(emitted_.plan);
    if (status.ok()) Compare(*driver);
    DestroyCudaDriver(*driver);
    if (!status.ok()) GTEST_SKIP() << "compiled, not run: " << status.message();
  }

 private:
  void Bind(uint64_t bytes, BufferKind kind, std::vector<Binding>* bindings) {
    Buffer buffer;
    buffer.kind = kind;
    buffer.dtype = DType::kU8;
    buffer.program = 0;
    buffer.alignment = 64;
    buffer.bytes = bytes;
    buffer.shape = Shape({static_cast<int64_t>(bytes)});
    buffer.offset = device_.arena;
    device_.arena += (bytes + 63) / 64 * 64;
    bindings->push_back({static_cast<uint32_t>(buffers_.size()), 0});
    buffers_.push_back(buffer);
  }

  void Compare(Driver* driver) {
    Driver* host = CreateHostDriver({}).Take();
    Result<std::vector<tools::KernelVerdict>> verdicts = tools::CheckKernels(emitted_.plan, driver, host, {});
    DestroyHostDriver(host);
    ASSERT_TRUE(verdicts.ok()) << verdicts.status().message();
    for (const tools::KernelVerdict& verdict : *verdicts) {
      for (const std::string& failure : verdict.failures) ADD_FAILURE() << failure;
    }
  }

  EmittedPlan emitted_ = [] {
    EmittedPlan plan;
    plan.arena = std::make_shared<Arena>();
    return plan;
  }();
  std::deque<std::string> names_;
  std::vector<Kernel> kernels_;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  Program program_;
  DeviceBytes device_;
};

TEST(GpuLibrary, ProductsMatchTheHost) {
  std::deque<MatmulKernel> kernels;
  MatmulPlan plan;
  const MatmulSize shapes[] = {
      {1, 512, 1024, 768},    {1, 128, 768, 3072, true},    {1, 77, 136, 264, false, true},
      {3, 64, 96, 128, true}, {4, 40, 48, 80, false, true}, {1, 1, 4096, 512},
      {1, 33, 65, 97},
  };
  for (const MatmulSize& sides : shapes) {
    for (DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
      for (const ProductEnd& end : kProductEnds) {
        kernels.emplace_back(sides, type, type, end);
        plan.Add(kernels.back());
      }
    }
  }
  for (DType type : {DType::kF16, DType::kBF16}) {  // the output keeps sums in f32
    kernels.emplace_back(shapes[0], type, DType::kF32, kProductEnds[0]);
    plan.Add(kernels.back());
    kernels.emplace_back(shapes[1], type, DType::kF32, kProductEnds[1]);
    plan.Add(kernels.back());
  }
  kernels.emplace_back(shapes[0], DType::kF32, DType::kF32, kProductEnds[3], true);
  plan.Add(kernels.back());
  plan.Run();
}

}  // namespace
}  // namespace rondo::test
