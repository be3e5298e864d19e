/* Custom operators: what a shared library exports so that Rondo can compile and run ops of its own.
 *
 * A library states the version of this interface that it was built for, and registers its ops:
 *
 *   RONDO_OP_LIBRARY
 *   RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
 *     return registrar->add(registrar->context, &my_op);
 *   }
 *
 * The compiler asks an op for the types and shapes of its outputs; a driver makes an instance of it for each
 * call of a plan, when the plan is loaded, and runs that. The same library serves both.
 *
 * Lifetimes. What a library hands to `add` is copied before it returns, functions aside: those are called
 * until the library is closed, after the last plan compiled and the last driver destroyed that use it. What
 * Rondo hands to a function is valid until that function returns.
 *
 * Threads. All functions may be called from any thread, and at once. One instance may be run from several
 * threads at once: the sessions of a plan share it. What an op keeps from run to run therefore belongs in an
 * input that it changes (state of the session), not in its instance.
 *
 * Errors. Functions that can fail return 0, or another rondo_op_result after writing a sentence into `error`
 * (of `error_size` bytes; Rondo ends it with a zero). Nothing may be thrown out of them.
 *
 * Versions. The major version changes when a library built before can no longer be used; such a library is
 * refused. Structs that begin with their size grow at their end within one major version: set it to sizeof.
 * What a library says beyond what this release knows must be 0. rondo_op_type and rondo_op_attribute keep
 * their layout within one major version.
 */
