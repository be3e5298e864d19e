// FakeGpu: lets the cuda driver run a plan on fake_cuda's GPUs. The host driver computes the kernels.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "drivers/host/host_driver.h"
#include "tests/cuda/fake/fake_cuda.h"
#include "tests/cuda/fake/fake_small.h"

namespace rondo {

class FakeGpu {
 public:
  // Gives `plan` a module for `architecture` ("compute_80": of PTX) whose functions run its kernels. `plan`
  // must outlive the FakeGpu. The functions rely on an alignment of `alignment` bytes, if not 0.
  explicit FakeGpu(PlanData* plan, const char* architecture = "sm_90", uint32_t alignment = 0);
  ~FakeGpu();
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  // Called before kernel `kernel` runs. A result other than 0 is the error that ends the context.
  std::function<int(uint32_t kernel)> before;

 private:
  int Run(uint32_t kernel, const std::vector<uint64_t>& params);
  // Makes an ELF image of the functions, or PTX.
  std::vector<uint8_t> MakeCode(Span<const Kernel> kernels, const std::string& architecture) const;

  FakeSmall small_;
  Driver* host_ = nullptr;
  Device* device_ = nullptr;
  Stream* stream_ = nullptr;
  ::rondo::Module* module_ = nullptr;
  PlanData of_;  // the host driver's plan: kernels alone
  std::deque<std::string> entries_;
  std::vector<KernelBinary> binaries_;
  std::deque<std::vector<uint32_t>> assumes_;  // by kernel
  std::vector<uint8_t> code_;
  Span<const uint8_t> codes_;  // one
  CodeModule code_module_;
};

}  // namespace rondo
