/* A library with one custom op, compiled with only the installed header. */
#include <rondo/rondo_op.h>

RONDO_OP_LIBRARY

static int32_t infer(void* user, const rondo_op_node* node, rondo_op_type* outputs, char* error,
                     size_t error_size) {
  (void)user, (void)error, (void)error_size;
  outputs[0] = node->inputs[0];
  return RONDO_OP_OK;
}

static int32_t run(void* instance, const rondo_op_call* call, char* error, size_t error_size) {
  (void)instance, (void)error, (void)error_size;
  *(char*)call->outputs[0] = *(const char*)call->inputs[0];
  return RONDO_OP_OK;
}

RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
  rondo_op op = {0};
  op.size = sizeof(op);
  op.domain = "consumer";
  op.name = "First";
  op.since_version = 1;
  op.min_inputs = op.max_inputs = 1;
  op.min_outputs = op.max_outputs = 1;
  op.infer = infer;
  op.run = run;
  return registrar->add(registrar->context, &op);
}
