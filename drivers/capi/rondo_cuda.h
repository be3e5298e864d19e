/* The cuda driver for users of rondo.h: a small library of its own, so that librondo links no driver. */
#ifndef RONDO_DRIVERS_CAPI_RONDO_CUDA_H_
#define RONDO_DRIVERS_CAPI_RONDO_CUDA_H_

#include <stddef.h>

#include "drivers/capi/rondo_processes.h"

#if defined(__GNUC__)
#define RONDO_CUDA_API __attribute__((visibility("default")))
#else
#define RONDO_CUDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RONDO_DRIVER_DECLARED /* rondo.h has it as well */
#define RONDO_DRIVER_DECLARED
typedef struct rondo_driver rondo_driver;
#endif

/* A driver that runs plans compiled for NVIDIA GPUs, on all GPUs of the machine. The NVIDIA driver is opened
 * at run time, and so are NCCL and cuBLASLt for plans that need them. `library_path` names folders, separated
 * by ':', in which those two are searched before the system's places (NULL: none; need not outlive the call).
 * Give the result to rondo_runtime_create, which takes it over, and returns an error if it could not be made:
 * no NVIDIA driver, too old a one, no GPU. NULL only when out of memory. May be called from any thread.
 *
 * A program in which several GPUs work together must set NCCL_NVLS_ENABLE in its environment before it makes
 * a session: 0 for no multicast over NVLink, which hangs some machines, or 1. Sessions are refused without
 * it.
 *
 * Several of a plan's devices may be one GPU (rondo_runtime_options.devices = 0, 0, 0, 0): they share its
 * context and its multiprocessors, not their memory. Their collectives need NCCL 2.30 or newer, and
 * NCCL_MULTI_RANK_GPU_ENABLE=1 in the environment when the process first uses NCCL; sessions are refused
 * otherwise. Also set CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts: streams that share a connection wait
 * for each other, and ranks must not.
 *
 * Before NCCL 2.29, NCCL_GRAPH_MIXING_SUPPORT=0 makes collectives in graphs cheaper. Set it only if no other
 * NCCL calls of the program are in flight beside a graph's. From 2.29 on, the driver requests it for its own
 * communicators alone. */
RONDO_CUDA_API rondo_driver* rondo_cuda_driver_create(const char* library_path);

/* Begins with its size and grows at the end, like the structs of rondo.h. 0 and NULL mean the default. */
typedef struct rondo_cuda_options {
  size_t size;              /* sizeof(rondo_cuda_options) */
  const char* library_path; /* as above */
  /* Shared libraries of custom ops (rondo_op.h) that plans may call, by path: opened when the driver is made,
   * closed when it is destroyed. They run on the host, between graphs. The paths are not kept. */
  const char* const* op_libraries;
  size_t num_op_libraries;
  /* Starts threads, as rondo_thread_hooks: both functions or none. They copy weights while a session is made,
   * and large tensors of runs from and to pageable memory (at most 3 for each device, otherwise asleep);
   * there is also one for each rank of a communicator (asleep until it ends). Default: POSIX threads with
   * signals blocked. */
  int (*start_thread)(void* user, void* (*entry)(void*), void* argument, void** thread);
  void (*join_thread)(void* user, void* thread);
  void* thread_user;
  /* Other processes that run plans together with this one; NULL: none. Not kept. */
  const rondo_processes* processes;
  /* The implementation of collectives: "nccl"; "small" (the driver's own kernels over peer memory, for
   * everything they support); "fused" (the same, together with norms that follow); or "auto" (also by NULL:
   * the one with the lower estimated time; NCCL between processes). Not kept. */
  const char* collectives;
} rondo_cuda_options;

/* The same with more options. `options` may be NULL. */
RONDO_CUDA_API rondo_driver* rondo_cuda_driver_create_with(const rondo_cuda_options* options);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_CUDA_H_ */
