// The compiler as Python sees it: rondo/compiling.py says what each option is.
#ifndef RONDO_TOOLS_PYTHON_SRC_COMPILE_H_
#define RONDO_TOOLS_PYTHON_SRC_COMPILE_H_

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareCompile(nb::module_& m);

}  // namespace rondo::python

#endif  // RONDO_TOOLS_PYTHON_SRC_COMPILE_H_
