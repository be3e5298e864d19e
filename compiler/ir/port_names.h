// Names that inputs and outputs of models usually have.
#ifndef RONDO_COMPILER_IR_PORT_NAMES_H_
#define RONDO_COMPILER_IR_PORT_NAMES_H_

#include <string>
#include <vector>

namespace rondo::ir {

// The names that the output of state `input` usually has; some may be empty.
std::vector<std::string> StateOutputNames(const std::string& input);

}  // namespace rondo::ir

#endif  // RONDO_COMPILER_IR_PORT_NAMES_H_
