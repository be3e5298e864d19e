// PeerTable: which GPUs of a driver can write to each other's memory. Internal to drivers/cuda.
#pragma once

#include <memory>
#include <mutex>

#include "core/span.h"
#include "core/status.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// What the NVIDIA driver says of peers is not believed: machines are known where it says yes and writes are
// lost. So one writes as collectives do and the other looks what has come. Each pair is tried once.
// Thread-safe.
class PeerTable {
 public:
  PeerTable() = default;
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  // OK if each of `devices` (several may be one GPU, told apart by their contexts) can write to all others,
  // from now on. kUnsupported: which cannot write to which, and why.
  Status Connect(Span<CudaDevice* const> devices);

 private:
  struct Pair {
    Context from = nullptr, to = nullptr;
    Status status;
    std::unique_ptr<Pair> next;
  };
  // Null: not tried yet.
  const Pair* Find(Context from, Context to) const;
  static Status Try(CudaDevice& from, CudaDevice& to);

  std::mutex mutex_;
  std::unique_ptr<Pair> pairs_;
};

}  // namespace rondo::cuda
