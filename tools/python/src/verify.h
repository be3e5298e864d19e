// The checks of a plan that rondo/testing.py uses.
#pragma once

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareVerify(nb::module_& m);

}  // namespace rondo::python
