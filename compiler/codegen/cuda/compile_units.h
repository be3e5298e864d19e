// CompileUnits: compiles CUDA C++ texts to machine code in parallel, unless they are in the cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/device_headers.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

struct UnitOptions {
  std::string architecture;                            // "sm_90a", "compute_80"
  std::string library_path;                            // as Nvrtc::Open takes it
  std::string cache_folder;                            // of a KernelCache; empty: none
  unsigned threads = 0;                                // the limit; 0: as many as the machine runs at once
  Span<const DeviceHeader> headers = DeviceHeaders();  // headers that the texts may include
};

struct CompiledUnits {
  std::vector<std::vector<uint8_t>> codes;  // of the distinct texts, in the order of their first appearance
  std::vector<uint32_t> code_of;            // for each text, the index of its code
  size_t cached = 0;                        // number of codes found in the cache
  std::string compiler;                     // Nvrtc::Signature; "" without texts
};

// Compiles each distinct text once, with the headers that it reaches: a cached code is valid unless the text
// or one of those has changed. The result depends on the texts and options alone, not on threads or cache.
// Errors: Nvrtc's for the first text that does not compile; kIo for the cache.
Result<CompiledUnits> CompileUnits(const std::vector<std::string>& texts, const UnitOptions& options);

}  // namespace rondo
