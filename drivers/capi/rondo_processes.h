/* Several processes that run plans together, one device each, on one machine or several: part of the options
 * of a driver (rondo_host.h). For users of rondo.h. */
#ifndef RONDO_DRIVERS_CAPI_RONDO_PROCESSES_H_
#define RONDO_DRIVERS_CAPI_RONDO_PROCESSES_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* This process is `rank` of `count` (at most 64), and runs the device of that index in every plan. Every
 * process must make a driver with this; making it returns when all have met.
 *
 * All processes make the same sessions of the same plans, and the same runs, in the same order;
 * rondo_session_create compares the plans. A run gets the inputs that its own device needs (more may be
 * given) and takes its own outputs. When one process ends, gives up during a run, or cannot make a session,
 * the others get an error that names it, and they can do nothing together any more: end all of them and start
 * again.
 *
 * Begins with its size and grows at the end, like the structs of rondo.h. */
typedef struct rondo_processes {
  size_t size; /* sizeof(rondo_processes) */
  uint32_t rank;
  uint32_t count;
  /* Exchanges the processes' addresses, by the means of their launcher: afterwards all + r * bytes holds what
   * rank r gave (MPI_Allgather, for example). Called while the driver is made, on that thread, twice, with
   * the same `bytes` (a few hundred) everywhere. Returns 0, or another number, which the error repeats. */
  int (*all_gather)(void* user, const void* mine, size_t bytes, void* all);
  void* user;
  /* Without all_gather: "host:port", where rank 0 listens and the others connect while they meet. Rank 0
   * listens only at the addresses of its machine that `host` names. */
  const char* address;
  uint64_t timeout_nanoseconds; /* until all have come; 0: a minute */
  /* The same 16 to 4096 characters in all processes; NULL or "": none. Only processes that know the secret
   * can take part: both sides of every connection prove it by a keyed hash over fresh random numbers, and
   * others are turned away. Without a secret, anybody who reaches `address` during the meeting can take part;
   * with all_gather, processes prove that they know the data that it carried. Later data is neither encrypted
   * nor authenticated. Copied. */
  const char* secret;
} rondo_processes;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_DRIVERS_CAPI_RONDO_PROCESSES_H_ */
