/* Live weights: new values for weights of a plan that has sessions, without compiling or loading anything.
 * Link librondo_weights beside librondo of the same release; another release is refused. The rules of rondo.h
 * for errors and structs hold here too. The plan must have been compiled with --live-weights.
 *
 * The sessions of a plan share its weights on each device of a runtime. The new values are copied there, and
 * the next run computes with them. Recorded graphs, addresses and state stay as they are. On the host, too,
 * live weights lie in the runtime's memory and not in the plan's.
 *
 * `sessions` must be all sessions of the plan in the runtime, in any order. Each must be idle, and is in use
 * during the call; otherwise the call returns RONDO_FAILED_PRECONDITION and changes nothing. All values are
 * checked before anything is copied. A name that is no live weight of the plan, another shape or type, or a
 * number beyond the plan's type gives RONDO_INVALID_ARGUMENT or RONDO_OUT_OF_RANGE; the error names the
 * weight, and nothing changes. An error of a device sticks to all sessions.
 *
 * New sessions have the new values as long as one of the old sessions lives. A plan that is loaded afterwards
 * has its file's values: write new ones into the file with `rondo weights replace`. If a plan runs over
 * several processes, each makes the same call.
 */
#ifndef RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_H_
#define RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_H_

#include "runtime/rondo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes values from a file. A .safetensors file has some of the weights, by the names of the model's
 * initializers. An ONNX model (.onnx) must be the plan's model with other weights; it is refused if anything
 * else that was built into the plan differs. `replaced`, which may be NULL, gets the number of weights. */
RONDO_API rondo_error* rondo_weights_replace_from(rondo_session* const* sessions, size_t num_sessions,
                                                  const char* path, size_t* replaced);
/* Takes values from memory: each has a name, type, rank, dims, data and bytes. f32 is rounded if the plan has
 * f16 or bf16. */
RONDO_API rondo_error* rondo_weights_replace(rondo_session* const* sessions, size_t num_sessions,
                                             const rondo_tensor* values, size_t num_values);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_H_ */
