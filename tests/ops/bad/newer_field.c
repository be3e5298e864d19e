/* A library of a later minor version, whose op sets a field that this release does not know. */
#include "core/rondo_op.h"

RONDO_OP_LIBRARY

static int32_t infer(void* user, const rondo_op_node* node, rondo_op_type* outputs, char* error,
                     size_t error_size) {
  (void)user, (void)error, (void)error_size;
  outputs[0] = node->inputs[0];
  return 0;
}
static int32_t run(void* instance, const rondo_op_call* call, char* error, size_t error_size) {
  (void)instance, (void)call, (void)error, (void)error_size;
  return RONDO_OP_OK;
}

RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
  struct {
    rondo_op op;
    void* later;
  } newer = {{0}, 0};
  newer.op.size = sizeof(newer);
  newer.op.domain = "later";
  newer.op.name = "Plain";
  newer.op.since_version = 1;
  newer.op.min_inputs = newer.op.max_inputs = 1;
  newer.op.min_outputs = newer.op.max_outputs = 1;
  newer.op.infer = infer;
  newer.op.run = run;
  if (registrar->add(registrar->context, &newer.op) != 0) return 1; /* says no more than it may */
  newer.op.name = "Newer";
  newer.later = &newer;
  return registrar->add(registrar->context, &newer.op);
}
