// TorchStore: processes that torchrun has started meet at its key-value store (c10d's TCPStore, of PyTorch
// 2.1 and later), which listens at MASTER_ADDR and MASTER_PORT as long as the job runs.
//
// The protocol is that of torch/csrc/distributed/c10d/TCPStore.cpp: a byte for the command, then numbers in
// the machine's byte order, and texts after their lengths of 64 bits.
#pragma once

#include <cstdint>
#include <memory>

#include "core/status.h"
#include "drivers/processes/processes.h"

namespace rondo {

struct TorchStoreOptions {
  const char* address = nullptr;  // "host:port"
  // Identifies this meeting among all at the same store: the job's number, and how often it was restarted.
  const char* job = "";
  uint32_t rank = 0, size = 1;
  uint64_t timeout_ns = uint64_t{60} * 1000000000;  // of each all_gather
};

class TorchStore {
 public:
  virtual ~TorchStore() = default;
  // Its all_gather may be used while this object lives.
  virtual MeetingPlace place() = 0;
  // Why the last all_gather failed.
  virtual const Status& status() const = 0;
};

// The texts are copied. kAborted when nobody listens there in time.
Result<TorchStore*> ConnectToTorchStore(const TorchStoreOptions& options);

}  // namespace rondo
