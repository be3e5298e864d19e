#include "tests/folders.h"

namespace rondo {

std::string SourceFolder() { return RONDO_SOURCE_DIR; }
std::string BuildFolder() { return RONDO_BINARY_DIR; }

}  // namespace rondo
