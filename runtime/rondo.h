/* Rondo's C interface: open a plan, ask what it needs, and run it.
 *
 * Linking. librondo.so exports exactly these functions. It contains no driver: a driver comes from its own
 * library (rondo_host.h for the host), which must be of the same release.
 *
 * Objects. rondo_plan, rondo_runtime and rondo_session are opaque; the creator of one destroys it. A session
 * keeps what it needs of its plan, so a plan may be destroyed at any time. A runtime must be destroyed after
 * its sessions; before that, destroying it returns an error. Destroying NULL does nothing.
 *
 * Errors. Functions that can fail return a rondo_error that the caller destroys, or NULL for success. Out
 * parameters are set on success only. NULL for an object or a required pointer is RONDO_INVALID_ARGUMENT,
 * never a crash. An object must not be used after it has been destroyed.
 *
 * Threads. Plans and runtimes may be used from any thread at once, except while they are being destroyed. A
 * session serves one call at a time; a second one at the same moment gets RONDO_FAILED_PRECONDITION.
 *
 * Versions. Structs begin with their size: set it to sizeof before the call (RONDO_INIT does). Structs and
 * enums only grow at the end. A library older than the header ignores the fields that it does not know; a
 * newer one takes missing fields as 0. */
#ifndef RONDO_RUNTIME_RONDO_H_
#define RONDO_RUNTIME_RONDO_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RONDO_API __attribute__((visibility("default")))
#else
#define RONDO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The release of these headers; the build compares them with its own. */
#define RONDO_VERSION_MAJOR 0
#define RONDO_VERSION_MINOR 2
#define RONDO_VERSION_PATCH 0
/* Whether these headers are at least of that release, as in #if RONDO_VERSION_AT_LEAST(0, 2) */
#define RONDO_VERSION_AT_LEAST(major, minor) \
  (RONDO_VERSION_MAJOR > (major) || (RONDO_VERSION_MAJOR == (major) && RONDO_VERSION_MINOR >= (minor)))

/* A struct with its size set and all else 0: rondo_run_options options = RONDO_INIT(rondo_run_options); */
#ifdef __cplusplus
extern "C++" {
template <typename T>
inline T rondo_init() {
  T value = T();
  value.size = sizeof(T);
  return value;
}
}
#define RONDO_INIT(type) rondo_init<type>()
#else
#define RONDO_INIT(type) \
  { .size = sizeof(type) }
#endif

typedef struct rondo_error rondo_error;
typedef struct rondo_plan rondo_plan;
typedef struct rondo_runtime rondo_runtime;
typedef struct rondo_session rondo_session;
#ifndef RONDO_DRIVER_DECLARED /* the headers of drivers name it, too, and C99 takes a typedef once */
#define RONDO_DRIVER_DECLARED
typedef struct rondo_driver rondo_driver;
#endif

/* major << 16 | minor of the library in use. */
RONDO_API uint32_t rondo_version(void);
/* The release of the library in use, e.g. "0.2.0". Never NULL; lives for ever. */
RONDO_API const char* rondo_version_string(void);

/* ------------------------------------------------------------------------------------------ errors */

typedef enum rondo_code {
  RONDO_OK = 0,
  RONDO_INVALID_ARGUMENT = 1,    /* the caller passed something wrong */
  RONDO_NOT_FOUND = 2,           /* a name or file does not exist */
  RONDO_UNSUPPORTED = 3,         /* valid, but this build, driver or machine cannot do it */
  RONDO_CORRUPT = 4,             /* a file contradicts itself or its hash */
  RONDO_OUT_OF_MEMORY = 5,       /* host or device memory ran out */
  RONDO_FAILED_PRECONDITION = 6, /* the object is not in the state that the call needs */
  RONDO_OUT_OF_RANGE = 7,        /* data met at run time lies outside the declared bounds */
  RONDO_ABORTED = 8,             /* stopped from outside */
  RONDO_INTERNAL = 9,            /* a broken promise of Rondo itself */
  RONDO_IO = 10,                 /* the operating system refused a read, write or map */
  RONDO_CANCELLED = 11,          /* ended by rondo_session_cancel */
  RONDO_DEADLINE_EXCEEDED = 12   /* ended at a time limit of the caller's */
} rondo_code;

