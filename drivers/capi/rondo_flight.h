/* The flight recorder for users of rondo.h: a driver around another one, which writes all calls on each
 * device into a file as they happen. So a run that hangs, or a process that was killed, can be examined:
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

/* Takes `driver` over. Creates a new file of 8 MiB at `path`; put it in memory (/dev/shm), since a run may
 * wait for a page that a disk is writing. Give the result to rondo_runtime_create, which returns an error if
 * the file or the driver could not be made. NULL only when out of memory or `driver` is NULL. Each graph,
 * copy and wait of a run takes less than 0.1 us longer, and nothing is allocated. */
RONDO_FLIGHT_API rondo_driver* rondo_flight_driver_create(rondo_driver* driver, const char* path);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_FLIGHT_H_ */
