// The ranks of a communicator: where they are, what NCCL must be and find before it is asked to connect them,
// and how it is asked. Internal to the drivers.
#pragma once

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "drivers/nccl/nccl_api.h"

namespace rondo::nccl {

// Where a rank is. Several devices of a plan may be one GPU, each a rank of its own.
struct RankPlace {
  uint32_t device = 0;   // the GPU's number in its process
  uint32_t share = 0;    // its number among the devices of the plan that are this GPU
  uint32_t process = 0;  // of those that run the plan together
  uint64_t gpu = 0;      // tells GPUs of several processes apart, on whatever machine; 0: not known
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// Whether NCCL may be asked to connect `ranks`: it crashes on some of what it cannot do, and some of what it
// needs is in the environment, which is the program's and not a library's to change. kUnsupported: this NCCL
// cannot; kFailedPrecondition: the program has not said what it wants. Thread-safe.
Status CheckGroup(const Api& api, Span<const RankPlace> ranks);
// The same of a group that may never be connected.
Status CanConnect(const Api& api, Span<const RankPlace> ranks);

// How such a communicator is made. Its kernels leave room on a GPU for those of other ranks there.
Config ConfigOf(Span<const RankPlace> ranks);

}  // namespace rondo::nccl