/* The kind of an error; RONDO_OK for NULL. */
RONDO_API rondo_code rondo_error_code(const rondo_error* error);
/* One sentence: what, where, value, limit. Lives as long as the error. "" for NULL. */
RONDO_API const char* rondo_error_message(const rondo_error* error);
/* The model's own node it came from, "" when unknown. Lives as long as the error. */
RONDO_API const char* rondo_error_source_node(const rondo_error* error);
RONDO_API void rondo_error_destroy(rondo_error* error);

/* ------------------------------------------------------------------------------- memory and logging */

/* Where host memory comes from. NULL functions: the library's choice (mimalloc where installed, without
 * replacing the process's malloc; the system's allocator otherwise). `allocate` returns memory aligned to
 * `alignment` (a power of two) or NULL. Both may be called from any thread that calls the library.
 * Errors and handles themselves are small and come from the system's malloc. */
typedef struct rondo_allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*deallocate)(void* user, void* block, size_t bytes);
  void* user;
} rondo_allocator;

typedef enum rondo_log_level {
  RONDO_LOG_DEBUG = 0,
  RONDO_LOG_INFO = 1,
  RONDO_LOG_WARNING = 2,
  RONDO_LOG_ERROR = 3
} rondo_log_level;

/* Starts the threads that the library itself needs, so that the embedder can name, pin or count them. NULL
 * functions: POSIX threads with every signal blocked. `start` makes a thread that calls entry(argument) and
 * sets *thread to what `join` needs. It returns 0, or another number, which the error repeats. `join` returns
 * when entry has returned. */
typedef struct rondo_thread_hooks {
  int (*start)(void* user, void* (*entry)(void*), void* argument, void** thread);
  void (*join)(void* user, void* thread);
  void* user;
} rondo_thread_hooks;

/* Called from any thread that calls the library, and from its own threads, possibly with locks held. `text`
 * is valid during the call only. Must not call back into the library: functions of runtimes and sessions
 * called from it do nothing and return RONDO_FAILED_PRECONDITION. */
typedef void (*rondo_log_function)(void* user, rondo_log_level level, const char* text);

/* ------------------------------------------------------------------------------------------- plans */

typedef enum rondo_dtype {
  RONDO_F32 = 0,
  RONDO_F16 = 1,
  RONDO_BF16 = 2,
  RONDO_F64 = 3,
  RONDO_I64 = 4,
  RONDO_I32 = 5,
  RONDO_I16 = 6,
  RONDO_I8 = 7,
  RONDO_U8 = 8,
  RONDO_U16 = 9,
  RONDO_U32 = 10,
  RONDO_U64 = 11,
  RONDO_BOOL = 12, /* one byte, 0 or 1 */
  RONDO_E4M3 = 13, /* FP8, as ONNX's FLOAT8E4M3FN */
  RONDO_E5M2 = 14
} rondo_dtype;

#define RONDO_MAX_RANK 12 /* dims of a tensor, at most */
#define RONDO_PORT_DIMS 8 /* of them in rondo_port::dims */

typedef struct rondo_plan_options {
  size_t size;
  const rondo_allocator* allocator; /* copied; its `user` must outlive the plan and its sessions */
  int32_t ignore_hashes;            /* not 0: read a damaged file anyway; all else is still verified */
  rondo_log_level least_log_level;
  rondo_log_function log; /* may be NULL; called while the plan is opened only */
  void* log_user;
  /* Weights of a file below 256 MiB are read into memory and hashed, those of a larger one are mapped. Not 0:
   * always read (map_weights: always map). Both together are RONDO_INVALID_ARGUMENT. */
  int32_t read_weights;
  const char* name; /* the plan's name in metrics; copied. NULL: its file's name, without the folder */
  int32_t map_weights;
} rondo_plan_options;

/* Reads, verifies and checks the plan in file `path`. `options` may be NULL. If the file changes meanwhile,
 * the result is an error, or the file as it was. A file whose weights were read may change afterwards. A file
 * whose weights are mapped (the plan's, or the weights file beside it) must stay unchanged while the plan or
 * a session of it lives: whatever is written there shows in results, and if the file is shortened, SIGBUS
 * ends the process. To change a plan in use, rename a new file over it: users of the old one keep it. */
