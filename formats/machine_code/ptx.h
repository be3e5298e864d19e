// Ptx: reads the parts of NVIDIA's portable assembly that a launch needs.
//
// Grammar: the PTX ISA, "Directives". Only text outside function bodies is understood: .target, and the
// parameters, thread limits and clusters of each .entry.
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
  // Whether a code claims to be PTX, and not an ELF image.
  static bool Is(Span<const uint8_t> code);
  // `code` must end in its only zero, as NVIDIA's driver requires. Error: kCorrupt, naming the fault.
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
