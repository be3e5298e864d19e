/* The layout of the C interface. It compiles only as long as every struct, field and number is where the
 * first release with it had them. A struct may grow at its end: then change its size here, and nothing else.
 * For 64-bit machines. */
#include <stddef.h>

#include "drivers/capi/rondo_host.h"
#include "runtime/rondo.h"

#define STRUCT(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#define FIELD(type, field, offset) \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved")
#define NUMBER(name, value) _Static_assert((name) == (value), #name " has changed")

STRUCT(rondo_allocator, 24);
FIELD(rondo_allocator, allocate, 0);
FIELD(rondo_allocator, deallocate, 8);
FIELD(rondo_allocator, user, 16);

STRUCT(rondo_thread_hooks, 24);
FIELD(rondo_thread_hooks, start, 0);
FIELD(rondo_thread_hooks, join, 8);
FIELD(rondo_thread_hooks, user, 16);

STRUCT(rondo_plan_options, 64);
FIELD(rondo_plan_options, size, 0);
FIELD(rondo_plan_options, allocator, 8);
FIELD(rondo_plan_options, ignore_hashes, 16);
FIELD(rondo_plan_options, least_log_level, 20);
FIELD(rondo_plan_options, log, 24);
FIELD(rondo_plan_options, log_user, 32);
FIELD(rondo_plan_options, read_weights, 40);
FIELD(rondo_plan_options, name, 48);
FIELD(rondo_plan_options, map_weights, 56);

STRUCT(rondo_port, 112);
FIELD(rondo_port, size, 0);
FIELD(rondo_port, name, 8);
FIELD(rondo_port, dtype, 16);
FIELD(rondo_port, rank, 20);
FIELD(rondo_port, dims, 24);
FIELD(rondo_port, bytes, 88);
FIELD(rondo_port, is_state, 96);
FIELD(rondo_port, device, 100);
FIELD(rondo_port, all_dims, 104);

STRUCT(rondo_requirements, 24);
FIELD(rondo_requirements, size, 0);
FIELD(rondo_requirements, target, 8);
FIELD(rondo_requirements, devices, 16);
FIELD(rondo_requirements, least_driver_version, 20);

STRUCT(rondo_device_bytes, 88);
FIELD(rondo_device_bytes, size, 0);
FIELD(rondo_device_bytes, weights, 8);
FIELD(rondo_device_bytes, arena, 16);
FIELD(rondo_device_bytes, state, 24);
FIELD(rondo_device_bytes, workspace, 32);
FIELD(rondo_device_bytes, communicator, 40);
FIELD(rondo_device_bytes, code, 48);
FIELD(rondo_device_bytes, graphs, 56);
FIELD(rondo_device_bytes, first_session, 64);
FIELD(rondo_device_bytes, each_session, 72);
FIELD(rondo_device_bytes, library, 80);

STRUCT(rondo_buffer, 80);
FIELD(rondo_buffer, size, 0);
FIELD(rondo_buffer, name, 8);
FIELD(rondo_buffer, name_bytes, 16);
FIELD(rondo_buffer, source, 24);
FIELD(rondo_buffer, source_bytes, 32);
FIELD(rondo_buffer, kind, 40);
FIELD(rondo_buffer, device, 44);
FIELD(rondo_buffer, program, 48);
FIELD(rondo_buffer, aliases, 52);
FIELD(rondo_buffer, bytes, 56);
FIELD(rondo_buffer, offset, 64);
FIELD(rondo_buffer, first_step, 72);
FIELD(rondo_buffer, last_step, 76);

STRUCT(rondo_runtime_options, 80);
FIELD(rondo_runtime_options, size, 0);
FIELD(rondo_runtime_options, allocator, 8);
FIELD(rondo_runtime_options, log, 16);
FIELD(rondo_runtime_options, log_user, 24);
FIELD(rondo_runtime_options, least_log_level, 32);
FIELD(rondo_runtime_options, devices, 40);
FIELD(rondo_runtime_options, num_devices, 48);
FIELD(rondo_runtime_options, threads, 56);
FIELD(rondo_runtime_options, async_workers, 64);
FIELD(rondo_runtime_options, keep_plan_totals, 72);

STRUCT(rondo_histogram, 160);
FIELD(rondo_histogram, count, 0);
FIELD(rondo_histogram, sum_nanoseconds, 8);
FIELD(rondo_histogram, buckets, 16);

