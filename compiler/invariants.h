// Invariants that hold after passes, by the names in the pipeline's table. Each can be checked by itself.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/compilation.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

// Bits. The text of each is in the table of invariants.cc.
using Invariants = uint32_t;
inline constexpr Invariants kWellFormed = 1 << 0;   // of the graph
inline constexpr Invariants kTidy = 1 << 1;         // of the graph and the bodies of its loops
inline constexpr Invariants kStatesNamed = 1 << 2;  // of the graph
inline constexpr Invariants kLowered = 1 << 3;      // of the lowered program, as all below
inline constexpr Invariants kOrdered = 1 << 4;
inline constexpr Invariants kNoLoops = 1 << 5;
inline constexpr Invariants kPartitioned = 1 << 6;
inline constexpr Invariants kPlaced = 1 << 7;
inline constexpr Invariants kTwoUnits = 1 << 8;
inline constexpr Invariants kTogether = 1 << 9;
inline constexpr Invariants kVerified = 1 << 10;  // of the emitted plan

struct Invariant {
  Invariants bit;
  const char* name;
  const char* says;
  bool always;  // cheap compared with the passes before it: always checked
  // An error says how it is broken; kInternal, unless the model asks for something impossible. `program` is
  // null for invariants of the emitted plan.
  Status (*check)(const Compilation& compilation, const ProgramInWork* program);
};

// The table.
Span<const Invariant> AllInvariants();

// "well-formed, tidy".
std::string NamesOf(Invariants invariants);

// The error of the first of `invariants` that does not hold: "what it leaves is not tidy: node %3 (matmul) is
// dead". `thorough`: includes expensive checks. Pure.
Status CheckInvariants(Invariants invariants, bool thorough, const Compilation& compilation,
                       const ProgramInWork* program);

}  // namespace rondo
