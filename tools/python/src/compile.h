// The compiler as Python sees it: rondo/compiling.py says what each option is.
#pragma once

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareCompile(nb::module_& m);

}  // namespace rondo::python
