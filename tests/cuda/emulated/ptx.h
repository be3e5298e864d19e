// Inline PTX as text, parsed into statements and their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::emulated {

class PtxThread;
struct PtxStatement;
using PtxFunction = void (*)(PtxThread&, const PtxStatement&);

struct PtxArgument {
  enum Kind {
    kOperand,    // %3: number
    kRegister,   // a register that the text declares: name
    kImmediate,  // 16, 0xea, 1.0: number; of a float, its bits
    kList,       // {a, b}
    kAddress,    // [a], [a, {x, y}]
    kNothing,    // _
  };
  Kind kind = kNothing;
  uint64_t number = 0;
  std::string name;
  std::vector<PtxArgument> inside;  // of lists and addresses
};

struct PtxStatement {
  std::string op;  // "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
  std::vector<PtxArgument> arguments;
  PtxFunction run = nullptr;
  // Whether the instruction's name has this part: "bf16", "trans".
  bool Has(const char* part) const;
};

// Parses the text; `run` is not set yet. Declarations of registers are left out.
std::vector<PtxStatement> ParsePtx(const std::string& text);

// Null if the emulator does not know the instruction.
PtxFunction FindPtx(const std::string& op);

}  // namespace rondo::emulated
