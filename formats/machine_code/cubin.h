// Cubin: an ELF image of machine code, as NVIDIA's compilers write it.
//
// Format: ELF64, little-endian, machine 190. A function F has a section .text.F, a symbol, and attributes in
// .nv.info.F; the registers of all lie in .nv.info, by symbol; static shared memory is the size of
// .nv.shared.F. The attributes are described nowhere: those read here are what NVRTC 12 and 13 write.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/span.h"
#include "core/status.h"
#include "formats/machine_code/function_needs.h"

namespace rondo {

// A view of a binary, which must outlive it. Safe against any bytes: out-of-bounds contents are errors.
class Cubin {
 public:
  // Checks that header, sections, their names and symbols are in bounds, and that no section with bytes in
  // the file reaches beyond its end. Error: kCorrupt, naming the place.
  static Result<Cubin> Read(Span<const uint8_t> binary);

  int architecture() const { return architecture_; }  // 90: of sm_90 and sm_90a
  // The names of all functions that can be launched.
  std::vector<std::string_view> Entries() const;
  // Error: kCorrupt if there is no such function, or if its description is invalid.
  Result<FunctionNeeds> Function(std::string_view entry) const;

 private:
  struct Section {
    std::string_view name;
    uint32_t type = 0, link = 0, info = 0;
    uint64_t offset = 0, bytes = 0, entry_bytes = 0;
  };
  struct Symbol {
    std::string_view name;
    uint32_t index = 0;
    uint8_t info = 0, other = 0;
    uint16_t section = 0;
    uint64_t value = 0, bytes = 0;
  };
  // An attribute: its kind, and the bytes of its value.
  struct Attribute {
    uint8_t format = 0, kind = 0;
    uint16_t number = 0;  // the value, if it is a number
    Span<const uint8_t> value;
  };

  Status ReadSections();
  Status ReadSymbols();
  // The text at `offset` of a section of names; it must end within the section.
  Result<std::string_view> TextAt(const Section& names, uint32_t offset) const;
  const Section* Find(std::string_view prefix, std::string_view entry) const;
  Result<std::vector<Attribute>> AttributesOf(const Section& section) const;
  Status ReadAttributes(const Section& section, FunctionNeeds* needs) const;
  Status ReadRegisters(const Symbol& symbol, const Section& text, FunctionNeeds* needs) const;
  bool IsEntry(const Symbol& symbol) const;

  Span<const uint8_t> binary_;
  int architecture_ = 0;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
};

}  // namespace rondo
