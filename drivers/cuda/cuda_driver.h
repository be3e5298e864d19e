// The `cuda` driver: plans on NVIDIA GPUs, through the driver API.
//
// One primary context for each device, held from the first Open until the driver is destroyed, and pushed for
// the duration of each call: a caller's own current context never changes. Graphs are captured from a stream,
// and instantiated and uploaded in EndRecord. Threads: as in core/driver.h.
#pragma once

#include <string>
#include <string_view>

#include "core/custom_op.h"
#include "core/driver.h"
#include "core/status.h"
#include "core/threads.h"
#include "drivers/processes/processes.h"

namespace rondo {

// The implementation of collectives.
enum class CollectiveKernels : uint8_t {
  kNccl,
  kSmall,  // the driver's own kernels over peer memory for everything they support
           // (drivers/cuda/peer_collectives); otherwise NCCL
  kFused,  // the same; in addition, an all-reduce with the residual and norm behind it is one kernel wherever
           // possible, not only where that is faster
  kAuto,   // for each collective, the one with the lower estimate; NCCL where GPUs cannot access each other's
           // memory, and between processes; small kernels where NCCL is not available
};

// Parses "nccl", "small", "fused" or "auto"; kInvalidArgument otherwise.
Result<CollectiveKernels> ParseCollectiveKernels(std::string_view name);

// A measured limit for one kind of collective: small kernels are faster than NCCL up to this many bytes
// (SyncPoint::bytes); 0: never.
struct SmallUpTo {
  CollectiveOp op = CollectiveOp::kAllReduce;
  uint32_t ranks = 2;
  uint64_t bytes = 0;
};

struct CudaOptions {
  // Folders, separated by ':', in which libraries (NCCL, cuBLASLt) are searched before the system's places.
  // Need not outlive the call.
  const char* library_path = nullptr;
  // How long GPUs may take to connect for collectives before the session is refused.
  double connect_seconds = 120;
  // The processes that run plans together with this one; must outlive the driver. Null: this process alone.
  Processes* processes = nullptr;
  CollectiveKernels collectives = CollectiveKernels::kAuto;
  // With kAuto: used instead of an estimate if every rank has its own GPU. The same in all processes; copied.
  Span<const SmallUpTo> small_up_to = {};
  // How long a rank of a small collective waits for another before its run fails.
  double collective_seconds = 60;
  // Custom ops that plans may call: on the GPU if they have `enqueue`, otherwise on the host between graphs.
  // Must outlive the driver. Null: plans with custom ops are refused.
  const OpRegistry* ops = nullptr;
  // Starts the threads that copy large weights and large tensors of runs (at most 3 for each device), and
  // those that end communicators (one for each rank).
  ThreadHooks thread_hooks = DefaultThreadHooks();
};

// Errors: kUnsupported when the machine has no NVIDIA driver, too old a one, or no device. Without NCCL only
// plans with collectives are refused, without cuBLASLt only those that use it (Supports says so).
Result<Driver*> CreateCudaDriver(const CudaOptions& options = {});
void DestroyCudaDriver(Driver* driver);

// The version of the opened NCCL in NCCL's own numbers (23102: 2.31.2); 0: none.
int CudaNcclVersion(Driver* driver);

// The name of a device that this driver opened: "NVIDIA H200".
const char* CudaDeviceName(Device* device);

// The code of the plan that such a device runs, and why not the others: "sm_90a (sm_80 is machine code for
// compute capabilities 8.0 to 8.9)"; "" if it can run none.
std::string CudaCodeChoice(Device* device, const PlanData& plan);

}  // namespace rondo
