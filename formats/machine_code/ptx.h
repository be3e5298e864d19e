// Ptx: NVIDIA's portable assembly, as far as a launch needs it.
//
// Grammar: the PTX ISA, "Directives". Only what stands outside of functions' bodies is understood: .target,
// and of each .entry its parameters and what it says of threads and clusters.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/span.h"
#include "core/status.h"
#include "formats/machine_code/function_needs.h"

namespace rondo {

// Names view the text, which must outlive it. Safe against any bytes.
class Ptx {
 public:
  // Whether a code claims to be PTX and not an ELF image.
  static bool Is(Span<const uint8_t> code);
  // `code` ends in its only zero, as NVIDIA's driver takes it. Error: kCorrupt, naming what is wrong.
  static Result<Ptx> Read(Span<const uint8_t> code);

  int architecture() const { return architecture_; }  // 80: of .target sm_80
  std::vector<std::string_view> Entries() const;
  // Registers and shared memory are not known. Error: kCorrupt without such a function.
  Result<FunctionNeeds> Function(std::string_view entry) const;

 private:
  class Reader;
  int architecture_ = 0;
  std::vector<std::pair<std::string_view, FunctionNeeds>> entries_;
};

}  // namespace rondo
