// Sessions as Python sees them: rondo/session.py adds what asyncio needs.
#ifndef RONDO_TOOLS_PYTHON_SRC_SESSION_H_
#define RONDO_TOOLS_PYTHON_SRC_SESSION_H_

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareSession(nb::module_& m);

}  // namespace rondo::python

#endif  // RONDO_TOOLS_PYTHON_SRC_SESSION_H_