RONDO_API rondo_error* rondo_plan_open(const char* path, const rondo_plan_options* options,
                                       rondo_plan** plan);
/* The same from `bytes` in memory, which stay the caller's and must outlive the plan and its sessions. */
RONDO_API rondo_error* rondo_plan_open_bytes(const void* bytes, size_t size,
                                             const rondo_plan_options* options, rondo_plan** plan);
RONDO_API void rondo_plan_destroy(rondo_plan* plan);

/* Programs are numbered from 0; variants, among which a session chooses (rondo_session_chosen_program), are
 * not counted and have the numbers after them. 0 for NULL. */
RONDO_API uint32_t rondo_plan_program_count(const rondo_plan* plan);
/* Lives as long as the plan; NULL when there is no such program or variant. */
RONDO_API const char* rondo_plan_program_name(const rondo_plan* plan, uint32_t program);
/* RONDO_NOT_FOUND, naming the programs there are, when there is none called `name`. */
RONDO_API rondo_error* rondo_plan_find_program(const rondo_plan* plan, const char* name, uint32_t* program);

typedef enum rondo_direction { RONDO_INPUT = 0, RONDO_OUTPUT = 1 } rondo_direction;

typedef struct rondo_port {
  size_t size;
  const char* name; /* lives as long as the plan */
  rondo_dtype dtype;
  uint32_t rank;
  int64_t dims[RONDO_PORT_DIMS]; /* the first ones; 0 from `rank` on */
  uint64_t bytes;
  int32_t is_state; /* not 0: state of the session, optional as an input */
  uint32_t device;
  const int64_t* all_dims; /* `rank` of them; lives as long as the plan */
} rondo_port;

/* Inputs or outputs of a program, numbered from 0. 0 when there is no such program. */
RONDO_API uint32_t rondo_plan_port_count(const rondo_plan* plan, uint32_t program, rondo_direction direction);
/* Fills `port`, whose size the caller has set. A port of more than RONDO_PORT_DIMS dims takes a rondo_port
 * with `all_dims`: older ones are refused. */
RONDO_API rondo_error* rondo_plan_get_port(const rondo_plan* plan, uint32_t program,
                                           rondo_direction direction, uint32_t index, rondo_port* port);
/* The port called `name`; `index` and `port` may be NULL. RONDO_NOT_FOUND when there is none. */
RONDO_API rondo_error* rondo_plan_find_port(const rondo_plan* plan, uint32_t program,
                                            rondo_direction direction, const char* name, uint32_t* index,
                                            rondo_port* port);

typedef struct rondo_requirements {
  size_t size;
  const char* target; /* "host", "cuda:sm_90a"; lives as long as the plan */
  uint32_t devices;
  uint32_t least_driver_version;
} rondo_requirements;

/* What a machine must have, before anything is loaded. Fills `requirements`, whose size is set. */
RONDO_API rondo_error* rondo_plan_get_requirements(const rondo_plan* plan, rondo_requirements* requirements);

typedef struct rondo_device_bytes {
  size_t size;
  uint64_t weights;      /* shared by the sessions of a plan; on the host they are the plan's own */
  uint64_t arena;        /* of each session */
  uint64_t state;        /* of each session */
  uint64_t workspace;    /* the part of the arena that is workspace */
  uint64_t communicator; /* estimate */
  /* What a GPU allocates; 0 for a plan without machine code. Weights, arena and state are exact, in the GPU's
   * steps of 2 MiB; the rest is estimated. What CUDA itself takes when a process begins to use a device is
   * not included. */
  uint64_t code;          /* in first_session */
  uint64_t graphs;        /* of each session, in the two below */
  uint64_t first_session; /* weights, code, communicators and one session */
  uint64_t
      each_session; /* one more of the same plan, where there are many: blocks of up to 1 MiB share steps */
  uint64_t library; /* the vendor's matmul library, in first_session */
} rondo_device_bytes;

RONDO_API rondo_error* rondo_plan_get_device_bytes(const rondo_plan* plan, uint32_t device,
                                                   rondo_device_bytes* bytes);

