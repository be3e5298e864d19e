#include "drivers/cuda/peer_collectives/small_kernels.h"

#include <cstring>

#include "core/list.h"
#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/cuda/peer_collectives/kernels_text.h"

namespace rondo::cuda {
namespace {

// By SmallKernel. kNone's entry is the probe, the last one the note's.
constexpr const char* kNames[] = {"rondo_small_probe",      "rondo_small_one_shot",
                                  "rondo_small_two_shot",   "rondo_small_reduce_scatter",
                                  "rondo_small_all_gather", "rondo_small_note"};
constexpr const char* kNormNames[kSmallNorms] = {
    "rondo_small_norm_f32_2",  "rondo_small_norm_f32_4",  "rondo_small_norm_f32_8",
    "rondo_small_norm_f16_2",  "rondo_small_norm_f16_4",  "rondo_small_norm_f16_8",
    "rondo_small_norm_bf16_2", "rondo_small_norm_bf16_4", "rondo_small_norm_bf16_8"};

}  // namespace

void MakeWait(char* text) {
  constexpr char kTarget[] = ".target sm_80", kMark[] = "//+90";
  if (char* target = std::strstr(text, kTarget); target != nullptr) target[sizeof(kTarget) - 3] = '9';
  for (char* mark = text; (mark = std::strstr(mark, kMark)) != nullptr;)
    std::memset(mark, ' ', sizeof(kMark) - 1);
}

bool SmallKernels::CanWait() const { return device_.major() >= 9; }

Status SmallKernels::Load(size_t which) {
  std::lock_guard<std::mutex> lock(mutex_);
  Text& text = texts_[which];
  if (!text.tried) text.failed = LoadText(which, &text.module);
  text.tried = true;
  return text.failed;
}

Status SmallKernels::LoadText(size_t which, ModuleHandle* module) {
  const char* const source = which == kPlain ? kSmallKernelsText : kSmallNormTexts[which - kNorms];
  const Api& api = device_.api();
  GrowingList<char> text(source, std::strlen(source) + 1);
  if (!text.ok()) return Status::Error(Code::kOutOfMemory, "no host memory for the small collectives");
  if (CanWait()) MakeWait(text.data());
  CudaDevice::Use use(device_);
  RONDO_RETURN_IF_ERROR(device_.LoadCode(module, text.data(), "compiling the small collectives"));
  if (which != kPlain) {
    const char* const name = kNormNames[which - kNorms];
    return device_.Check(api.module_function(&norms_[which - kNorms], *module, name), name);
  }
  for (size_t i = 0; i < kKernels; ++i) {
    RONDO_RETURN_IF_ERROR(device_.Check(api.module_function(&functions_[i], *module, kNames[i]), kNames[i]));
  }
  return Status::Ok();
}

void SmallKernels::Unload() {
  CudaDevice::Use use(device_);
  for (Text& text : texts_) {
    if (text.module != nullptr) device_.api().module_unload(text.module);
  }
}

Status SmallKernels::Enqueue(SmallKernel kernel, uint32_t blocks, small::Group group, small::Call call,
                             const small::Norm* norm, bool after_kernel, StreamHandle stream) {
  small::Norm with = norm != nullptr ? *norm : small::Norm();
  void* params[] = {&group, &call, &with};  // only norms read the last one
  LaunchAttribute dependent;
  dependent.id = kDependentLaunch;
  dependent.number = 1;
  LaunchConfig config;
  config.attributes = &dependent;
  config.num_attributes = after_kernel && CanWait() ? 1 : 0;
  config.grid[0] = blocks;
  config.block[0] = norm != nullptr ? uint32_t{small::kNormThreads} : kThreads;
  config.stream = stream;
  const Function function =
      norm != nullptr ? norms_[NormOf(call.element, group.ranks)] : functions_[static_cast<size_t>(kernel)];
  return device_.Check(device_.api().launch(&config, function, params, nullptr), "launching a collective");
}

Status SmallKernels::EnqueueProbe(Address to, uint64_t seed, uint32_t count, StreamHandle stream) {
  void* params[] = {&to, &seed, &count};
  LaunchConfig config;
  config.grid[0] = (count + kThreads - 1) / kThreads;
  config.block[0] = kThreads;
  config.stream = stream;
  return device_.Check(device_.api().launch(&config, functions_[0], params, nullptr), "launching a kernel");
}

Status SmallKernels::EnqueueNote(uint32_t* to, StreamHandle stream) {
  void* params[] = {&to};
  LaunchConfig config;
  config.stream = stream;
  return device_.Check(device_.api().launch(&config, functions_[kKernels - 1], params, nullptr),
                       "launching a kernel");
}

}  // namespace rondo::cuda
