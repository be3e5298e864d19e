/* Three custom operators of the domain "com.example", all over f32:
 *
 *   Affine      y = scale * x + shift               attributes scale, shift (floats)
 *   DecayedSum  total, x -> decay * total + x       in the memory of total; attribute decay (float)
 *   Trace       x -> x, passed through              writes a line about x at each run; attributes label, path
 * (strings)
 *
 * Affine is a minimal op. DecayedSum changes an argument in place: bound to a state of the session, it keeps
 * its sum from run to run. Trace writes a file, which no graph can record, and declares that.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/rondo_op.h" /* installed as rondo/rondo_op.h */

RONDO_OP_LIBRARY

/* ------------------------------------------------------------------------------------------ shared */

static int32_t refuse(char* error, size_t error_size, const char* why) {
  snprintf(error, error_size, "%s", why);
  return 1;
}

static int32_t no_memory(char* error, size_t error_size) {
  refuse(error, error_size, "out of memory");
  return RONDO_OP_NO_MEMORY;
}

static const rondo_op_attribute* find(const rondo_op_node* node, const char* name, int32_t kind) {
  for (size_t i = 0; i < node->num_attributes; ++i) {
    if (strcmp(node->attributes[i].name, name) == 0 && node->attributes[i].kind == kind)
      return &node->attributes[i];
  }
  return NULL;
}

static float float_of(const rondo_op_node* node, const char* name, float otherwise) {
  const rondo_op_attribute* a = find(node, name, RONDO_OP_FLOAT);
  return a == NULL ? otherwise : a->floats[0];
}

static const char* text_of(const rondo_op_node* node, const char* name, const char* otherwise) {
  const rondo_op_attribute* a = find(node, name, RONDO_OP_STRING);
  return a == NULL ? otherwise : a->texts[0];
}

static int64_t elements_of(const rondo_op_type* type) {
  int64_t n = 1;
  for (int32_t i = 0; i < type->rank; ++i) n *= type->dims[i];
  return n;
}

/* Whether all inputs are f32 and have the output's shape. */
static int32_t infer_same(void* user, const rondo_op_node* node, rondo_op_type* outputs, char* error,
                          size_t error_size) {
  (void)user;
  const rondo_op_type* first = &node->inputs[0];
  for (size_t i = 0; i < node->num_inputs; ++i) {
    const rondo_op_type* type = &node->inputs[i];
    if (type->dtype != RONDO_OP_F32) return refuse(error, error_size, "all inputs must be f32");
    if (type->rank != first->rank ||
        memcmp(type->dims, first->dims, (size_t)type->rank * sizeof(int64_t)) != 0) {
      return refuse(error, error_size, "the inputs must have one shape");
    }
  }
  outputs[0] = *first;
  return 0;
}

/* An instance of an op. It never changes after `create`, so several sessions may run it at once. */
typedef struct instance {
  int64_t elements;
  float scale, shift;
  int file; /* of Trace */
  char label[64];
} instance;

static instance* new_instance(const rondo_op_node* node) {
  instance* self = calloc(1, sizeof(*self));
  if (self != NULL) self->elements = elements_of(&node->inputs[0]);
  return self;
}

/* ------------------------------------------------------------------------------------------ Affine */

static int32_t create_affine(void* user, const rondo_op_node* node, void** out, char* error,
                             size_t error_size) {
  (void)user;
  instance* self = new_instance(node);
  if (self == NULL) return no_memory(error, error_size);
  self->scale = float_of(node, "scale", 1);
  self->shift = float_of(node, "shift", 0);
  *out = self;
  return 0;
}

static int32_t run_affine(void* self, const rondo_op_call* call, char* error, size_t error_size) {
  (void)error, (void)error_size;
  const instance* i = self;
  const float* x = call->inputs[0];
  float* y = call->outputs[0];
  for (int64_t k = 0; k < i->elements; ++k) y[k] = i->scale * x[k] + i->shift;
  return RONDO_OP_OK;
}