typedef enum rondo_buffer_kind {
  RONDO_BUFFER_INPUT = 0, /* inputs, outputs, temporaries and workspace lie in the arena */
  RONDO_BUFFER_OUTPUT = 1,
  RONDO_BUFFER_CONSTANT = 2, /* in the weights */
  RONDO_BUFFER_STATE = 3,    /* in the state */
  RONDO_BUFFER_TEMPORARY = 4,
  RONDO_BUFFER_WORKSPACE = 5,
  RONDO_BUFFER_UPDATED_INPUT = 6, /* an input that the caller gives away and that becomes an output */
} rondo_buffer_kind;

#define RONDO_NO_INDEX 0xffffffffu

/* One buffer of a plan. The texts are UTF-8, not ended by a zero byte, and live as long as the plan. */
typedef struct rondo_buffer {
  size_t size;
  const char* name; /* of the model's value, if it has one */
  size_t name_bytes;
  const char* source; /* the ONNX nodes that it comes from, or none */
  size_t source_bytes;
  rondo_buffer_kind kind;
  uint32_t device;
  uint32_t program; /* RONDO_NO_INDEX: shared by all programs */
  uint32_t aliases; /* the buffer whose memory it takes over in place, or RONDO_NO_INDEX */
  uint64_t bytes;
  uint64_t offset;     /* in the arena, the weights or the state of its device */
  uint32_t first_step; /* first and last step of its program at which the contents matter; */
  uint32_t last_step;  /* first_step > last_step: never used. Only for buffers in the arena */
} rondo_buffer;

/* Buffers are numbered from 0. 0 when `plan` is NULL. */
RONDO_API uint32_t rondo_plan_buffer_count(const rondo_plan* plan);
/* Fills `buffer`, whose size is set. */
RONDO_API rondo_error* rondo_plan_get_buffer(const rondo_plan* plan, uint32_t index, rondo_buffer* buffer);

/* ----------------------------------------------------------------------------------------- runtime */

typedef struct rondo_runtime_options {
  size_t size;
  const rondo_allocator* allocator; /* copied; its `user` must outlive the runtime */
  rondo_log_function log;           /* may be NULL */
  void* log_user;
  rondo_log_level least_log_level;
  /* The driver's device for each device of a plan; NULL: 0, 1, ... A device that is named several times
   * serves that many of the plan's devices, each with memory of its own (on GPUs: see rondo_cuda.h). */
  const uint32_t* devices;
  size_t num_devices;
  const rondo_thread_hooks* threads; /* copied; its `user` must outlive the runtime */
  uint32_t async_workers;            /* threads for rondo_session_run_async, at most 64; 0: it is refused */
  /* Not 0: keeps what rondo_runtime_write_metrics reports of a plan's programs after its last session, and
   * goes on counting when a plan of the same name is loaded again. Text and memory then grow with every new
   * name. */
  uint64_t keep_plan_totals;
} rondo_runtime_options;

/* Opens devices through `driver`. The runtime takes the driver over, even when this fails: the caller never
 * destroys it. If creating the driver failed, this returns that error. `options` may be NULL. */
RONDO_API rondo_error* rondo_runtime_create(rondo_driver* driver, const rondo_runtime_options* options,
                                            rondo_runtime** runtime);
/* NULL, or the first requirement of the plan that this runtime does not meet. Loads nothing. */
RONDO_API rondo_error* rondo_runtime_supports(const rondo_runtime* runtime, const rondo_plan* plan);
/* NULL, or the error of a device on which nothing works any more in this process (certain faults end CUDA for
 * the process, on all GPUs): a supervisor should replace the process. Cheap enough for a readiness probe. Any
 * thread, at any moment. */
RONDO_API rondo_error* rondo_runtime_ready(const rondo_runtime* runtime);
/* Destroys the runtime and its driver. With sessions alive, or on one of the runtime's own threads:
 * RONDO_FAILED_PRECONDITION, and nothing is destroyed. */
RONDO_API rondo_error* rondo_runtime_destroy(rondo_runtime* runtime);

/* ----------------------------------------------------------------------------------------- metrics */

#define RONDO_HISTOGRAM_BUCKETS 18
#define RONDO_METRICS_CODES 16

