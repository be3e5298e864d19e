#include "tools/rondo/find_encoder.h"

#include <algorithm>
#include <string>

#include "tools/rondo/decoder_ports.h"

namespace rondo::tools {
namespace {

// The input with `role`, or kNone.
uint32_t InputNamed(const Program& program, PortRole wanted, const FormOptions& options) {
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    PortRole role;
    const std::string name(program.inputs[i].name);
    if (options.given.count(name) == 0 && FindInputRole(name, &role) && role == wanted) return i;
  }
  return kNone;
}
// Makes program `number` the encoder.
void TakeEncoder(const PlanData& plan, const FormOptions& options, uint32_t number, EncoderProgram* encoder) {
  const Program& program = plan.programs[number];
  encoder->program = number;
  encoder->tokens = InputNamed(program, PortRole::kTokens, options);
  encoder->mask = InputNamed(program, PortRole::kMask, options);
  const uint32_t read = encoder->tokens;
  if (read != kNone) encoder->length = plan.buffers[program.inputs[read].buffer].shape[1];
  for (uint32_t i = 0; i < program.inputs.size() && read == kNone; ++i) {
    PortRole role;
    const std::string name(program.inputs[i].name);
    if (options.given.count(name) != 0 && FindInputRole(name, &role) && role == PortRole::kMask)
      encoder->given_mask = i;
  }
}

// Finds the program whose only outputs are states that others attend to, if there is one: an encoder that
// computes the decoder's keys and values, as in onnxruntime-genai's Whisper.
void FindEncoderOfCaches(const PlanData& plan, const FormOptions& options, std::vector<uint32_t>* programs,
                         EncoderProgram* encoder) {
  for (size_t i = 0; i < programs->size() && programs->size() > 1; ++i) {
    const auto& inputs = plan.programs[(*programs)[i]].inputs;
    const auto is_state = [](const Port& port) { return port.is_state; };
    const auto is_own = [](const Port& port) {
      return port.is_state && !(IsCache(port) && IsEncoders(port.name));
    };
    if (std::none_of(inputs.begin(), inputs.end(), is_state) ||
        std::any_of(inputs.begin(), inputs.end(), is_own))
      continue;
    TakeEncoder(plan, options, (*programs)[i], encoder);
    programs->erase(programs->begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

}  // namespace

void FindEncoder(const PlanData& plan, const FormOptions& options, std::vector<uint32_t>* programs,
                 EncoderProgram* encoder) {
  const Buffer* encoded = nullptr;
  for (uint32_t program : *programs) {
    const uint32_t at = InputNamed(plan.programs[program], PortRole::kEncoded, options);
    if (at != kNone) encoded = &plan.buffers[plan.programs[program].inputs[at].buffer];
  }
  if (encoded == nullptr) return FindEncoderOfCaches(plan, options, programs, encoder);
  for (size_t i = 0; i < programs->size(); ++i) {
    const Program& program = plan.programs[(*programs)[i]];
    const auto is_state = [](const Port& port) { return port.is_state; };
    if (std::any_of(program.inputs.begin(), program.inputs.end(), is_state)) continue;
    for (uint32_t out = 0; out < program.outputs.size() && encoder->program == kNone; ++out) {
      const Buffer& b = plan.buffers[program.outputs[out].buffer];
      if (b.dtype != encoded->dtype || !(b.shape == encoded->shape)) continue;
      TakeEncoder(plan, options, (*programs)[i], encoder);
      encoder->out = out;
    }
    if (encoder->program == kNone) continue;
    programs->erase(programs->begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

Status CheckEncoder(const PlanData& plan, const FormOptions& options, const DecoderForm& form) {
  if (form.encoder.program == kNone) return Status::Ok();
  const Program& program = plan.programs[form.encoder.program];
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    const Port& port = program.inputs[i];
    const Buffer& b = plan.buffers[port.buffer];
    if (port.is_state || options.given.count(std::string(port.name)) != 0) continue;
    const bool source = i == form.encoder.tokens || i == form.encoder.mask;
    const bool fits = (b.dtype == DType::kI64 || b.dtype == DType::kI32) && b.shape.rank == 2 &&
                      b.shape[0] == form.texts && b.shape[1] == form.encoder.length;
    if (source && fits) continue;
    return Status::Error(Code::kUnsupported,
                         "program \"%s\" is the encoder, and generate does not know what to give its input "
                         "\"%s\": give it (--input NAME=FILE)",
                         std::string(program.name).c_str(), std::string(port.name).c_str());
  }
  return Status::Ok();
}

}  // namespace rondo::tools
