// Device code that lies in files of its own (compiler/codegen/cuda/device), embedded as text.
//
// A kernel's text names the headers that it builds on (KernelText::headers); the preludes come before them.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_HEADERS_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_HEADERS_H_

#include <string_view>

#include "core/span.h"

namespace rondo {

struct DeviceHeader {
  std::string_view name;  // of the file, without .cuh
  std::string_view text;
};

// All of them, by name. The text lives as long as the program.
Span<const DeviceHeader> DeviceHeaders();

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_HEADERS_H_
