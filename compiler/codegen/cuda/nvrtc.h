// NVRTC, opened at run time: CUDA C++ text to machine code, with no GPU on the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/device_headers.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

// A libnvrtc that has been opened: a handle that may be copied and used by several threads. The library stays
// open as long as the process.
class Nvrtc {
 public:
  // `library_path`: folders, separated by ':', in which libnvrtc is looked for before the loader's own path.
  // Errors: kUnsupported if none is found, naming where it was looked for, or if it lacks a function.
  static Result<Nvrtc> Open(const std::string& library_path);

  // The machine code (an ELF image) of `text` for `architecture` ("sm_90a"), or, for a virtual one
  // ("compute_80"), its PTX, zero-terminated. It may include `headers`, by their names, and nothing else.
  // Contraction of a * b + c is off: results are those that the text says. Errors: kInternal with the
  // compiler's log.
  Result<std::vector<uint8_t>> Compile(const std::string& text, Span<const DeviceHeader> headers,
                                       const std::string& architecture) const;

  // What the code of a text depends on besides it: the library's version and the options of Compile.
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
