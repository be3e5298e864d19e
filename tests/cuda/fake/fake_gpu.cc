#include "tests/cuda/fake/fake_gpu.h"

#include <atomic>

#include "drivers/cuda/cuda_device.h"
#include "formats/machine_code/architecture.h"
#include "formats/machine_code/binary_digest.h"
#include "tests/cuda/fake/fill_kernel.h"
#include "tests/cuda/make_cubin.h"

namespace rondo {
namespace {

constexpr int kIllegalAddress = 700;

}  // namespace

FakeGpu::FakeGpu(PlanData* plan, const char* architecture, uint32_t alignment) : of_(*plan) {
  static std::atomic<int> number{0};
  const int made = number++;
  host_ = CreateHostDriver({}).Take();
  device_ = host_->Open(0).Take();
  stream_ = device_->CreateStream().Take();
  of_.programs = {};
  of_.custom_ops = {};
  module_ = device_->LoadModule(of_).Take();
  for (uint32_t k = 0; k < plan->kernels.size(); ++k) {
    entries_.push_back("fake" + std::to_string(made) + "_" + std::to_string(k));
    binaries_.push_back({entries_.back(), 1});
    assumes_.emplace_back(alignment == 0 ? 0u : plan->kernels[k].num_params, alignment);
    binaries_.back().assumes = assumes_.back();
    std::vector<size_t> params(plan->kernels[k].num_params + 1u,
                               8);  // one more: the address that faults are written to
    params.push_back(4);            // the step's number
    fake_cuda::SetKernel(entries_.back(),
                         {params, [this, k](const std::vector<uint64_t>& values) { return Run(k, values); }});
  }
  fake_cuda::SetKernel(fake_cuda::kFillKernel, fake_cuda::FillKernel());
  code_ = MakeCode(plan->kernels, architecture);
  code_module_.architecture = architecture;
  codes_ = code_;
  code_module_.codes = {&codes_, 1};
  const std::vector<uint64_t> digests = CodeDigests(code_module_);
  for (uint32_t k = 0; k < plan->kernels.size(); ++k)
    binaries_[k].digest = BinaryDigest(plan->kernels[k], code_module_, binaries_[k], digests);
  code_module_.binaries = binaries_;
  plan->modules = Span<const CodeModule>(&code_module_, 1);
}

std::vector<uint8_t> FakeGpu::MakeCode(Span<const Kernel> kernels, const std::string& architecture) const {
  const CodeArchitecture code = *ParseArchitecture(architecture);
  if (code.ptx) {
    std::string text = ".version 9.0\n.target sm_" + std::to_string(code.number) + "\n.address_size 64\n";
    for (size_t k = 0; k < kernels.size(); ++k) {
      text += ".visible .entry " + entries_[k] + "(";
      for (uint32_t p = 0; p <= kernels[k].num_params; ++p)
        text += ".param .u64 p" + std::to_string(p) + ", ";
      text += ".param .u32 step)\n.maxntid 256\n{ ret; }\n";
    }
    return std::vector<uint8_t>(text.c_str(), text.c_str() + text.size() + 1);
  }
  std::vector<CubinFunction> functions;
  for (size_t k = 0; k < kernels.size(); ++k) {
    FunctionNeeds needs;
    needs.params = PassedParams(kernels[k].num_params);
    needs.registers = 32;
    needs.most_threads = 256;
    functions.push_back({entries_[k], needs});
  }
  return MakeCubin(code.number, functions);
}

FakeGpu::~FakeGpu() {
  for (const std::string& entry : entries_) fake_cuda::RemoveKernel(entry);
  fake_cuda::RemoveKernel(fake_cuda::kFillKernel);
  device_->DestroyModule(module_);
  device_->DestroyStream(stream_);
  DestroyHostDriver(host_);
}

int FakeGpu::Run(uint32_t kernel, const std::vector<uint64_t>& params) {
  if (before) {
    if (const int error = before(kernel); error != 0) return error;
  }
  const size_t count = params.size() - 2;
  for (size_t p = 0; p < count; ++p) {
    if (!fake_cuda::IsMemory(params[p])) return kIllegalAddress;
  }
  const auto step = static_cast<uint32_t>(params[count + 1]);
  Status status =
      device_->Launch(module_, kernel, Span<const DeviceAddress>(params.data(), count), stream_, step);
  uint32_t failed = 0;
  if (status.ok()) status = device_->Synchronize(stream_, &failed);
  auto* faults = reinterpret_cast<cuda::FaultRecord*>(params[count]);
  const uint32_t assertion = device_->FailedAssertion(stream_);
  if (assertion != kNone && faults->taken == 0) *faults = {cuda::kAssertFault, step, assertion, 0};
  if (!status.ok() && faults->taken == 0) *faults = {cuda::kIndexFault, step, ~0ull, 1};
  return 0;
}

}  // namespace rondo
