/* Several processes that run plans together, a device each, on one machine or several: what the options of a
 * driver (rondo_host.h) say of them. For users of rondo.h. */
#ifndef RONDO_DRIVERS_CAPI_RONDO_PROCESSES_H_
#define RONDO_DRIVERS_CAPI_RONDO_PROCESSES_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* This process is `rank` of `count` (at most 64), and has the device of that number of every plan. A driver
 * that is made with this returns when all have met; each must make one.
 *
 * All make the same sessions of the same plans, and the same runs, in the same order; rondo_session_create
 * compares the plans. A run is given what its own device needs of the inputs (more may be given) and takes
 * its own outputs. Once one of them ends, gives up in the middle of a run, or cannot make a session, the
 * others get an error that names it, and they can do nothing together any more: end them, and start anew.
 *
 * Begins with its size and grows at the end, like the structs of rondo.h. */
typedef struct rondo_processes {
  size_t size; /* sizeof(rondo_processes) */
  uint32_t rank;
  uint32_t count;
  /* How they learn one another's addresses, as whatever has started them can: gives each what all give, so
   * that all + r * bytes is what rank r gave (MPI_Allgather, say). Called while the driver is made, on that
   * thread, twice, with the same `bytes` (a few hundred) everywhere. Returns 0, or another number, which the
   * error repeats. */
  int (*all_gather)(void* user, const void* mine, size_t bytes, void* all);
  void* user;
  /* Without all_gather: "host:port", where rank 0 listens while they meet and all others come to. It listens
   * at the addresses of its machine that `host` names, and at no others. */
  const char* address;
  uint64_t timeout_nanoseconds; /* until all have come; 0: a minute */
  /* The same 16 to 4096 characters in all; NULL or "": none. Only processes that know it take part: both
   * sides of every connection prove so by a keyed hash over fresh random numbers, and who cannot is turned
   * away. Without it, whoever reaches `address` while they meet can take part; with all_gather they prove
   * that they know what it carried. What is sent later is neither encrypted nor sealed. Copied. */
  const char* secret;
} rondo_processes;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_PROCESSES_H_ */