/* -------------------------------------------------------------------------------------- DecayedSum */

static int32_t create_decayed_sum(void* user, const rondo_op_node* node, void** out, char* error,
                                  size_t error_size) {
  (void)user;
  instance* self = new_instance(node);
  if (self == NULL) return no_memory(error, error_size);
  self->scale = float_of(node, "decay", 1);
  *out = self;
  return 0;
}

/* outputs[0] is the memory of inputs[0]. */
static int32_t run_decayed_sum(void* self, const rondo_op_call* call, char* error, size_t error_size) {
  (void)error, (void)error_size;
  const instance* i = self;
  const float* x = call->inputs[1];
  float* total = call->outputs[0];
  for (int64_t k = 0; k < i->elements; ++k) total[k] = i->scale * total[k] + x[k];
  return RONDO_OP_OK;
}

/* ------------------------------------------------------------------------------------------- Trace */

static int32_t create_trace(void* user, const rondo_op_node* node, void** out, char* error,
                            size_t error_size) {
  (void)user;
  const char* path = text_of(node, "path", "");
  instance* self = new_instance(node);
  if (self == NULL) return no_memory(error, error_size);
  snprintf(self->label, sizeof(self->label), "%s", text_of(node, "label", "trace"));
  self->file = path[0] == '\0' ? dup(2) : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (self->file < 0) {
    free(self);
    snprintf(error, error_size, "its file %s cannot be opened", path);
    return 1;
  }
  *out = self;
  return 0;
}

static int32_t run_trace(void* self, const rondo_op_call* call, char* error, size_t error_size) {
  const instance* i = self;
  const float* x = call->inputs[0];
  float least = INFINITY, most = -INFINITY;
  for (int64_t k = 0; k < i->elements; ++k) {
    if (isnan(x[k])) {
      snprintf(error, error_size, "element %lld of \"%s\" is not a number", (long long)k, i->label);
      return RONDO_OP_BAD_DATA;
    }
    least = x[k] < least ? x[k] : least;
    most = x[k] > most ? x[k] : most;
  }
  char line[160];
  const int length = snprintf(line, sizeof(line), "%s: %lld elements from %g to %g\n", i->label,
                              (long long)i->elements, (double)least, (double)most);
  if (write(i->file, line, (size_t)length) == length) return RONDO_OP_OK;
  refuse(error, error_size, "the line cannot be written");
  return RONDO_OP_FAILED;
}

static void destroy_trace(void* self) {
  close(((instance*)self)->file);
  free(self);
}

/* ---------------------------------------------------------------------------------------- the list */

RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
  static const uint32_t first_changes[] = {RONDO_OP_MUTATED, 0};
  static const int32_t first[] = {0};
  const rondo_op affine = {.size = sizeof(rondo_op),
                           .domain = "com.example",
                           .name = "Affine",
                           .since_version = 1,
                           .min_inputs = 1,
                           .max_inputs = 1,
                           .min_outputs = 1,
                           .max_outputs = 1,
                           .infer = infer_same,
                           .create = create_affine,
                           .run = run_affine,
                           .destroy = free};
  rondo_op decayed_sum = affine;
  decayed_sum.name = "DecayedSum";
  decayed_sum.min_inputs = decayed_sum.max_inputs = 2;
  decayed_sum.input_flags = first_changes;
  decayed_sum.output_aliases = first;
  decayed_sum.create = create_decayed_sum;
  decayed_sum.run = run_decayed_sum;
  rondo_op trace = affine;
  trace.name = "Trace";
  trace.flags = RONDO_OP_NO_GRAPH | RONDO_OP_SIDE_EFFECTS;
  trace.no_graph_reason = "it writes a line to a file at each run";
  trace.output_aliases = first;
  trace.create = create_trace;
  trace.run = run_trace;
  trace.destroy = destroy_trace;
  const rondo_op* all[] = {&affine, &decayed_sum, &trace};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    if (registrar->add(registrar->context, all[i]) != 0) return 1;
  }
  return 0;
}
