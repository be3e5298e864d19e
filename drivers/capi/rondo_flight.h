/* The flight recorder for users of rondo.h: a driver around another one, which writes what is asked of each
 * device into a file as it happens, so that a run that hangs, or a process that was killed, can be looked at:
 * `rondo flight FILE`. */
#ifndef RONDO_DRIVERS_CAPI_RONDO_FLIGHT_H_
#define RONDO_DRIVERS_CAPI_RONDO_FLIGHT_H_

#if defined(__GNUC__)
#define RONDO_FLIGHT_API __attribute__((visibility("default")))
#else
#define RONDO_FLIGHT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RONDO_DRIVER_DECLARED /* rondo.h has it as well */
#define RONDO_DRIVER_DECLARED
typedef struct rondo_driver rondo_driver;
#endif

/* Takes `driver` over. The file of 8 MiB at `path` is made anew; it had better lie in memory (/dev/shm), for
 * a page that a disk is writing may keep a run waiting. Give the result to rondo_runtime_create, which says
 * what went wrong if the file could not be made, or the driver. NULL only when out of memory or `driver` is
 * NULL. A run takes less than 0.1 us longer for each graph, copy and wait, and allocates nothing for it. */
RONDO_FLIGHT_API rondo_driver* rondo_flight_driver_create(rondo_driver* driver, const char* path);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_FLIGHT_H_ */
