// The CUDA driver API, opened at run time: one binary starts on machines with and without it.
//
// Types and functions are declared here as in cuda.h of CUDA 12 and 13, so that building needs no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

struct CUstream_st;

namespace rondo::cuda {

using Error = int;  // CUresult; 0 is success
using DeviceId = int;
using Context = struct CUctx_st*;
using ModuleHandle = struct CUmod_st*;
using Function = struct CUfunc_st*;
using StreamHandle = ::CUstream_st*;
using EventHandle = struct CUevent_st*;
using GraphHandle = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
using NodeHandle = struct CUgraphNode_st*;
using Address = unsigned long long;

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id = 0;
  int padding = 0;
  union {
    char bytes[64] = {};
    int number;
  };
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned num_attributes = 0;
};

// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNodeParams {
  Function function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** params = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;
};
// CUDA_MEMCPY3D_v2, of device memory.
struct CopyEnd {
  size_t x = 0, y = 0, z = 0, level = 0;
  int memory_type = 2;  // CU_MEMORYTYPE_DEVICE
  void* host = nullptr;
  Address device = 0;
  void* array = nullptr;
  void* reserved = nullptr;
  size_t pitch = 0, height = 0;
};
struct CopyNodeParams {
  CopyEnd from, to;
  size_t width = 0, height = 1, depth = 1;
};

// CUtensorMap: a tensor of which TMA copies boxes. CUDA 12 aligns it to 64 bytes, CUDA 13 to 128.
struct alignas(128) EncodedMap {
  uint64_t words[16] = {};
};

struct Api {
  Error (*init)(unsigned flags);
  Error (*driver_version)(int* version);
  Error (*error_string)(Error error, const char** text);
  Error (*device_count)(int* count);
  Error (*device_get)(DeviceId* device, int ordinal);
  Error (*device_attribute)(int* value, int attribute, DeviceId device);
  Error (*device_name)(char* name, int length, DeviceId device);
  Error (*can_access_peer)(int* can, DeviceId from, DeviceId to);
  // Access from the current context.
  Error (*enable_peer)(Context to, unsigned flags);
  Error (*context_retain)(Context* context, DeviceId device);
  Error (*context_release)(DeviceId device);
  Error (*context_push)(Context context);
  Error (*context_pop)(Context* context);
  Error (*memory_info)(size_t* free_bytes, size_t* total_bytes);
  Error (*allocate)(Address* address, size_t bytes);
  Error (*release)(Address address);
  Error (*host_allocate)(void** memory, size_t bytes, unsigned flags);
  Error (*host_release)(void* memory);
  // Writes the requested attributes of `memory` to *values, 0 where CUDA does not know it.
  Error (*pointer_attributes)(unsigned count, int* attributes, void** values, Address memory);
  Error (*copy_in)(Address to, const void* from, size_t bytes, StreamHandle stream);
  Error (*copy_out)(void* to, Address from, size_t bytes, StreamHandle stream);
  Error (*copy)(Address to, Address from, size_t bytes, StreamHandle stream);
  Error (*fill)(Address to, unsigned char byte, size_t bytes, StreamHandle stream);
  Error (*module_load)(ModuleHandle* module, const void* image);
  Error (*module_load_logged)(ModuleHandle* module, const void* image, unsigned count, int* options,
                              void** values);
  Error (*module_unload)(ModuleHandle module);
  Error (*module_function)(Function* function, ModuleHandle module, const char* name);
  Error (*function_attribute)(Function function, int attribute, int value);
  Error (*function_info)(int* value, int attribute, Function function);
  Error (*stream_create)(StreamHandle* stream, unsigned flags);
  Error (*stream_destroy)(StreamHandle stream);
  Error (*stream_synchronize)(StreamHandle stream);
  Error (*stream_wait)(StreamHandle stream, EventHandle event, unsigned flags);
  Error (*write_value)(StreamHandle stream, Address to, uint32_t value, unsigned flags);
  Error (*event_create)(EventHandle* event, unsigned flags);
  Error (*event_destroy)(EventHandle event);
  Error (*event_record)(EventHandle event, StreamHandle stream, unsigned flags);
  Error (*event_synchronize)(EventHandle event);
  Error (*event_elapsed)(float* milliseconds, EventHandle from, EventHandle to);
  Error (*capture_begin)(StreamHandle stream, int mode);
  Error (*capture_end)(StreamHandle stream, GraphHandle* graph);
  Error (*graph_instantiate)(GraphExec* exec, GraphHandle graph, unsigned long long flags);
  Error (*graph_upload)(GraphExec exec, StreamHandle stream);
  Error (*graph_launch)(GraphExec exec, StreamHandle stream);
  Error (*graph_exec_destroy)(GraphExec exec);
  Error (*graph_destroy)(GraphHandle graph);
  Error (*launch)(const LaunchConfig* config, Function function, void** params, void** extra);
  Error (*encode_map)(EncodedMap* map, int type, uint32_t rank, void* address, const uint64_t* extents,
                      const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                      int interleave, int swizzle, int promotion, int fill);
  Error (*graph_kernel_params)(GraphExec exec, NodeHandle node, const KernelNodeParams* params);
  Error (*graph_copy_params)(GraphExec exec, NodeHandle node, const CopyNodeParams* params, Context context);
  // Null where the driver is older than CUDA 12.3.
  Error (*capture_info)(StreamHandle stream, int* status, uint64_t* id, GraphHandle* graph,
                        const NodeHandle** nodes, const void** edges, size_t* num_nodes);
};

// Opens libcuda and initialises it, once a process. Errors: kUnsupported when there is no driver, it is too
// old, or it finds no device; the message says which. Thread-safe; the result lives as long as the process.
Result<const Api*> OpenApi();

// Whether `error` ends the context it came from: no call on it works any more in this process.
bool IsFinal(Error error);

// OK, or an error with the call and the driver's message. Out of memory becomes kOutOfMemory.
Status ToStatus(const Api& api, Error error, const char* call);

}  // namespace rondo::cuda
