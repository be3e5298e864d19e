/* A library that refuses to be registered. */
#include "core/rondo_op.h"

RONDO_OP_LIBRARY

RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
  (void)registrar;
  return 17;
}