/* Durations, counted in fixed buckets that are not cumulative; `count` is their sum. */
typedef struct rondo_histogram {
  uint64_t count;
  uint64_t sum_nanoseconds;
  uint64_t buckets[RONDO_HISTOGRAM_BUCKETS];
} rondo_histogram;

typedef struct rondo_metrics {
  size_t size;
  uint64_t runs;                        /* that have ended, in all */
  uint64_t errors[RONDO_METRICS_CODES]; /* calls of run and run_async that failed, by rondo_code */
  uint64_t input_bytes;                 /* copied in by runs, in all */
  uint64_t output_bytes;                /* copied out by runs, in all */
  uint64_t sessions;                    /* alive now */
  uint64_t plans;                       /* loaded now */
  uint64_t weight_bytes; /* device memory held now; weights used in place, in the plan, take none */
  uint64_t arena_bytes;  /* device memory held now */
  uint64_t state_bytes;  /* device memory held now */
  rondo_histogram run_time;
  rondo_histogram queue_wait; /* of run_async: from the call until a worker took the run */
  uint64_t staging_bytes;     /* page-locked host memory held now, for copies from and to pageable memory */
} rondo_metrics;

/* The largest duration that bucket `bucket` counts, in nanoseconds: 50 us to 10 s, UINT64_MAX for the last.
 */
RONDO_API uint64_t rondo_histogram_limit(uint32_t bucket);
/* What has been counted since the runtime was made. Fills `metrics`, whose size is set. Allocates nothing. */
RONDO_API rondo_error* rondo_runtime_get_metrics(const rondo_runtime* runtime, rondo_metrics* metrics);
/* The same in Prometheus' text format, with labels `plan` (rondo_plan_options) and `program` for runs; both
 * are "" for calls that named no existing program. Plans of one name are counted together. A series appears
 * once it has counted something. The series of a plan disappear with its last session, and start at 0 when a
 * plan of the same name is loaded later (unless keep_plan_totals is set); rondo_runtime_get_metrics keeps
 * their sums. The text is cut at `size` - 1 bytes and ended by a 0. Returns the bytes of the whole text,
 * without the 0 (`text` may be NULL if `size` is 0); 0 if `runtime` is NULL. Allocates nothing. */
RONDO_API size_t rondo_runtime_write_metrics(const rondo_runtime* runtime, char* text, size_t size);

/* ---------------------------------------------------------------------------------------- sessions */

/* Loads weights and kernels (once for all sessions of a plan), allocates and zeroes all memory that runs
 * need, and arms every program. RONDO_FAILED_PRECONDITION if weights are mapped from a file whose size or
 * modification time has changed since the plan was opened. Where the time is not conclusive, the contents are
 * hashed; RONDO_CORRUPT if they differ. */
RONDO_API rondo_error* rondo_session_create(rondo_runtime* runtime, const rondo_plan* plan,
                                            rondo_session** session);

typedef struct rondo_session_options {
  size_t size;
  uint64_t timeout_nanoseconds;     /* of rondo_session_create_with itself; 0: none */
  uint64_t run_timeout_nanoseconds; /* of each run whose options have none; 0: none */
  /* How long the devices of a run with collectives may make no progress before it ends with RONDO_ABORTED,
   * naming the device, the sync point and the source node where they stand. 0: a minute; UINT64_MAX: for
   * ever. A device that has still not ended after the same time again is lost: the run returns anyway, the
   * memory of its tensors must stay as long as the process, rondo_runtime_ready returns an error, and
   * destroying the session frees nothing, so that its runtime cannot be destroyed. Replace the process. */
  uint64_t watchdog_nanoseconds;
  /* The most bytes that the session's arena and state may take on each device; 0: what is free. A program
   * with variants (rondo compile --variants) runs as the fastest that keeps to it, on all devices the same.
   * RONDO_OUT_OF_MEMORY if none does. Weights, which sessions share, are not counted. Over several processes,
   * which must all give the same limit, free memory does not decide. */
  uint64_t memory_limit;
} rondo_session_options;

/* The same with `options`, which may be NULL. */
RONDO_API rondo_error* rondo_session_create_with(rondo_runtime* runtime, const rondo_plan* plan,
                                                 const rondo_session_options* options,
                                                 rondo_session** session);

