// Makes Python's plan object from bytes. It is declared apart for compile.cc, which includes the compiler's
// headers and so cannot include rondo.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/python/src/errors.h"

namespace rondo::python {

nb::object PlanOfBytes(std::vector<uint8_t> bytes);

}  // namespace rondo::python
