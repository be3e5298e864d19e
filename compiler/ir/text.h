// printf-style text for Dump and Validate. Internal to compiler/ir.
#pragma once

#include <string>

namespace rondo::ir {

// Cut at 511 bytes.
std::string Text(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rondo::ir
