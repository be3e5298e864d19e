// CostModel: estimates of how long steps take, for scheduling collectives and for tools that show a plan. It
// depends only on the kind of target, the number of devices and what was measured, so it is the same for
// every device of a plan.
#pragma once

#include <cstdint>
#include <memory>

#include "core/collective_time.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "core/span.h"
#include "formats/plan/measured_times.h"
#include "formats/plan/traffic.h"

namespace rondo {

inline constexpr size_t kSkeletons = 6;

// How fast a machine is. A plain value; microseconds, and bytes and operations a microsecond.
struct MachineRates {
  double run = 0;                  // starting and ending a run, besides its kernels
  double starts[kSkeletons] = {};  // the same for a kernel, by the Skeleton of its most expensive part
  double read = 1, written = 1;    // bytes from and to memory
  double narrow = 1;               // operations on inputs of 16 bits
  double wide = 1;                 // other operations
};

// A plain value; all times in microseconds.
struct CostModel {
  MachineRates machine;
  Span<const AllReduceTime> all_reduces;  // ascending in bytes
  uint32_t devices = 1;                   // of the program
  double taken = 0;  // fraction of the multiprocessors that a collective takes from compute beside it
  // The collectives that kernels over peer memory do, up to the bytes of the last row; empty: none.
  Span<const AllReduceTime> small = {};
  // Measurements, which come before all of the above; null: none.
  std::shared_ptr<const MeasuredTimes> measured = nullptr;
  // The compiler's estimates for kernels, by the way each is computed, if a plan has them; null: none.
  std::shared_ptr<const KernelTimes> estimated = nullptr;

  // One launch of `kernel`, or of a copy of `traffic`'s bytes if that is null. The measured time, if there is
  // one. Otherwise the larger of the memory time of its bytes and `estimate` (0: that of `estimated`); for a
  // kernel without an estimate, the time of its operations counts.
  double KernelTime(const Kernel* kernel, const Traffic& traffic, double estimate = 0) const;
  // The time of its bytes and operations alone, which no kernel can beat on this machine.
  double LeastTime(const Kernel* kernel, const Traffic& traffic) const;
  // A collective with SyncPoint::bytes of `bytes` among `ranks` devices (0: all of the program), alone on the
  // machine. The time measured among that many, if there is one. Otherwise interpolated from the table; ops
  // other than all-reduce move half of what an all-reduce moves.
  double CollectiveTime(CollectiveOp op, int64_t bytes, size_t ranks) const;
  // Whether that time was measured.
  bool IsMeasured(const Kernel& kernel) const;
  bool IsMeasured(CollectiveOp op, int64_t bytes, size_t ranks) const;
  // The measured fraction that collectives take from compute beside them, if there is one; else `taken`.
  double TakenFromCompute() const;
};

// kFaster: by kernels over peer memory where they are faster than NCCL, as the driver does by default.
enum class CollectivesBy : uint8_t { kNccl, kFaster };

// Measured on H200; other GPUs are assumed to be like it. Kernels: the costs of starting and ending, of bytes
// and of operations as in compiler/codegen/cuda/gpu_table.h; bytes as matmuls of few rows read them.
// Collectives: NCCL 2.28 in graphs, and one-shot kernels over peer memory. The host: one core of a server,
// and collectives by one thread for each device.
CostModel CostModelOf(bool gpu, uint32_t devices, CollectivesBy by = CollectivesBy::kFaster);

}  // namespace rondo
