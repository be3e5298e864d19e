// Where commands keep the kernels that they have compiled.
#ifndef RONDO_TOOLS_RONDO_KERNEL_FOLDER_H_
#define RONDO_TOOLS_RONDO_KERNEL_FOLDER_H_

#include <string>

namespace rondo::tools {

// The default folder: rondo/kernels in $XDG_CACHE_HOME or ~/.cache. "" if neither is set, or if it cannot be
// used, which `command` then says on standard error.
std::string DefaultKernelFolder(const char* command);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_KERNEL_FOLDER_H_
