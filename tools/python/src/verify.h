// What rondo/testing.py asks of a plan.
#pragma once

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareVerify(nb::module_& m);

}  // namespace rondo::python
