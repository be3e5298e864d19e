// How much memory a GPU allocates for a plan. This is more than the bytes of the plan's blocks: it allocates
// in steps (core/device_steps.h), and needs memory for code, graphs and libraries.
#pragma once

#include "core/device_steps.h"
#include "core/plan.h"

namespace rondo {

// Memory that CUDA takes in addition to what it is asked for. tools/bench/device_memory measures a GPU and
// prints its row.
struct DeviceMemoryRates {
  uint64_t code_kibibyte = 0;  // bytes for each 1024 bytes of a plan's machine code
  uint64_t code = 0;           // bytes for each code (a plan's module has several)
  uint64_t code_once = 0;      // bytes for all code together
  uint64_t graph_node = 0;     // bytes for each node of a graph
  uint64_t graph = 0;          // bytes for each graph
  uint64_t stream = 0;         // bytes for each stream
  uint64_t graphs_once = 0;    // bytes for all graphs and streams together
  uint64_t library = 0;        // bytes of cuBLASLt: its handle, its kernels
  uint64_t start = 0;          // bytes that CUDA takes when a process begins to use a device
};
// Of an NVIDIA H200, CUDA 13.0 (tools/bench/results/device-memory.md).
inline constexpr DeviceMemoryRates kDeviceMemoryRates = {.code_kibibyte = 956,
                                                         .code = 0,
                                                         .code_once = 1572864,
                                                         .graph_node = 3016,
                                                         .graph = 52593,
                                                         .stream = 593637,
                                                         .graphs_once = 0,
                                                         .library = 0,
                                                         .start = 548995072};

// The parts of a plan that take memory on one of its devices.
struct DeviceNeeds {
  uint64_t codes = 0,
           code_bytes = 0;  // of the largest of its modules, of which one is loaded; 0: there is none
  bool library = false;     // some kernels use cuBLASLt
  uint64_t graphs = 0, nodes = 0, streams = 0;  // of a session
  uint64_t communicator = 0;                    // bytes, by estimate
  uint64_t weights = 0, session = 0;  // bytes of the block that sessions share, and of each session's
};
// `device` must exist.
DeviceNeeds NeedsOn(const PlanData& plan, uint32_t device);

// Bytes of one device; all 0 for a plan without machine code. Does not include what CUDA itself takes when a
// process begins to use a device (several hundred MiB, whatever runs then).
struct DeviceMemory {
  uint64_t code = 0;
  uint64_t library = 0;
  uint64_t communicator = 0;
  uint64_t weights = 0;        // the block
  uint64_t session = 0;        // the block of each session: arena and state
  uint64_t graphs = 0;         // for each session, its streams included;
  uint64_t graphs_once = 0;    // and once
  uint64_t first_session = 0;  // the sum of all these
  uint64_t each_session = 0;   // one more of the same plan, where there are many: its share of steps, graphs
};

// Exact for blocks; the rest is estimated by `rates`.
DeviceMemory EstimateDeviceMemory(const DeviceNeeds& needs,
                                  const DeviceMemoryRates& rates = kDeviceMemoryRates);
inline DeviceMemory EstimateDeviceMemory(const PlanData& plan, uint32_t device) {
  return EstimateDeviceMemory(NeedsOn(plan, device));
}

// What the device allocates for the blocks of a plan with `sessions` sessions, if it has no other blocks:
// exact.
uint64_t BlockBytes(const DeviceMemory& memory, uint64_t sessions);
// The same for everything.
uint64_t BytesOfSessions(const DeviceMemory& memory, uint64_t sessions);

}  // namespace rondo
