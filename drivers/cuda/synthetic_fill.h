// SyntheticFill: generates the numbers of core/synthetic.h on a GPU. Internal to drivers/cuda.
#pragma once

#include <mutex>

#include "core/dtype.h"
#include "core/status.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// One kernel, stored here as PTX, which the NVIDIA driver compiles at first use, for any device from sm_80
// on. Thread-safe.
class SyntheticFill {
 public:
  explicit SyntheticFill(CudaDevice& device) : device_(device) {}
  SyntheticFill(const SyntheticFill&) = delete;
  SyntheticFill& operator=(const SyntheticFill&) = delete;
  // Unloads the kernel, which must not be running.
  void Unload();

  // Enqueues a fill of `elements` elements at `to` with the weight of `key` and `scale`, bit-identical to
  // FillSyntheticRange. kUnsupported: the NVIDIA driver has no compiler.
  Status Enqueue(Address to, DType dtype, uint64_t elements, uint64_t key, float scale, StreamHandle stream);

 private:
  Status Load();

  CudaDevice& device_;
  std::mutex mutex_;  // guards the rest
  ModuleHandle module_ = nullptr;
  Function function_ = nullptr;
  Status failed_;
};

}  // namespace rondo::cuda
