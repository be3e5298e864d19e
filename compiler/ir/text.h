// Text by printf's formats, as Dump and Validate put it together. Internal to compiler/ir.
#ifndef RONDO_COMPILER_IR_TEXT_H_
#define RONDO_COMPILER_IR_TEXT_H_

#include <string>

namespace rondo::ir {

// Cut at 511 bytes.
std::string Text(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rondo::ir

#endif  // RONDO_COMPILER_IR_TEXT_H_
