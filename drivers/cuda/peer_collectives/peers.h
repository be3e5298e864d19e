// PeerTable: which GPUs of a driver can write to each other's memory. Internal to drivers/cuda.
#pragma once

#include <memory>
#include <mutex>

#include "core/span.h"
#include "core/status.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// Does not rely on the NVIDIA driver's answer about peers, since on some machines it says yes and writes are
// lost. Instead one GPU writes as collectives do, and the result is checked on the other. Each pair is tried
// once. Thread-safe.
class PeerTable {
 public:
  PeerTable() = default;
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  // OK if each of `devices` (several may be one GPU with different contexts) can write to all others, from
  // now on. kUnsupported, with the pair and the reason.
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
