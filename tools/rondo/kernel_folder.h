// Where commands keep the kernels that they have compiled.
#pragma once

#include <string>

namespace rondo::tools {

// The default folder: rondo/kernels in $XDG_CACHE_HOME or ~/.cache. "" if neither is set, or if it cannot be
// used, which `command` then says on standard error.
std::string DefaultKernelFolder(const char* command);

}  // namespace rondo::tools
