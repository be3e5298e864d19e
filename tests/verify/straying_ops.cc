// The ops of tests/plan/call_plan.h as a library in which Scale also writes a float after its output.
#include "tests/plan/call_plan.h"

namespace {

const rondo_op_registrar* outer;
int32_t (*scale)(void* instance, const rondo_op_call* call, char* error, size_t error_size);

}  // namespace

RONDO_OP_LIBRARY

RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
  outer = registrar;
  rondo_op_registrar inner = *registrar;
  inner.context = nullptr;
  inner.add = [](void*, const rondo_op* op) {
    rondo_op straying = *op;
    if (std::string_view(op->name) != "Scale") return outer->add(outer->context, op);
    scale = op->run;
    straying.run = [](void* instance, const rondo_op_call* call, char* error, size_t error_size) {
      const int32_t result = scale(instance, call, error, error_size);
      static_cast<float*>(call->outputs[0])[4] = 1.5f;
      return result;
    };
    return outer->add(outer->context, &straying);
  };
  return rondo::RegisterTestOps(&inner);
}
