// The folders that tests read and may write.
#pragma once

#include <string>

namespace rondo {

// The top folder of the sources.
std::string SourceFolder();
// The folder of the build, where tests may leave files.
std::string BuildFolder();

}  // namespace rondo
