/* The host driver for users of rondo.h: a small library of its own, so that librondo links no driver. */
#ifndef RONDO_DRIVERS_CAPI_RONDO_HOST_H_
#define RONDO_DRIVERS_CAPI_RONDO_HOST_H_

#include <stddef.h>
#include <stdint.h>

#include "drivers/capi/rondo_processes.h"

#if defined(__GNUC__)
#define RONDO_HOST_API __attribute__((visibility("default")))
#else
#define RONDO_HOST_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RONDO_DRIVER_DECLARED /* rondo.h has it as well */
#define RONDO_DRIVER_DECLARED
typedef struct rondo_driver rondo_driver;
#endif

/* A driver that runs plans on CPU threads: `threads` per launch, the caller included (1 to 256; 0: 1), and
 * `devices` virtual devices (1 to 64; 0: 1). Give it to rondo_runtime_create, which takes it over, and
 * returns an error if it could not be made. NULL only when out of memory. May be called from any thread. */
RONDO_HOST_API rondo_driver* rondo_host_driver_create(uint32_t threads, uint32_t devices);

/* Begins with its size and grows at the end, like the structs of rondo.h. 0 and NULL mean the default. */
typedef struct rondo_host_options {
  size_t size;      /* sizeof(rondo_host_options) */
  uint32_t threads; /* of a launch, the caller included; 0: 1 */
  uint32_t devices; /* virtual devices; 0: 1 */
  /* Device memory, as a rondo_allocator: both functions or none. Default: the system's allocator. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*deallocate)(void* user, void* block, size_t bytes);
  void* allocator_user;
  /* Threads, as rondo_thread_hooks: both functions or none. Default: POSIX threads with signals blocked. */
  int (*start_thread)(void* user, void* (*entry)(void*), void* argument, void** thread);
  void (*join_thread)(void* user, void* thread);
  void* thread_user;
  /* Shared libraries of custom ops (rondo_op.h) that plans may call, by path: opened when the driver is made,
   * closed when it is destroyed. The paths are not kept. */
  const char* const* op_libraries;
  size_t num_op_libraries;
  /* Other processes that run plans together with this one, which then has one device; NULL: none. Not kept.
   */
  const rondo_processes* processes;
} rondo_host_options;

/* The same with more options. `options` may be NULL. */
RONDO_HOST_API rondo_driver* rondo_host_driver_create_with(const rondo_host_options* options);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_HOST_H_ */
