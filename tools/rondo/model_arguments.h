// What compile's arguments say of its models: PROGRAM=PATH, and --shape and --bind, for all of them or one.
#ifndef RONDO_TOOLS_RONDO_MODEL_ARGUMENTS_H_
#define RONDO_TOOLS_RONDO_MODEL_ARGUMENTS_H_

#include <string>
#include <vector>

#include "compiler/compile.h"

namespace rondo::tools {

// "NAME=PATH" or "PATH"; a path may hold '=' itself if such a file exists.
ModelSource ParseModel(const std::string& argument);

// Puts "NAME=1x128" and "NAME=true" into `options`, or into its model that "PROGRAM:" names in front. What is
// wrong with the first that is, as a sentence; "" if nothing is.
std::string ReadModelArguments(const std::vector<std::string>& shapes, const std::vector<std::string>& bound,
                               CompileOptions* options);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_MODEL_ARGUMENTS_H_