#ifndef RONDO_CORE_RONDO_OP_H_
#define RONDO_CORE_RONDO_OP_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RONDO_OP_VISIBLE __attribute__((visibility("default")))
#else
#define RONDO_OP_VISIBLE
#endif
#ifdef __cplusplus
#define RONDO_OP_EXPORT extern "C" RONDO_OP_VISIBLE
extern "C" {
#else
#define RONDO_OP_EXPORT RONDO_OP_VISIBLE
#endif

#define RONDO_OP_ABI_MAJOR 1
#define RONDO_OP_ABI_MINOR 1

/* Once in each library: defines the function that returns the header version it was built with. Rondo calls
 * it first. */
#define RONDO_OP_LIBRARY                                            \
  RONDO_OP_EXPORT uint32_t rondo_op_abi(void);                      \
  RONDO_OP_EXPORT uint32_t rondo_op_abi(void) {                     \
    return (uint32_t)RONDO_OP_ABI_MAJOR << 16 | RONDO_OP_ABI_MINOR; \
  }

#define RONDO_OP_MAX_RANK 8
#define RONDO_OP_MAX_ARGUMENTS 64 /* inputs, and outputs, of one op */

/* The numbers of rondo_dtype in rondo.h. */
typedef enum rondo_op_dtype {
  RONDO_OP_ABSENT = -1, /* an optional input that the node omits */
  RONDO_OP_F32 = 0,
  RONDO_OP_F16 = 1,
  RONDO_OP_BF16 = 2,
  RONDO_OP_F64 = 3,
  RONDO_OP_I64 = 4,
  RONDO_OP_I32 = 5,
  RONDO_OP_I16 = 6,
  RONDO_OP_I8 = 7,
  RONDO_OP_U8 = 8,
  RONDO_OP_U16 = 9,
  RONDO_OP_U32 = 10,
  RONDO_OP_U64 = 11,
  RONDO_OP_BOOL = 12, /* one byte, 0 or 1 */
  RONDO_OP_E4M3 = 13, /* FP8 */
  RONDO_OP_E5M2 = 14
} rondo_op_dtype;

/* A dense row-major tensor. */
typedef struct rondo_op_type {
  int32_t dtype; /* rondo_op_dtype */
  int32_t rank;
  int64_t dims[RONDO_OP_MAX_RANK]; /* `rank` of them */
} rondo_op_type;

typedef enum rondo_op_attribute_kind {
  RONDO_OP_INT = 0,     /* ints[0] */
  RONDO_OP_FLOAT = 1,   /* floats[0] */
  RONDO_OP_STRING = 2,  /* texts[0] */
  RONDO_OP_INTS = 3,    /* `count` ints */
  RONDO_OP_FLOATS = 4,  /* `count` floats */
  RONDO_OP_STRINGS = 5, /* `count` texts */
  RONDO_OP_TENSOR = 6   /* `count` bytes at `data`, of type `type`, aligned to 64 */
} rondo_op_attribute_kind;

typedef struct rondo_op_attribute {
  const char* name;
  int32_t kind; /* rondo_op_attribute_kind */
  size_t count;
  const int64_t* ints;
  const float* floats;
  const char* const* texts; /* zero-terminated */
  const void* data;
  rondo_op_type type;
} rondo_op_attribute;

/* A node of the model that calls an op. */
typedef struct rondo_op_node {
  size_t size;
  const char* name; /* of the node, for messages; may be "" */
  const rondo_op_attribute* attributes;
  size_t num_attributes;
  const rondo_op_type* inputs;
  size_t num_inputs;
  const rondo_op_type* outputs; /* NULL in `infer` */
  size_t num_outputs;           /* how many the node has */
  /* In `create`: 1 if the instance will be enqueued on the CUDA device whose context is current, otherwise 0.
   * Since 1.1. */
  int32_t for_enqueue;
} rondo_op_node;

/* One run. Addresses lie in the process's memory, or, for `enqueue`, in the GPU's memory. The address of a
 * tensor of 0 elements is arbitrary; absent inputs have NULL. An aliased output has the address of its input.
 * */
typedef struct rondo_op_call {
  size_t size;
  const void* const* inputs;
  size_t num_inputs;
  void* const* outputs;
  size_t num_outputs;
  /* Since 1.1: */
  void* workspace; /* of the size that `workspace` returned, aligned to 64, contents arbitrary; NULL: none */
  size_t workspace_bytes;
  void* stream; /* of `enqueue`: a CUstream (cudaStream_t) */
} rondo_op_call;

/* What functions that can fail return. */
typedef enum rondo_op_result {
  RONDO_OP_OK = 0,
  RONDO_OP_BAD_DATA = 1, /* of `run`: it cannot work on this data. The run fails, the session goes on */
  RONDO_OP_FAILED = 2,   /* any other failure. Of `run`: the session repeats the error from now on */
  RONDO_OP_NO_MEMORY = 3 /* RONDO_OP_FAILED, because memory ran out */
} rondo_op_result;

/* Bits of rondo_op::flags. */
#define RONDO_OP_NO_GRAPH 1u /* must not be recorded into a graph: each run calls it, between graphs */
#define RONDO_OP_SIDE_EFFECTS \
  2u /* runs even if nothing reads its outputs, once a node, in the model's order */

/* Bits of rondo_op::input_flags. */
#define RONDO_OP_MUTATED 1u /* the op changes this input; the output that aliases it is its new version */

typedef struct rondo_op {
  size_t size;
  const char* domain;     /* as in the model; not "" (which is ONNX's own) */
  const char* name;       /* the node's op_type */
  uint32_t since_version; /* of the domain, at least 1: holds for models of this version and later ones, up to
                             the next that is registered under the same name */
  uint32_t flags;
  const char* no_graph_reason; /* a sentence for people, with RONDO_OP_NO_GRAPH; otherwise NULL */
  uint32_t min_inputs, max_inputs;
  uint32_t min_outputs, max_outputs; /* at least 1 */
  const uint32_t* input_flags;       /* max_inputs of them; NULL: all 0 */
  /* max_outputs of them: the input whose memory this output shares, or -1. An alias of a mutated input is its
   * new version (exactly one output is); an alias of another input is that input itself, passed through.
   * NULL: all -1. */
  const int32_t* output_aliases;
  /* Fills in the types of all the node's outputs, aliases included. The compiler calls it, and so does
   * loading a plan: the same node must give the same types. */
  int32_t (*infer)(void* user, const rondo_op_node* node, rondo_op_type* outputs, char* error,
                   size_t error_size);
  /* Makes what `run` or `enqueue` needs; never called during a run. NULL: instances are NULL. */
  int32_t (*create)(void* user, const rondo_op_node* node, void** instance, char* error, size_t error_size);
  /* Reads inputs and writes outputs; returns a rondo_op_result. Must not keep addresses. It must not allocate
   * if the embedding program relies on runs that allocate nothing. NULL only if there is `enqueue`: plans
   * that call the op then run on GPUs alone. */
  int32_t (*run)(void* instance, const rondo_op_call* call, char* error, size_t error_size);
  void (*destroy)(void* instance); /* NULL: nothing to destroy */
  void* user;                      /* for infer, create and workspace */
  /* Since 1.1. Bytes of memory that each run needs to work in, on any device; part of the plan's memory.
   * NULL: none. Called after `infer`, in the same places: the same node must give the same number. */
  uint64_t (*workspace)(void* user, const rondo_op_node* node);
  /* Since 1.1. Runs the op on a CUDA device: enqueues its work on `call->stream`, over addresses of device
   * memory, and returns without waiting. The device's context is current here, in `create` and in `destroy`.
   * The stream is captured once, and the graph replays the work at these addresses. So the function may only
   * do what a capture allows: no allocation, no synchronisation, and no work on other streams unless it is
   * forked and joined by events. With RONDO_OP_NO_GRAPH nothing is captured: each run calls it, between
   * graphs. NULL: on a GPU the op runs on the host by `run`, over copies, between graphs. */
  int32_t (*enqueue)(void* instance, const rondo_op_call* call, char* error, size_t error_size);
} rondo_op;

typedef struct rondo_op_registrar {
  size_t size;
  uint32_t abi; /* of Rondo: major << 16 | minor */
  void* context;
  /* Copies `op`. Returns 0, or another number if the op is refused; Rondo keeps the reason, and registers
   * none of the library's ops. */
  int32_t (*add)(void* context, const rondo_op* op);
} rondo_op_registrar;

/* What a library of ops exports, besides RONDO_OP_LIBRARY. Called once by each compiler or driver that opens
 * the library. Returns 0, or another number to refuse. */
typedef int32_t (*rondo_register_ops_function)(const rondo_op_registrar* registrar);
RONDO_OP_VISIBLE int32_t rondo_register_ops(const rondo_op_registrar* registrar);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_CORE_RONDO_OP_H_ */
