// The `cuda` driver: plans on NVIDIA GPUs, through the driver API.
//
// One primary context a device, held from the first Open until the driver is destroyed and pushed for the
// length of each call: a caller's own current context is never changed. Graphs are captured from a stream and
// instantiated and uploaded in EndRecord. Devices may be used from several threads as core/driver.h says.
#pragma once

#include <string>
#include <string_view>

#include "core/custom_op.h"
#include "core/driver.h"
#include "core/status.h"
#include "core/threads.h"
#include "drivers/processes/processes.h"

namespace rondo {

// Who computes collectives.
enum class CollectiveKernels : uint8_t {
  kNccl,
  kSmall,  // kernels of the driver's own over peer memory, whatever they can do
           // (drivers/cuda/peer_collectives); NCCL the rest
  kFused,  // the same, and an all-reduce, the residual and the norm behind it as one kernel wherever that can
           // be done, not only where it is quicker
  kAuto,   // for each whichever is quicker by estimate; NCCL where GPUs do not reach each other's memory, and
           // between processes; small kernels for all they can do where NCCL cannot be had
};

// Of "nccl", "small", "fused" or "auto". kInvalidArgument: `name` is none of them.
Result<CollectiveKernels> ParseCollectiveKernels(std::string_view name);

// What was measured of a kind of collectives: up to so many bytes (SyncPoint::bytes) small kernels are
// quicker than NCCL; 0: never.
struct SmallUpTo {
  CollectiveOp op = CollectiveOp::kAllReduce;
  uint32_t ranks = 2;
  uint64_t bytes = 0;
};

struct CudaOptions {
  // Folders, separated by ':', in which libraries (NCCL, cuBLASLt) are looked for before the system's places.
  // Need not outlive the call.
  const char* library_path = nullptr;
  // How long GPUs may take to connect for collectives, before the session that asks for it is refused.
  double connect_seconds = 120;
  // Those that run plans together with this one; must outlive the driver. Null: this process alone.
  Processes* processes = nullptr;
  CollectiveKernels collectives = CollectiveKernels::kAuto;
  // With kAuto, instead of an estimate, where no two ranks are of one GPU. The same in all processes; copied.
  Span<const SmallUpTo> small_up_to = {};
  // How long a rank of a small collective waits for another before its run fails.
  double collective_seconds = 60;
  // Custom ops that plans may call, as they enqueue themselves or on the host between graphs; must outlive
  // the driver. Null: plans that call any are refused.
  const OpRegistry* ops = nullptr;
  // Who starts the threads that copy large weights, and large tensors of runs (at most 3 for each device),
  // and those that end communicators (one a rank).
  ThreadHooks thread_hooks = DefaultThreadHooks();
};

// Errors: kUnsupported when the machine has no NVIDIA driver, too old a one, or no device. A missing NCCL
// only keeps plans with collectives from running, a missing cuBLASLt those with products of it: Supports says
// so.
Result<Driver*> CreateCudaDriver(const CudaOptions& options = {});
void DestroyCudaDriver(Driver* driver);

// The NCCL that such a driver has opened, as NCCL numbers itself (23102: 2.31.2); 0: none.
int CudaNcclVersion(Driver* driver);

// "NVIDIA H200": of a device that such a driver opened.
const char* CudaDeviceName(Device* device);

// Which of the plan's code such a device runs, and why not the other: "sm_90a (sm_80 is machine code for
// compute capabilities 8.0 to 8.9)"; "" if it can run none.
std::string CudaCodeChoice(Device* device, const PlanData& plan);

}  // namespace rondo
