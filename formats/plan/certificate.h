// Order certificates: a digest of the collectives that one device starts, in order.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo {

// Digest (chained xxh3-64) of the collective starts of `device`, in the order of the program's steps: index
// of the sync point, op, dtype, bytes, communicator, participants. Devices that take part in the same sync
// points have the same certificate exactly when they start them in the same order. The compiler stores it in
// Program::certificates, one for each device (none when the program has no sync points). Starts that name no
// sync point of the program are left out.
uint64_t OrderCertificate(const Program& program, uint32_t device);

}  // namespace rondo
