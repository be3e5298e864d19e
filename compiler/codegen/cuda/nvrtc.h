// NVRTC, opened at run time: compiles CUDA C++ text to machine code, without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/device_headers.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

// An opened libnvrtc: a handle that may be copied and used by several threads. The library stays open as long
// as the process.
class Nvrtc {
 public:
  // `library_path`: folders, separated by ':', in which libnvrtc is searched before the loader's own path.
  // Errors: kUnsupported if none is found, naming the places searched, or if it lacks a function.
  static Result<Nvrtc> Open(const std::string& library_path);

  // The machine code (an ELF image) of `text` for `architecture` ("sm_90a") or, for a virtual one
  // ("compute_80"), its PTX, zero-terminated. The text may include `headers` by their names, and nothing
  // else. Contraction of a * b + c is off, so results are exactly those of the text. Errors: kInternal with
  // the compiler's log.
  Result<std::vector<uint8_t>> Compile(const std::string& text, Span<const DeviceHeader> headers,
                                       const std::string& architecture) const;

  // Everything besides the text that its code depends on: the library's version and the options of Compile.
  std::string Signature(const std::string& architecture) const;

  struct Functions;

 private:
  explicit Nvrtc(const Functions* functions) : functions_(functions) {}

  const Functions* functions_;
};

// Opens the library and compiles one text, which may include any device header.
Result<std::vector<uint8_t>> CompileCuda(const std::string& text, const std::string& architecture,
                                         const std::string& library_path);

}  // namespace rondo
