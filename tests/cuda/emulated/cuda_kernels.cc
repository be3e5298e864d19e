// Makes the fake libcuda (tests/cuda/fake) run generated kernels: it opens images of the emulated libnvrtc,
// and a SimtMachine runs their launches. Small collectives and the filling of synthetic weights, for which
// the driver has its own PTX, are those of the fakes.
//
// RONDO_EMULATED_ORDER=late selects the other order (simt_machine.h).
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "tests/cuda/emulated/compiled_kernels.h"
#include "tests/cuda/emulated/simt_machine.h"
#include "tests/cuda/fake/fake_cuda.h"
#include "tests/cuda/fake/fake_small.h"
#include "tests/cuda/fake/fill_kernel.h"

namespace rondo::emulated {
namespace {

constexpr int kLaunchFailed = 719;

// Copies of the parameters with the alignment that their types need.
class AlignedParams {
 public:
  AlignedParams(const simt::KernelEntry& kernel, void* const* params) : values_(kernel.param_count) {
    for (size_t k = 0; k < kernel.param_count; ++k) {
      std::memcpy(values_[k].bytes, params[k], kernel.param_bytes[k]);
      addresses_.push_back(values_[k].bytes);
    }
  }
  void* const* addresses() const { return addresses_.data(); }

 private:
  struct alignas(64) Value {
    char bytes[128];
  };
  std::vector<Value> values_;
  std::vector<void*> addresses_;
};

int Launch(const simt::Library& library, const simt::KernelEntry& kernel, uint32_t cluster,
           const fake_cuda::LaunchShape& shape, void* const* params) {
  static std::mutex mutex;
  static SimtMachine* machine = [] {
    const char* order = std::getenv("RONDO_EMULATED_ORDER");
    return new SimtMachine(order != nullptr && std::strcmp(order, "late") == 0 ? Order::kLate
                                                                               : Order::kEarly);
  }();
  const std::lock_guard<std::mutex> lock(mutex);
  LaunchShape launch;
  for (int d = 0; d < 3; ++d) launch.grid[d] = shape.grid[d], launch.block[d] = shape.block[d];
  launch.shared_bytes = shape.shared_bytes;
  launch.cluster = cluster;
  const AlignedParams aligned(kernel, params);
  const std::string failure = machine->Run(library, kernel, launch, aligned.addresses());
  if (failure.empty()) return 0;
  std::fprintf(stderr, "%s\n", failure.c_str());
  return kLaunchFailed;
}

std::map<std::string, fake_cuda::LoadedKernel> Load(const void* image) {
  std::map<std::string, fake_cuda::LoadedKernel> kernels;
  const char* path = PathBehind(image);
  if (path == nullptr) return kernels;
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // stays open: a plan's kernels are few
  const auto* library =
      handle == nullptr ? nullptr : static_cast<const simt::Library*>(dlsym(handle, "simt_library"));
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return kernels;
  }
  for (size_t k = 0; k < library->kernel_count; ++k) {
    const simt::KernelEntry& kernel = library->kernels[k];
    fake_cuda::LoadedKernel loaded;
    loaded.params.assign(kernel.param_bytes, kernel.param_bytes + kernel.param_count);
    loaded.run = [library, &kernel](const fake_cuda::LaunchShape& shape, void* const* params) {
      return Launch(*library, kernel, kernel.cluster, shape, params);
    };
    kernels[kernel.name] = loaded;
  }
  return kernels;
}

const bool set = [] {
  fake_cuda::SetLoader(Load);
  fake_cuda::SetKernel(fake_cuda::kFillKernel, fake_cuda::FillKernel());
  static FakeSmall small;
  return true;
}();

}  // namespace
}  // namespace rondo::emulated
