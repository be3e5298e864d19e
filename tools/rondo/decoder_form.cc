#include "tools/rondo/decoder_form.h"

#include <algorithm>

#include "tools/rondo/buffer_use.h"
#include "tools/rondo/decoder_ports.h"
#include "tools/rondo/find_encoder.h"

namespace rondo::tools {
namespace {
// The caches of the decoder's own positions if `own`, otherwise all that it keeps.
std::set<uint32_t> CachesOf(const Program& program, bool own) {
  std::set<uint32_t> caches;
  for (const Port& port : program.inputs) {
    if (IsCache(port) && !(own && IsEncoders(port.name))) caches.insert(port.buffer);
  }
  return caches;
}

// Marks the programs that begin texts: those without inputs for earlier positions, if others have them, and
// those that read no cache, in a merged decoder.
void FindBeginnings(const PlanData& plan, DecoderForm* form) {
  const auto reads = [&](const DecoderProgram& program) {
    const std::set<uint32_t> caches = CachesOf(plan.programs[program.program], false);
    return caches.empty() || ReadsAny(plan, plan.programs[program.program], caches);
  };
  if (std::any_of(form->programs.begin(), form->programs.end(), reads)) {
    for (DecoderProgram& program : form->programs) program.begins = !reads(program);
  }
  const auto knows = [](const DecoderProgram& program) {
    return std::any_of(program.inputs.begin(), program.inputs.end(), [](const DecoderInput& input) {
      return input.role == PortRole::kPositions || input.role == PortRole::kMask ||
             input.role == PortRole::kPast || input.role == PortRole::kTotal || input.role == PortRole::kLast;
    });
  };
  if (form->encoder.program == kNone || std::none_of(form->programs.begin(), form->programs.end(), knows))
    return;
  for (DecoderProgram& program : form->programs) program.begins = program.begins || !knows(program);
}

// Checks that all programs use the same states, so that the next program finds what one has read.
Status CheckStates(const PlanData& plan, const DecoderForm& form) {
  std::vector<std::set<uint32_t>> states;
  for (const DecoderProgram& program : form.programs) {
    states.push_back(CachesOf(plan.programs[program.program], false));
    if (states.back() == states.front()) continue;
    const Program &first = plan.programs[form.programs[0].program], &other = plan.programs[program.program];
    return Status::Error(
        Code::kUnsupported,
        "programs \"%s\" and \"%s\" are no decoder together: they have not the same states (of "
        "one name, type and shape); choose programs with --program",
        std::string(first.name).c_str(), std::string(other.name).c_str());
  }
  return Status::Ok();
}

// Finds the number of positions in the states, if they tell it: the last dim but one.
Status FindContext(const PlanData& plan, const FormOptions& options, DecoderForm* form) {
  std::set<int64_t> lengths;
  for (const DecoderProgram& program : form->programs) {
    for (const Port& port : plan.programs[program.program].inputs) {
      const Shape& shape = plan.buffers[port.buffer].shape;
      if (!IsCache(port) || IsEncoders(port.name)) continue;
      lengths.insert(shape.rank < 3 ? 0 : shape[shape.rank - 2]);
    }
  }
  if (lengths.empty())
    return Status::Error(
        Code::kUnsupported,
        "the plan has no state to cache what was read: compile it with --state INPUT:OUTPUT, or "
        "with --cache-length N if its caches grow");
  if (form->context > 0 && options.context > form->context)
    return Status::Error(Code::kInvalidArgument, "--context %lld: the mask of the plan has %lld positions",
                         static_cast<long long>(options.context), static_cast<long long>(form->context));
  if (options.context > 0) form->context = options.context;
  if (form->context == 0 && lengths.size() == 1) form->context = *lengths.begin();
  if (form->context == 0)
    return Status::Error(Code::kUnsupported,
                         "the plan's states do not say how many positions they hold: give --context N");
  // A state that a single token rewrites completely is no cache, even if it has as many rows: recurrent
  // layers keep such states.
  const Program& single = plan.programs[form->programs.back().program];
  form->pads = lengths.size() == 1 && *lengths.begin() == form->context &&
               !RewritesAny(plan, single, CachesOf(single, true));
  return Status::Ok();
}

// Names that no program knows are refused.
Status CheckNames(const PlanData& plan, const FormOptions& options, const DecoderForm& form) {
  const auto known = [&](const std::string& name, bool also_states) {
    const auto is = [&](const Port& port) {
      return (also_states || !port.is_state) && (port.name == name || OnAnyDevice(port.name) == name);
    };
    const auto has = [&](uint32_t program) {
      const auto& inputs = plan.programs[program].inputs;
      return std::any_of(inputs.begin(), inputs.end(), is);
    };
    return (form.encoder.program != kNone && has(form.encoder.program)) ||
           std::any_of(form.programs.begin(), form.programs.end(),
                       [&](const DecoderProgram& program) { return has(program.program); });
  };
  for (const auto& said : options.roles) {
    if (!known(said.first, false))
      return Status::Error(Code::kNotFound, "--port: no program has an input \"%s\" that is not a state",
                           said.first.c_str());
  }
  for (const std::string& name : options.given) {
    if (!known(name, true))
      return Status::Error(Code::kNotFound, "--input: no program has an input \"%s\"", name.c_str());
  }
  return Status::Ok();
}

bool Has(const DecoderProgram& program, PortRole role) {
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [&](const DecoderInput& input) { return input.role == role; });
}

bool Draws(const DecoderProgram& program) {
  return program.next != kNone && Has(program, PortRole::kSampling) && Has(program, PortRole::kDraws);
}

}  // namespace
Result<DecoderForm> FindDecoderForm(const PlanData& plan, const FormOptions& options) {
  DecoderForm form;
  std::vector<uint32_t> programs;
  for (const std::string& name : options.programs) {
    const auto found = std::find_if(plan.programs.begin(), plan.programs.end(),
                                    [&](const Program& program) { return program.name == name; });
    if (found == plan.programs.end())
      return Status::Error(Code::kNotFound, "the plan has no program \"%s\"", name.c_str());
    programs.push_back(static_cast<uint32_t>(found - plan.programs.begin()));
  }
  for (uint32_t i = 0; options.programs.empty() && i < CountPrograms(plan); ++i) programs.push_back(i);
  FindEncoder(plan, options, &programs, &form.encoder);
  for (uint32_t program : programs) {
    RONDO_ASSIGN_OR_RETURN(DecoderProgram found, FindPorts(plan, options, program, &form));
    if (Has(found, PortRole::kLoopRounds))
      form.loop = std::move(found);
    else
      form.programs.push_back(std::move(found));
  }
  std::stable_sort(form.programs.begin(), form.programs.end(),
                   [](const DecoderProgram& a, const DecoderProgram& b) { return a.length > b.length; });
  FindBeginnings(plan, &form);
  std::stable_partition(form.programs.begin(), form.programs.end(),
                        [](const DecoderProgram& program) { return program.begins; });
  if (form.programs.empty() || form.programs.back().length != 1 || form.programs.back().begins)
    return Status::Error(
        Code::kUnsupported,
        "no program of the plan reads one token of each text, as tokens are generated: compile "
        "one more (prefill=..., decode=...)");
  RONDO_RETURN_IF_ERROR(CheckEncoder(plan, options, form));
  RONDO_RETURN_IF_ERROR(CheckNames(plan, options, form));
  RONDO_RETURN_IF_ERROR(CheckStates(plan, form));
  RONDO_RETURN_IF_ERROR(FindContext(plan, options, &form));
  // It was compiled for the usual names.
  if (!options.roles.empty() || !options.given.empty()) form.loop = {};
  form.draws = Draws(form.programs.back());
  form.chooses = std::any_of(form.programs.begin(), form.programs.end(), [](const DecoderProgram& program) {
    return Has(program, PortRole::kTextLength);
  });
  return form;
}

}  // namespace rondo::tools
