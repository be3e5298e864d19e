// What a GPU gives for a plan, by estimate: more than the plan's blocks have bytes, because it gives memory
// in large steps and takes some for code and graphs.
#ifndef RONDO_FORMATS_PLAN_DEVICE_MEMORY_H_
#define RONDO_FORMATS_PLAN_DEVICE_MEMORY_H_

#include "core/plan.h"

namespace rondo {

// Bytes of one device, all 0 for a plan without machine code. What CUDA itself takes when a process begins to
// use a device (several hundred MiB, whatever is run then) is not among them.
struct DeviceMemory {
  uint64_t code = 0;           // of the largest of the plan's modules, of which one is loaded
  uint64_t graphs = 0;         // of one session
  uint64_t first_session = 0;  // weights, code, communicators, and one session: arena, state and graphs
  uint64_t each_session = 0;   // one more of the same plan
};

// The steps, and what code and graphs take beyond their bytes, are what cuMemGetInfo showed around each call
// on an H200 (tools/bench/session_scaling.cc). `device` must exist.
DeviceMemory EstimateDeviceMemory(const PlanData& plan, uint32_t device);

}  // namespace rondo

#endif  // RONDO_FORMATS_PLAN_DEVICE_MEMORY_H_
