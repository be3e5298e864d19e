// The Python binding of sessions. rondo/session.py adds what asyncio needs.
#pragma once

#include "tools/python/src/errors.h"

namespace rondo::python {

void DeclareSession(nb::module_& m);

}  // namespace rondo::python
