// PtxThread: a thread that executes a piece of inline PTX: its operands, the registers that the text
// declares, the machine.
#pragma once

#include <cstring>
#include <map>
#include <string>

#include "tests/cuda/emulated/ptx.h"
#include "tests/cuda/emulated/simt_machine.h"

namespace rondo::emulated {

class PtxThread {
 public:
  PtxThread(SimtMachine* machine, const char* text, const simt::Operand* operands, size_t count)
      : machine(*machine), text(text), operands(operands), count(count) {}

  SimtMachine& machine;
  const char* const text;
  const simt::Operand* const operands;
  const size_t count;

  // The value of an operand, register or immediate.
  uint64_t Get(const PtxArgument& argument) const;
  void Set(const PtxArgument& argument, uint64_t value);
  uint32_t Word(const PtxArgument& argument) const { return static_cast<uint32_t>(Get(argument)); }
  float Float(const PtxArgument& argument) const {
    const uint32_t bits = Word(argument);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  void SetFloat(const PtxArgument& argument, float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    Set(argument, bits);
  }
  // The same operand of another lane, which executes the same text.
  const simt::Operand& Of(uint32_t lane, const PtxArgument& argument) const;

 private:
  std::map<std::string, uint64_t> registers_;
};

// Writes to the destination of an `asm` operand.
void Write(const simt::Operand& operand, uint64_t value);

// The known instructions, by the beginning of their names; the longest match counts.
struct PtxRow {
  const char* begins;
  PtxFunction run;
};
extern const PtxRow kScalarInstructions[], kMemoryInstructions[],
    kMatrixInstructions[];  // a null name ends each

// Convert f16 (bf16 = false) and bf16, as bits, to float and back; rounded to the nearest even.
float WidenHalf(uint16_t bits, bool bf16);
uint16_t NarrowToHalf(float value, bool bf16);
// The same for FP8, E5M2 or E4M3; larger numbers become the greatest number.
float WidenFp8(uint8_t bits, bool e5m2);
uint8_t NarrowToFp8(float value, bool e5m2);

}  // namespace rondo::emulated
