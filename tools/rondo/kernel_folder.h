// Where commands keep the kernels that they have compiled.
#ifndef RONDO_TOOLS_RONDO_KERNEL_FOLDER_H_
#define RONDO_TOOLS_RONDO_KERNEL_FOLDER_H_

#include <string>

namespace rondo::tools {

// The folder, if nobody says which: rondo/kernels in $XDG_CACHE_HOME or ~/.cache. "" if there is no such
// place; one that is there but cannot be used is named on standard error, as `command`.
std::string DefaultKernelFolder(const char* command);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_KERNEL_FOLDER_H_
