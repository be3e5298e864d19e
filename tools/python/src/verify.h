// What rondo/testing.py asks of a plan.
#ifndef RONDO_TOOLS_PYTHON_SRC_VERIFY_H_
#define RONDO_TOOLS_PYTHON_SRC_VERIFY_H_

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareVerify(nb::module_& m);

}  // namespace rondo::python

#endif  // RONDO_TOOLS_PYTHON_SRC_VERIFY_H_
