/* A library built for an interface of another major version. */
#include "core/rondo_op.h"

RONDO_OP_EXPORT uint32_t rondo_op_abi(void);
RONDO_OP_EXPORT uint32_t rondo_op_abi(void) { return (uint32_t)(RONDO_OP_ABI_MAJOR + 1) << 16 | 3; }
RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
  return registrar->add == 0; /* never called */
}
