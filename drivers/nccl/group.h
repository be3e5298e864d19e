// The ranks of a communicator: their places, the conditions that NCCL and the environment must meet before it
// connects them, and its configuration. Internal to the drivers.
#pragma once

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "drivers/nccl/nccl_api.h"

namespace rondo::nccl {

// The place of a rank. Several devices of a plan may be one GPU, each a rank of its own.
struct RankPlace {
  uint32_t device = 0;   // the GPU's index in its process
  uint32_t share = 0;    // index among the plan's devices on this GPU
  uint32_t process = 0;  // index among the processes that run the plan together
  uint64_t gpu = 0;      // identifies the GPU across processes and machines; 0: unknown
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// Whether NCCL can connect `ranks`. It must be checked here, since NCCL crashes on some unsupported groups,
// and since some settings are in the environment, which only the program may change. kUnsupported: this NCCL
// cannot; kFailedPrecondition: the program has not set the environment. Thread-safe.
Status CheckGroup(const Api& api, Span<const RankPlace> ranks);
// The same for a group that may never be connected.
Status CanConnect(const Api& api, Span<const RankPlace> ranks);

// The configuration of such a communicator. Its kernels leave room on a GPU for those of other ranks there.
Config ConfigOf(Span<const RankPlace> ranks);

}  // namespace rondo::nccl