STRUCT(rondo_metrics, 528);
FIELD(rondo_metrics, size, 0);
FIELD(rondo_metrics, runs, 8);
FIELD(rondo_metrics, errors, 16);
FIELD(rondo_metrics, input_bytes, 144);
FIELD(rondo_metrics, output_bytes, 152);
FIELD(rondo_metrics, sessions, 160);
FIELD(rondo_metrics, plans, 168);
FIELD(rondo_metrics, weight_bytes, 176);
FIELD(rondo_metrics, arena_bytes, 184);
FIELD(rondo_metrics, state_bytes, 192);
FIELD(rondo_metrics, run_time, 200);
FIELD(rondo_metrics, queue_wait, 360);
FIELD(rondo_metrics, staging_bytes, 520);

STRUCT(rondo_tensor, 64);
FIELD(rondo_tensor, size, 0);
FIELD(rondo_tensor, name, 8);
FIELD(rondo_tensor, index, 16);
FIELD(rondo_tensor, dtype, 20);
FIELD(rondo_tensor, rank, 24);
FIELD(rondo_tensor, dims, 32);
FIELD(rondo_tensor, data, 40);
FIELD(rondo_tensor, bytes, 48);
FIELD(rondo_tensor, memory, 56);

STRUCT(rondo_session_options, 40);
FIELD(rondo_session_options, size, 0);
FIELD(rondo_session_options, timeout_nanoseconds, 8);
FIELD(rondo_session_options, run_timeout_nanoseconds, 16);
FIELD(rondo_session_options, watchdog_nanoseconds, 24);
FIELD(rondo_session_options, memory_limit, 32);

STRUCT(rondo_run_options, 24);
FIELD(rondo_run_options, size, 0);
FIELD(rondo_run_options, stepwise, 8);
FIELD(rondo_run_options, timeout_nanoseconds, 16);

STRUCT(rondo_host_options, 88);
FIELD(rondo_host_options, size, 0);
FIELD(rondo_host_options, threads, 8);
FIELD(rondo_host_options, devices, 12);
FIELD(rondo_host_options, allocate, 16);
FIELD(rondo_host_options, deallocate, 24);
FIELD(rondo_host_options, allocator_user, 32);
FIELD(rondo_host_options, start_thread, 40);
FIELD(rondo_host_options, join_thread, 48);
FIELD(rondo_host_options, thread_user, 56);
FIELD(rondo_host_options, op_libraries, 64);
FIELD(rondo_host_options, num_op_libraries, 72);
FIELD(rondo_host_options, processes, 80);

STRUCT(rondo_processes, 56);
FIELD(rondo_processes, size, 0);
FIELD(rondo_processes, rank, 8);
FIELD(rondo_processes, count, 12);
FIELD(rondo_processes, all_gather, 16);
FIELD(rondo_processes, user, 24);
FIELD(rondo_processes, address, 32);
FIELD(rondo_processes, timeout_nanoseconds, 40);
FIELD(rondo_processes, secret, 48);

NUMBER(RONDO_OK, 0);
NUMBER(RONDO_INVALID_ARGUMENT, 1);
NUMBER(RONDO_NOT_FOUND, 2);
NUMBER(RONDO_UNSUPPORTED, 3);
NUMBER(RONDO_CORRUPT, 4);
NUMBER(RONDO_OUT_OF_MEMORY, 5);
NUMBER(RONDO_FAILED_PRECONDITION, 6);
NUMBER(RONDO_OUT_OF_RANGE, 7);
NUMBER(RONDO_ABORTED, 8);
NUMBER(RONDO_INTERNAL, 9);
NUMBER(RONDO_IO, 10);
NUMBER(RONDO_CANCELLED, 11);
NUMBER(RONDO_DEADLINE_EXCEEDED, 12);
NUMBER(RONDO_LOG_DEBUG, 0);
NUMBER(RONDO_LOG_INFO, 1);
NUMBER(RONDO_LOG_WARNING, 2);
NUMBER(RONDO_LOG_ERROR, 3);
NUMBER(RONDO_F32, 0);
NUMBER(RONDO_F16, 1);
NUMBER(RONDO_BF16, 2);
NUMBER(RONDO_F64, 3);
NUMBER(RONDO_I64, 4);
NUMBER(RONDO_I32, 5);
NUMBER(RONDO_I16, 6);
NUMBER(RONDO_I8, 7);
NUMBER(RONDO_U8, 8);
NUMBER(RONDO_U16, 9);
NUMBER(RONDO_U32, 10);
NUMBER(RONDO_U64, 11);
NUMBER(RONDO_BOOL, 12);
NUMBER(RONDO_INPUT, 0);
NUMBER(RONDO_OUTPUT, 1);
NUMBER(RONDO_HOST_MEMORY, 0);
NUMBER(RONDO_DEVICE_MEMORY, 1);
