// The folder in which commands keep compiled kernels.
#pragma once

#include <string>

namespace rondo::tools {

// The default folder: rondo/kernels in $XDG_CACHE_HOME or ~/.cache. "" if neither is set, or if it cannot be
// used; the latter is reported on standard error in the name of `command`.
std::string DefaultKernelFolder(const char* command);

}  // namespace rondo::tools
