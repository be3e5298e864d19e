// The encoder among a plan's programs (EncoderProgram in decoder_form.h). Internal to decoder_form.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "tools/rondo/decoder_form.h"

namespace rondo::tools {

// Finds the program without states whose output another program attends to, or one whose only outputs are
// states that others attend to. Moves it from `programs` to `encoder`; without one, both stay.
void FindEncoder(const PlanData& plan, const FormOptions& options, std::vector<uint32_t>* programs,
                 EncoderProgram* encoder);

// kUnsupported if nothing gives one of the encoder's inputs.
Status CheckEncoder(const PlanData& plan, const FormOptions& options, const DecoderForm& form);

}  // namespace rondo::tools
