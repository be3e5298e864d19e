// The compiler's binding for Python. rondo/compiling.py documents the options.
#pragma once

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareCompile(nb::module_& m);

}  // namespace rondo::python
