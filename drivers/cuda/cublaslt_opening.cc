#include "drivers/cuda/cublaslt_opening.h"

namespace rondo::cuda {

void CublasLtOpening::Begin() {
  const auto open = [](void* self) -> void* {
    (void)cublaslt::OpenApi(static_cast<CublasLtOpening*>(self)->library_path_);
    return nullptr;
  };
  std::lock_guard<std::mutex> lock(mutex_);
  if (!runs_ && !is_open_) runs_ = hooks_.start(hooks_.user, open, this, &thread_) == 0;
}

Result<const cublaslt::Api*> CublasLtOpening::Wait() {
  std::lock_guard<std::mutex> lock(mutex_);
  Join();
  Result<const cublaslt::Api*> library = cublaslt::OpenApi(library_path_);  // opened once a process
  is_open_ = library.ok();
  return library;
}

void CublasLtOpening::Join() {
  if (runs_) hooks_.join(hooks_.user, thread_);
  runs_ = false;
}

}  // namespace rondo::cuda
