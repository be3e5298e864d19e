// CublasLtOpening: opens cuBLASLt on a thread of its own. Internal to drivers/cuda.
#pragma once

#include <mutex>

#include "core/threads.h"
#include "drivers/cuda/cublaslt_api.h"

namespace rondo::cuda {

// The library has hundreds of megabytes, and opening it takes some 60 ms. A driver has one of these, so that
// a plan's library is opened while its GPU is started. Thread-safe.
class CublasLtOpening {
 public:
  explicit CublasLtOpening(const ThreadHooks& hooks) : hooks_(hooks) {}
  ~CublasLtOpening() { Join(); }
  CublasLtOpening(const CublasLtOpening&) = delete;
  CublasLtOpening& operator=(const CublasLtOpening&) = delete;

  // As for cublaslt::OpenApi; it must outlive this object. Call it before the others.
  void SetPath(const char* library_path) { library_path_ = library_path; }
  // Returns at once. Without a thread, Wait opens the library.
  void Begin();
  // The open library, or the error of cublaslt::OpenApi.
  Result<const cublaslt::Api*> Wait();

 private:
  void Join();

  const ThreadHooks hooks_;
  const char* library_path_ = "";
  std::mutex mutex_;  // guards what follows
  void* thread_ = nullptr;
  bool runs_ = false, is_open_ = false;
};

}  // namespace rondo::cuda
