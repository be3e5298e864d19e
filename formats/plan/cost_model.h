// CostModel: how long steps take, by estimate: what schedules of collectives are compared with, and what
// tools show of a plan. A function of the kind of target, the number of devices and what was measured, and so
// the same for every device of a plan.
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

inline constexpr size_t kSkeletons = 5;

// How fast a machine is. A plain value; microseconds, and bytes and operations a microsecond.
struct MachineRates {
  double run = 0;                  // the start and the end of a run, besides its kernels
  double starts[kSkeletons] = {};  // the same of a kernel, by the Skeleton of its most expensive part
  double read = 1, written = 1;    // bytes from and to memory
  double narrow = 1;               // operations, of factors of 16 bits
  double wide = 1;                 // of others
};

// A plain value; all times in microseconds.
struct CostModel {
  MachineRates machine;
  Span<const AllReduceTime> all_reduces;  // ascending in bytes
  uint32_t devices = 1;                   // of the program
  double taken = 0;                       // of the multiprocessors, by a collective beside compute
  // Collectives where kernels over peer memory do them, up to the bytes of the last row; empty: there are
  // none.
  Span<const AllReduceTime> small = {};
  // What is known better than by all of the above; null: nothing.
  std::shared_ptr<const MeasuredTimes> measured = nullptr;
  // What the compiler estimated of kernels by how each is computed, where a plan says so; null: nothing.
  std::shared_ptr<const KernelTimes> estimated = nullptr;

  // One launch of `kernel`, or, if that is null, of what moves the bytes of `traffic`. As measured, or else
  // what memory takes for its bytes, or `estimate` (of 0, what `estimated` has of it), whichever is more. Of
  // a kernel without an estimate: by its operations.
  double KernelTime(const Kernel* kernel, const Traffic& traffic, double estimate = 0) const;
  // A collective with SyncPoint::bytes of `bytes` among `ranks` devices (0: all of the program), alone on the
  // box. As measured among so many, or else by the table: between its sizes and numbers of devices in
  // proportion; others move half of what an all-reduce of the whole does.
  double CollectiveTime(CollectiveOp op, int64_t bytes, size_t ranks) const;
  // Whether that is from a measurement.
  bool IsMeasured(const Kernel& kernel) const;
  bool IsMeasured(CollectiveOp op, int64_t bytes, size_t ranks) const;
};

enum class CollectivesBy : uint8_t { kNccl, kSmallKernels };  // the latter where they are quicker

// Measured on H200 (kernels: what starting and ending, bytes and operations cost as
// compiler/codegen/cuda/gpu_table.h has it; bytes as matmuls of few rows read them; collectives: NCCL 2.28 in
// graphs, and one-shot kernels over peer memory); other GPUs are taken for one. The host: one core of a
// server, collectives by a thread of each device.
CostModel CostModelOf(bool gpu, uint32_t devices, CollectivesBy by = CollectivesBy::kNccl);

}  // namespace rondo
