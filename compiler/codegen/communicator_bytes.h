// CommunicatorBytes: estimates the GPU memory that NCCL needs for a plan's collectives.
#pragma once

#include <cstdint>

#include "core/plan.h"
#include "core/span.h"

namespace rondo {

// An estimate, for a plan's requirements: NCCL does not say in advance how much memory it takes. With NCCL
// 2.28 on two H200, the first communicator of a process takes 868 MiB of each device, its kernels included,
// and each further group of devices 486 MiB; a session's communicators over the same devices are one.
inline constexpr uint64_t kNcclKernelBytes = uint64_t{384} << 20;
inline constexpr uint64_t kNcclGroupBytes = uint64_t{512} << 20;

// For `device`, a device of the plan; 0 where it takes part in no collective.
uint64_t CommunicatorBytes(Span<const Program> programs, uint32_t device);

}  // namespace rondo
