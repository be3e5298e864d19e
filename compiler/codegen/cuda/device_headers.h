// Device code: CUDA C++ headers in files of their own (compiler/codegen/cuda/device), embedded as text.
//
// A kernel's text begins with #include lines for the headers that it needs; NVRTC gets those and the ones
// they include. So a kernel is compiled from its text and these headers, and nothing else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/span.h"

namespace rondo {

struct DeviceHeader {
  std::string_view name;  // as an #include says it: the path of the file from the root
  std::string_view text;
};

// All of them. They live as long as the program.
Span<const DeviceHeader> DeviceHeaders();

// The line that includes device/`stem`.cuh.
std::string IncludeLine(std::string_view stem);

// The `headers` that the text includes, directly or not, each once and after those that it includes itself.
// Only #include "..." at the beginning of a line counts, whatever #if is around it. Unknown names are
// skipped: the compiler reports them.
std::vector<DeviceHeader> ReachedHeaders(std::string_view text, Span<const DeviceHeader> headers);

// Everything that `text` is compiled from as one text: the headers that it reaches with their names, then the
// text.
std::string WholeText(std::string_view text, Span<const DeviceHeader> headers);

}  // namespace rondo
