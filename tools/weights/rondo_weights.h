/* Live weights: new values for weights of a plan whose sessions run, without compiling or loading anything.
 * Link librondo_weights beside librondo, of the same release (another is refused); what rondo.h says of
 * errors and structs holds here. The plan must have been compiled with --live-weights.
 *
 * The sessions of a plan share its weights on each device of a runtime. The new values are copied there:
 * recorded graphs, addresses and state stay as they are, and the next run computes with them. On the host,
 * too, live weights lie in the runtime's memory and not in the plan's.
 *
 * `sessions` are all that the runtime has of the plan, in any order; each must be idle, and is in use during
 * the call. RONDO_FAILED_PRECONDITION, with nothing changed, otherwise. All values are checked before
 * anything is copied: a name that the plan does not have as a live weight, another shape or type, or a number
 * beyond the plan's type is RONDO_INVALID_ARGUMENT or RONDO_OUT_OF_RANGE, names the weight, and changes
 * nothing. An error of a device sticks to all sessions.
 *
 * New sessions have the new values while one of the old ones lives. A plan that is loaded afterwards has its
 * own: write them into its file with `rondo weights replace`. Over several processes each makes the same
 * call.
 */
#ifndef RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_H_
#define RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_H_

#include "runtime/rondo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From a file: .safetensors with some of the weights, by the names of the model's initializers, or an ONNX
 * model (.onnx) that is the plan's with other weights: one in which something else differs that was built
 * into the plan is refused. `replaced`, which may be NULL, gets the number of weights. */
RONDO_API rondo_error* rondo_weights_replace_from(rondo_session* const* sessions, size_t num_sessions,
                                                  const char* path, size_t* replaced);
/* From the process's memory: each value has a name, type, rank, dims, data and bytes. f32 is rounded where
 * the plan has f16 or bf16. */
RONDO_API rondo_error* rondo_weights_replace(rondo_session* const* sessions, size_t num_sessions,
                                             const rondo_tensor* values, size_t num_values);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_H_ */