/* The program that runs of `program` execute: itself, or the variant that the session chose. RONDO_NO_INDEX
 * for a variant that it did not choose, and where there is no such program. */
RONDO_API uint32_t rondo_session_chosen_program(const rondo_session* session, uint32_t program);
/* Why some program runs as a smaller variant: the limit or the memory that was free, and what was needed. ""
 * if none does. Lives as long as the session. */
RONDO_API const char* rondo_session_why_smaller(const rondo_session* session);

/* RONDO_FAILED_PRECONDITION, and nothing is destroyed, while another thread is inside a call or a run of
 * rondo_session_run_async is under way. */
RONDO_API rondo_error* rondo_session_destroy(rondo_session* session);

/* Where a tensor lies. */
typedef enum rondo_memory {
  RONDO_HOST_MEMORY = 0, /* the process's memory */
  /* The memory of the port's device (rondo_plan_get_port; a CUdeviceptr on cuda, a pointer on host): `data`
   * is the address there. The caller vouches for that: it is not checked.
   *
   * Order: work enqueued to write an input, or to read the old contents of an output, must be complete before
   * the run is called. When the run has ended, its own work is complete.
   *
   * Ownership: the caller's throughout. The memory must live until the run has ended, and is not touched
   * later. An input is only read, unless the plan was compiled to give it away (rondo compile --donate): then
   * it is written, and if an output takes its memory (rondo_plan_get_buffer tells: an updated input, or a
   * buffer that aliases it), the result lies there, whether or not the run names the output.
   *
   * Overlap with the session's own memory, or of an output with any other tensor of the run, is refused with
   * RONDO_INVALID_ARGUMENT. One exception: an output may be given exactly the memory of the input that it
   * takes. Inputs may share memory.
   *
   * Copies: the run uses the memory in place if the driver can and the plan's steps allow it. An address that
   * is a multiple of 256 always suits; one that does not suit the plan is copied on the device. State is
   * always copied, and so are inputs that a program also has on other devices.
   *
   * Cost: the same address as in the session's last run of this program costs nothing. A new address is set
   * in each kernel that uses it or, if these are many, copied until it is given a second time in a row.
   * Nothing is recorded again, and nothing allocated. */
  RONDO_DEVICE_MEMORY = 1
} rondo_memory;

/* A dense, row-major tensor in the caller's memory, of any alignment. */
typedef struct rondo_tensor {
  size_t size;
  const char* name; /* of the port; NULL: `index` says which */
  uint32_t index;
  rondo_dtype dtype;
  uint32_t rank;       /* inputs only: must be the port's, with its dims */
  const int64_t* dims; /* inputs only */
  void* data;          /* of an input: only read, but see RONDO_DEVICE_MEMORY */
  uint64_t bytes;      /* exactly the port's */
  rondo_memory memory; /* where `data` is */
} rondo_tensor;

typedef struct rondo_run_options {
  size_t size;
  int32_t stepwise; /* not 0: step by step, without graphs (slow; for finding faults) */
  /* The run ends with RONDO_DEADLINE_EXCEEDED this long after the call, including the wait in the queue; 0:
   * the session's run_timeout_nanoseconds. See rondo_session_cancel. */
  uint64_t timeout_nanoseconds;
} rondo_run_options;

/* Runs `program`: copies inputs in, replays, waits, copies outputs out (device memory is used in place where
 * possible). Allocates nothing unless it fails. Each input that is not state must be given once; state given
 * as an input is written before the run; outputs may be any of the program's, including state. All entries of
 * an array have the size that its first entry states. `options` may be NULL. Errors: the caller's mistakes
 * (RONDO_INVALID_ARGUMENT, RONDO_NOT_FOUND: nothing was run) and RONDO_OUT_OF_RANGE leave the session usable,
 * and so may a stopped run (rondo_session_cancel). Any other error sticks, and later calls repeat it. After a
 * failed run the contents of outputs and state are unspecified. */
RONDO_API rondo_error* rondo_session_run(rondo_session* session, uint32_t program, const rondo_tensor* inputs,
                                         size_t num_inputs, const rondo_tensor* outputs, size_t num_outputs,
                                         const rondo_run_options* options);

