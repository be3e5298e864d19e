// Arguments about models: PROGRAM=PATH, and --shape and --bind for one model or all.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"

namespace rondo::tools {

// "NAME=PATH" or "PATH"; a path may hold '=' itself if such a file exists.
ModelSource ParseModel(const std::string& argument);

// Puts "NAME=1x128" and "NAME=true", "NAME=[1,2]" or "NAME=FILE.npy" into `options`, or into the model named
// by a leading "PROGRAM:". Returns a sentence about the first wrong argument; "" if there is none.
std::string ReadModelArguments(const std::vector<std::string>& shapes, const std::vector<std::string>& bound,
                               CompileOptions* options);

}  // namespace rondo::tools
