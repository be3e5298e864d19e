/* The cuda driver for users of rondo.h: a small library of its own, so that librondo links no driver. */
#ifndef RONDO_DRIVERS_CAPI_RONDO_CUDA_H_
#define RONDO_DRIVERS_CAPI_RONDO_CUDA_H_

#if defined(__GNUC__)
#define RONDO_CUDA_API __attribute__((visibility("default")))
#else
#define RONDO_CUDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rondo_driver rondo_driver;

/* A driver that runs plans compiled for NVIDIA GPUs, on all GPUs of the machine. The NVIDIA driver, and NCCL
 * for plans with collectives, are opened at run time; `library_path` names folders, separated by ':', in
 * which NCCL is looked for before the system's places (NULL: none; need not outlive the call). Give the
 * result to rondo_runtime_create, which takes it over and says what went wrong if it could not be made: no
 * NVIDIA driver, too old a one, no GPU. NULL only when out of memory. May be called from any thread.
 */
RONDO_CUDA_API rondo_driver* rondo_cuda_driver_create(const char* library_path);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_CUDA_H_ */
