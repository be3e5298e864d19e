/* The host driver for users of rondo.h: a small library of its own, so that librondo links no driver. */
#ifndef RONDO_DRIVERS_CAPI_RONDO_HOST_H_
#define RONDO_DRIVERS_CAPI_RONDO_HOST_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rondo_driver rondo_driver;

/* A driver that runs plans on CPU threads: `threads` per launch, the caller included (1 to 256), and
 * `devices` virtual devices (1 to 64). Give it to rondo_runtime_create, which takes it over and says what
 * went wrong if it could not be made. NULL only when out of memory. May be called from any thread. */
rondo_driver* rondo_host_driver_create(uint32_t threads, uint32_t devices);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_HOST_H_ */
