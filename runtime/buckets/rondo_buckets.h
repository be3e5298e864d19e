/* Buckets: runs tensors of their true shape with a plan that has a program for each of several sizes (rondo
 * compile --shape batch=1,4,16 --shape sequence=16..512). Link librondo_buckets of the same release beside
 * librondo; errors and structs are as in rondo.h.
 *
 * A run uses the smallest program that holds its inputs. They are copied into memory padded with 0, and
 * outputs are cut to the sizes of the run; tensors that have a bucket's full shape are used in place. Results
 * equal those of a plan for exactly these sizes, up to rounding. Tensors in device memory must have a
 * bucket's full shape. */
#ifndef RONDO_RUNTIME_BUCKETS_RONDO_BUCKETS_H_
#define RONDO_RUNTIME_BUCKETS_RONDO_BUCKETS_H_

#include "runtime/rondo.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rondo_buckets rondo_buckets;

/* The buckets called `family` (the program's name in rondo compile, "main" where none was given; NULL: the
 * plan's only ones), for runs in `session`, which was made from `plan` and must outlive them. Allocates all
 * memory that runs need. One call at a time, as for the session; any thread may choose. RONDO_NOT_FOUND if
 * the plan has none of that name. */
RONDO_API rondo_error* rondo_buckets_create(const rondo_plan* plan, rondo_session* session,
                                            const char* family, rondo_buckets** buckets);
/* Destroying NULL does nothing. The session stays. */
RONDO_API void rondo_buckets_destroy(rondo_buckets* buckets);

/* The program that a run with these inputs uses, by their names (or indices) and shapes; their data is not
 * read. RONDO_INVALID_ARGUMENT for shapes beyond the largest bucket, or that contradict one another.
 * Allocates nothing unless it fails. */
RONDO_API rondo_error* rondo_buckets_choose(const rondo_buckets* buckets, const rondo_tensor* inputs,
                                            size_t num_inputs, uint32_t* program);
/* The shape of output `name` of such a run: `dims` has room for RONDO_PORT_DIMS. */
RONDO_API rondo_error* rondo_buckets_output_shape(const rondo_buckets* buckets, const rondo_tensor* inputs,
                                                  size_t num_inputs, const char* name, uint32_t* rank,
                                                  int64_t* dims);
/* rondo_session_run of the program for `inputs`. An output has exactly the bytes of the run's shape. */
RONDO_API rondo_error* rondo_buckets_run(rondo_buckets* buckets, const rondo_tensor* inputs,
                                         size_t num_inputs, const rondo_tensor* outputs, size_t num_outputs,
                                         const rondo_run_options* options);

/* One caller's share of a run of several. */
typedef struct rondo_buckets_part {
  size_t size;
  const rondo_tensor* inputs;
  size_t num_inputs;
  const rondo_tensor* outputs;
  size_t num_outputs;
} rondo_buckets_part;

/* One run of several callers' tensors (256 callers at most), all in host memory: they are concatenated along
 * the length called `length` ("batch"), and each caller gets its own outputs. All other lengths are equal;
 * inputs without that length are taken from the first caller. */
RONDO_API rondo_error* rondo_buckets_run_together(rondo_buckets* buckets, const char* length,
                                                  const rondo_buckets_part* parts, size_t num_parts,
                                                  const rondo_run_options* options);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_RUNTIME_BUCKETS_RONDO_BUCKETS_H_ */
