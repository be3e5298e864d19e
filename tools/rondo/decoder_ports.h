// Finds the ports of one program of a decoder, by the names that exporters use and by shape, and the text
// that refuses a port. Internal to decoder_form.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/plan.h"
#include "core/status.h"
#include "tools/rondo/decoder_form.h"

namespace rondo::tools {

// The role of inputs with this name, which is not a state's. False if exporters use no such name.
bool FindInputRole(std::string_view name, PortRole* role);

// Whether the port is a state that caches what was read, and not one that Rondo adds for sampling.
bool IsCache(const Port& port);

// Whether a cache of that name has keys or values of the encoder's output: "past_key_values.0.encoder.key",
// "past_key_cross_0".
bool IsEncoders(std::string_view name);

// Finds the ports of program number `program`. Sets in `form` what all programs must agree on (texts, words,
// context, rounds), and refuses a program that does not agree. The encoder must have been found.
Result<DecoderProgram> FindPorts(const PlanData& plan, const FormOptions& options, uint32_t program,
                                 DecoderForm* form);

}  // namespace rondo::tools