/* Called once when an accepted run has ended. `error` is NULL or what rondo_session_run would have returned;
 * the function destroys it. It is called on one of the runtime's threads, when the session is free again,
 * possibly before rondo_session_run_async has returned. It may start the session's next run or destroy the
 * session, but not the runtime. Other runs wait while it works, and it must not wait for one
 * (rondo_session_wait). */
typedef void (*rondo_run_done)(void* user, rondo_error* error);

/* Like rondo_session_run, but returns as soon as the run is checked and accepted; one of the runtime's
 * async_workers executes it. The caller's mistakes are returned at once, and `done` (which may be NULL) is
 * then not called. The arrays, names and dims are only read during this call; the tensors' data must live
 * until the run has ended, and `user` until `done` has returned. Until then the session is in use. Allocates
 * nothing unless it fails. */
RONDO_API rondo_error* rondo_session_run_async(rondo_session* session, uint32_t program,
                                               const rondo_tensor* inputs, size_t num_inputs,
                                               const rondo_tensor* outputs, size_t num_outputs,
                                               const rondo_run_options* options, rondo_run_done done,
                                               void* user);
/* Returns when no run of rondo_session_run_async is under way (its `done` may still be). This does not count
 * as a use of the session: any thread may call it until the session is destroyed. On one of the runtime's
 * asynchronous workers (in `done`), which might wait for itself: RONDO_FAILED_PRECONDITION if a run is under
 * way. */
RONDO_API rondo_error* rondo_session_wait(rondo_session* session);

/* Ends the run under way, if there is one, with RONDO_CANCELLED. Returns at once. This does not count as a
 * use of the session: any thread may call it until the session is destroyed.
 *
 * How soon a run ends, by this or by its time limit. On the host: within a step, in milliseconds; custom ops
 * and copies complete. On GPUs: between partitions (with a time limit, each is waited for before the next is
 * launched); the run returns when everything launched is complete. Collectives are aborted. A run in the
 * queue, or behind another session's run on several devices that both use, ends when it would have begun.
 *
 * The session afterwards: usable, with unspecified outputs, if the run had not begun or its program has no
 * state. Otherwise state may be half written, and the error sticks until rondo_session_reset_state. On GPUs,
 * aborted collectives end the session and others over the same devices: create them again. */
RONDO_API rondo_error* rondo_session_cancel(rondo_session* session);

/* Zeroes all state, and clears the error that a stopped run left sticking. */
RONDO_API rondo_error* rondo_session_reset_state(rondo_session* session);
/* Copies all state from `from`, on each device (rondo_device_bytes.state), so that sessions with a common
 * prefix compute it once. `from` is a session of the same plan and runtime (RONDO_INVALID_ARGUMENT
 * otherwise), keeps its own state, and is in use meanwhile. Clears the error that a stopped run left sticking
 * to `session`; an error that stuck to `from` is returned. Allocates nothing unless it fails. */
RONDO_API rondo_error* rondo_session_copy_states(rondo_session* session, rondo_session* from);
/* The same, but states with `length` positions (the last dimension but one, of three or more: a cache) get
 * only the first `first`; the positions after them in `session` stay. Other states are copied whole.
 * `copied`, which may be NULL, gets the bytes. Makes one copy for each row of positions, so it pays where
 * many positions are left out. */
RONDO_API rondo_error* rondo_session_copy_positions(rondo_session* session, rondo_session* from,
                                                    int64_t length, int64_t first, uint64_t* copied);
/* Writes or reads all of one state, named by a state port of any program. `bytes` must be its size. */
RONDO_API rondo_error* rondo_session_write_state(rondo_session* session, const char* name, const void* data,
                                                 uint64_t bytes);
RONDO_API rondo_error* rondo_session_read_state(rondo_session* session, const char* name, void* data,
                                                uint64_t bytes);
/* The address of the state in this process, on drivers whose memory is the host's; RONDO_UNSUPPORTED
 * elsewhere. Valid as long as the session; must not be touched during a run. */
RONDO_API rondo_error* rondo_session_state_address(rondo_session* session, const char* name, void** address);
/* NULL, or the error that stuck. */
RONDO_API rondo_error* rondo_session_status(rondo_session* session);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_RUNTIME_RONDO_H_ */
