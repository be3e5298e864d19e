// How compile.cc, which includes the compiler's headers and so cannot include rondo.hpp, gives a plan to
// Python.
#ifndef RONDO_TOOLS_PYTHON_SRC_PLAN_OF_BYTES_H_
#define RONDO_TOOLS_PYTHON_SRC_PLAN_OF_BYTES_H_

#include <cstdint>
#include <vector>

#include "tools/python/src/errors.h"

namespace rondo::python {

nb::object PlanOfBytes(std::vector<uint8_t> bytes);

}  // namespace rondo::python

#endif  // RONDO_TOOLS_PYTHON_SRC_PLAN_OF_BYTES_H_
