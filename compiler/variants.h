// Variants: further schedules of a program, which need less memory and more time, in the same plan
// (Program::variant_of). Weights and states are those of the program; a session chooses when it is made.
//
// The smallest variant differs from the fastest in what the passes from `variants` on do: rows of the work
// around the peak are computed in chunks, one after another; fusions are undone wherever that keeps less
// alive, whatever the time; and nothing that runs beside a collective may enlarge the arena.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/compile.h"

namespace rondo {

// "fastest" or "fastest,smallest"; no value for other texts.
std::optional<Variant> ParseVariants(std::string_view text);

// "main (smallest)".
std::string NameOfVariant(const std::string& program, Variant variant);

}  // namespace rondo
