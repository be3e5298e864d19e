// Text by printf's formats, as Dump and Validate put it together. Internal to compiler/ir.
#pragma once

#include <string>

namespace rondo::ir {

// Cut at 511 bytes.
std::string Text(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rondo::ir
