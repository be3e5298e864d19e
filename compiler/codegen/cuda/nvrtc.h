// NVRTC, opened at run time: CUDA C++ text to machine code, with no GPU on the machine.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_NVRTC_H_
#define RONDO_COMPILER_CODEGEN_CUDA_NVRTC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace rondo {

// The machine code (an ELF image) of `text` for `architecture` ("sm_90a"). `library_path`: folders, separated
// by ':', in which libnvrtc is looked for before the loader's own path. Contraction of a * b + c is off:
// results are those that the text says. Errors: kUnsupported if no libnvrtc is found (naming where it was
// looked for), kInternal with the compiler's log. Thread-safe.
Result<std::vector<uint8_t>> CompileCuda(const std::string& text, const std::string& architecture,
                                         const std::string& library_path);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_NVRTC_H_
