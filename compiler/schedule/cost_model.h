// CostModel: how long steps take, by estimate: what schedules of collectives are compared with. A function of
// the target and the number of devices, and so the same for every device of a plan.
#ifndef RONDO_COMPILER_SCHEDULE_COST_MODEL_H_
#define RONDO_COMPILER_SCHEDULE_COST_MODEL_H_

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/targets.h"
#include "core/span.h"

namespace rondo {

// An all-reduce of so many bytes among 2 and among 8 devices.
struct AllReduceTime {
  double bytes, us2, us8;
};

// A plain value; all times in microseconds.
struct CostModel {
  double start = 0;                       // of a kernel, beside its work
  double memory = 1;                      // bytes a microsecond
  double narrow = 1;                      // operations a microsecond, of factors of 16 bits
  double wide = 1;                        // of others
  Span<const AllReduceTime> all_reduces;  // ascending in bytes
  uint32_t devices = 1;                   // of the program

  // Of one round, if it repeats. Of a collective's start, what the collective takes; of its wait, nothing.
  double OpTime(const LoweredProgram& program, const LoweredOp& op) const;
  // Of a collective alone on the box. Between sizes and numbers of devices of the table, in proportion;
  // others move half of what an all-reduce of the whole does.
  double CollectiveTime(const LoweredCollective& collective) const;
};

// Measured on H200 (kernels: bytes and operations as compiler/codegen/cuda/gpu_table.h has them; collectives:
// NCCL 2.28 in graphs); other GPUs are taken for one. The host: one core of a server, collectives by a thread
// of each device.
CostModel CostModelOf(const Target& target, uint32_t devices);

// By op: OpTime, times its rounds.
std::vector<double> OpTimes(const CostModel& model, const LoweredProgram& program);

}  // namespace rondo

#endif  // RONDO_COMPILER_SCHEDULE_COST_MODEL_H_
