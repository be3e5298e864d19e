#include "tools/rondo/decoder_form.h"

#include <algorithm>

#include "tools/rondo/buffer_use.h"

namespace rondo::tools {
namespace {

struct KnownName {
  const char* name;
  PortRole role;
};

constexpr KnownName kKnown[] = {
    {"input_ids", PortRole::kTokens},
    {"tokens", PortRole::kTokens},
    {"token_ids", PortRole::kTokens},
    {"decoder_input_ids", PortRole::kTokens},
    {"ids", PortRole::kTokens},
    {"position_ids", PortRole::kPositions},
    {"positions", PortRole::kPositions},
    {"cache_position", PortRole::kPositions},
    {"attention_mask", PortRole::kMask},
    {"past_sequence_length", PortRole::kPast},
    {"total_sequence_length", PortRole::kTotal},
    {"seqlens_k", PortRole::kLast},
    {"sample_rows", PortRole::kSampleRows},
    {"encoder_hidden_states", PortRole::kEncoded},
    {"encoder_outputs", PortRole::kEncoded},
    {"encoder_attention_mask", PortRole::kSourceMask},
    {"loop_rounds", PortRole::kLoopRounds},
    {"loop_stops", PortRole::kLoopStops},
    {"loop_ended", PortRole::kLoopEnded},
};
constexpr KnownName kStates[] = {{"last_tokens", PortRole::kLastTokens},
                                 {"sampling", PortRole::kSampling},
                                 {"draws", PortRole::kDraws},
                                 {"text_length", PortRole::kTextLength}};
constexpr KnownName kRoles[] = {{"tokens", PortRole::kTokens}, {"positions", PortRole::kPositions},
                                {"mask", PortRole::kMask},     {"past", PortRole::kPast},
                                {"total", PortRole::kTotal},   {"last", PortRole::kLast}};

template <size_t N>
bool Look(const KnownName (&table)[N], std::string_view name, PortRole* role) {
  for (const KnownName& known : table) {
    if (known.name != name) continue;
    *role = known.role;
    return true;
  }
  return false;
}

class Finder {
 public:
  Finder(const PlanData& plan, const FormOptions& options, uint32_t program, DecoderForm* form)
      : plan_(plan), options_(options), program_(plan.programs[program]), form_(form) {
    found_.program = program;
  }

  Result<DecoderProgram> Run() {
    RONDO_RETURN_IF_ERROR(FindNamed());
    RONDO_RETURN_IF_ERROR(FindTokens());
    RONDO_RETURN_IF_ERROR(FindPositions());
    for (uint32_t port : unknown_) {
      if (IsGiven(port)) continue;
      // An exporter's cache has at least three dimensions.
      const char* cache = !IsInteger(port) && ShapeOf(port).rank >= 3
                              ? "; if it is a cache, compile so that runs keep it: --cache-length N, "
                                "or --state INPUT:OUTPUT"
                              : "";
      return Refuse("generate does not know what to give the input " + Text(program_.inputs[port]) +
                    ": say what it is (--port ROLE=NAME), or give it (--input NAME=FILE)" + cache);
    }
    for (const DecoderInput& input : found_.inputs) RONDO_RETURN_IF_ERROR(CheckShape(input));
    RONDO_RETURN_IF_ERROR(FindOutputs());
    return std::move(found_);
  }

 private:
  const Buffer& BufferOf(const Port& port) const { return plan_.buffers[port.buffer]; }
  const Shape& ShapeOf(uint32_t input) const { return BufferOf(program_.inputs[input]).shape; }
  bool IsInteger(uint32_t input) const {
    const DType type = BufferOf(program_.inputs[input]).dtype;
    return type == DType::kI64 || type == DType::kI32;
  }

  bool IsGiven(uint32_t input) const {
    return options_.given.count(std::string(program_.inputs[input].name)) != 0;
  }

  std::string Text(const Port& port) const {
    char shape[160];
    return "\"" + std::string(port.name) + "\" (" + Name(BufferOf(port).dtype) +
           Format(BufferOf(port).shape, shape, sizeof(shape)) + ")";
  }

  Status Refuse(const std::string& why) const {
    return Status::Error(Code::kUnsupported, "program \"%s\" is no part of a decoder: %s",
                         std::string(program_.name).c_str(), why.c_str());
  }

  Status FindNamed() {
    for (uint32_t i = 0; i < program_.inputs.size(); ++i) {
      const Port& port = program_.inputs[i];
      PortRole role;
      if (port.is_state) {
        if (Look(kStates, OnAnyDevice(port.name), &role)) found_.inputs.push_back({role, i});
        continue;
      }
      const auto said = options_.roles.find(std::string(port.name));
      if (said != options_.roles.end()) {
        found_.inputs.push_back({said->second, i});
      } else if (!IsGiven(i) && Look(kKnown, port.name, &role) && !IsSaid(role) && HasSource(role)) {
        found_.inputs.push_back({role, i});
      } else {
        unknown_.push_back(i);
      }
    }
    return Status::Ok();
  }

  // Whether there is a source for an input of that role: those of an encoder need one.
  bool HasSource(PortRole role) const {
    const EncoderProgram& encoder = form_->encoder;
    return role == PortRole::kEncoded      ? encoder.program != kNone
           : role == PortRole::kSourceMask ? encoder.tokens != kNone || encoder.given_mask != kNone
                                           : true;
  }

  // Whether the user names an input for that role.
  bool IsSaid(PortRole role) const {
    return std::any_of(options_.roles.begin(), options_.roles.end(),
                       [&](const auto& said) { return said.second == role; });
  }

  const DecoderInput* InputOf(PortRole role) const {
    const auto found = std::find_if(found_.inputs.begin(), found_.inputs.end(),
                                    [&](const DecoderInput& input) { return input.role == role; });
    return found == found_.inputs.end() ? nullptr : &*found;
  }

  // Takes the only unknown integer input of `rank` whose last dim is within `least` to `most`, if there is
  // exactly one.
  bool TakeOnly(int rank, int64_t least, int64_t most, PortRole role) {
    const auto fits = [&](uint32_t i) {
      const Shape& shape = ShapeOf(i);
      PortRole known;
      const bool another = Look(kKnown, program_.inputs[i].name, &known) && !HasSource(known);
      return !IsGiven(i) && !another && IsInteger(i) && shape.rank == rank && shape[rank - 1] >= least &&
             shape[rank - 1] <= most;
    };
    if (std::count_if(unknown_.begin(), unknown_.end(), fits) != 1) return false;
    const auto found = std::find_if(unknown_.begin(), unknown_.end(), fits);
    found_.inputs.push_back({role, *found});
    unknown_.erase(found);
    return true;
  }

  Status FindTokens() {
    // If there are drawn tokens, single tokens are those.
    const int64_t least = InputOf(PortRole::kLastTokens) == nullptr ? 1 : 2;
    if (InputOf(PortRole::kTokens) == nullptr) TakeOnly(2, least, INT64_MAX, PortRole::kTokens);
    const DecoderInput* tokens = InputOf(PortRole::kTokens);
    if (tokens == nullptr) tokens = InputOf(PortRole::kLastTokens);
    if (tokens == nullptr) return Refuse("no input has tokens: integers [texts, tokens]");
    const Shape& shape = ShapeOf(tokens->port);
    if (!IsInteger(tokens->port) || shape.rank != 2 || shape[0] < 1 || shape[1] < 1)
      return Refuse("the input " + Text(program_.inputs[tokens->port]) +
                    " is no tokens: integers [texts, tokens]");
    found_.reads_drawn = tokens->role == PortRole::kLastTokens;
    found_.length = shape[1];
    if (form_->texts == 0) form_->texts = shape[0];
    if (form_->texts == shape[0]) return Status::Ok();
    return Refuse("it reads " + std::to_string(shape[0]) + " texts, another program " +
                  std::to_string(form_->texts));
  }

  // An input is found by its shape alone only if nothing else tells the length of a text: next to a mask, a
  // single integer may be the number of an adapter.
  Status FindPositions() {
    const auto says = [&](PortRole role) { return InputOf(role) != nullptr; };
    if (!says(PortRole::kPositions) && !says(PortRole::kMask) && !says(PortRole::kPast) &&
        !says(PortRole::kTotal) && !says(PortRole::kLast))
      TakeOnly(1, found_.length, found_.length, PortRole::kPositions);
    return Status::Ok();
  }

  Status CheckShape(const DecoderInput& input) const {
    const Shape& shape = ShapeOf(input.port);
    const int64_t texts = form_->texts, length = found_.length, count = shape.elements();
    bool good = IsInteger(input.port);
    switch (input.role) {
      case PortRole::kTokens: good = good && count == texts * length; break;
      case PortRole::kPositions: good = good && (count == length || count == texts * length); break;
      case PortRole::kMask: {
        const int last = shape.rank - 1;
        good = shape.rank == 2
                   ? shape[0] == texts
                   : shape.rank > 2 && shape[last - 1] == length && (shape[0] == texts || shape[0] == 1);
        good = good && (form_->context == 0 || form_->context == shape[last]);
        if (good) form_->context = shape[last];
        break;
      }
      case PortRole::kPast:
      case PortRole::kTotal:
      case PortRole::kLast:
      case PortRole::kSampleRows: good = good && (count == 1 || count == texts); break;
      case PortRole::kSampling:
        good = BufferOf(program_.inputs[input.port]).dtype == DType::kF32 && count == 3 * texts;
        break;
      case PortRole::kDraws: good = good && count == 2 * texts; break;
      case PortRole::kLoopEnded:
      case PortRole::kLastTokens: good = good && count == texts; break;
      case PortRole::kLoopStops: break;
      case PortRole::kLoopRounds:
      case PortRole::kTextLength: good = good && count == 1; break;
      case PortRole::kSourceMask:
        if (form_->encoder.given_mask != kNone) return CheckGivenMask(input.port);
        good = good && count == texts * form_->encoder.length;
        break;
      case PortRole::kEncoded: {
        const Program& encoder = plan_.programs[form_->encoder.program];
        const Buffer &from = BufferOf(encoder.outputs[form_->encoder.out]),
                     &to = BufferOf(program_.inputs[input.port]);
        good = from.dtype == to.dtype && from.shape == to.shape;
        break;
      }
    }
    if (good) return Status::Ok();
    return Refuse("the input " + Text(program_.inputs[input.port]) + " does not fit " +
                  std::to_string(texts) + " texts of " + std::to_string(length) + " tokens" +
                  (form_->context > 0 ? " and " + std::to_string(form_->context) + " positions" : ""));
  }

  // A decoder reads the mask given to the encoder only if it has the same type and shape.
  Status CheckGivenMask(uint32_t input) const {
    const EncoderProgram& encoder = form_->encoder;
    const Port& given = plan_.programs[encoder.program].inputs[encoder.given_mask];
    const Buffer &mask = BufferOf(given), &own = BufferOf(program_.inputs[input]);
    if (mask.dtype == own.dtype && mask.shape == own.shape) return Status::Ok();
    return Refuse("the input " + Text(program_.inputs[input]) +
                  " is not as the mask that its encoder is given, " + Text(given) +
                  ": compile it of that shape (--shape " + std::string(program_.name) + ":" +
                  std::string(program_.inputs[input].name) + "=...), or give it (--input NAME=FILE)");
  }

  Status FindLoopOutput() {
    for (uint32_t i = 0; i < program_.outputs.size(); ++i) {
      if (program_.outputs[i].name == "loop_tokens") found_.next = i;
    }
    if (found_.next == kNone || BufferOf(program_.outputs[found_.next]).shape.rank != 2)
      return Refuse("it has no output \"loop_tokens\" [texts, rounds]");
    form_->rounds = BufferOf(program_.outputs[found_.next]).shape[1];
    return Status::Ok();
  }

  Status FindOutputs() {
    if (InputOf(PortRole::kLoopRounds) != nullptr) return FindLoopOutput();
    for (uint32_t i = 0; i < program_.outputs.size(); ++i) {
      const Port& port = program_.outputs[i];
      const Buffer& b = BufferOf(port);
      if (OnAnyDevice(port.name) == "next_tokens" && found_.next == kNone) {
        if (b.shape.elements() != form_->texts)
          return Refuse("the output " + Text(port) + " is no token a text");
        found_.next = i;
        continue;
      }
      const bool named = port.name == (options_.logits.empty() ? "logits" : options_.logits);
      if (port.is_state || !IsFloat(b.dtype) || b.shape.rank < 2 || (!options_.logits.empty() && !named))
        continue;
      if (found_.logits == kNone || named) found_.logits = i;
    }
    if (found_.logits == kNone)
      return Refuse("no output has logits" +
                    (options_.logits.empty() ? "" : " called \"" + options_.logits + "\""));
    const Port& port = program_.outputs[found_.logits];
    const Shape& shape = BufferOf(port).shape;
    const int64_t words = shape[shape.rank - 1], rows = words == 0 ? 0 : shape.elements() / words;
    found_.all_rows = rows == form_->texts * found_.length;
    if (words < 1 || shape[0] != form_->texts || (!found_.all_rows && rows != form_->texts))
      return Refuse("the output " + Text(port) +
                    " is no logits: floats [texts, words] or [texts, tokens, words]");
    if (form_->words == 0) form_->words = words;
    if (form_->words == words) return Status::Ok();
    return Refuse("its logits are of " + std::to_string(words) + " words, another program's of " +
                  std::to_string(form_->words));
  }

  const PlanData& plan_;
  const FormOptions& options_;
  const Program& program_;
  DecoderForm* form_;
  DecoderProgram found_;
  std::vector<uint32_t> unknown_;  // input indices
};

// The input with `role`, or kNone.
uint32_t InputNamed(const Program& program, PortRole wanted, const FormOptions& options) {
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    PortRole role;
    const std::string name(program.inputs[i].name);
    if (options.given.count(name) == 0 && Look(kKnown, name, &role) && role == wanted) return i;
  }
  return kNone;
}

// Keys and values of the encoder's output: "past_key_values.0.encoder.key", "past_key_cross_0".
bool IsEncoders(std::string_view name) {
  return name.find("encoder") != name.npos || name.find("cross") != name.npos;
}

bool IsCache(const Port& port) {
  PortRole role;
  return port.is_state && !Look(kStates, OnAnyDevice(port.name), &role);
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
    if (options.given.count(name) != 0 && Look(kKnown, name, &role) && role == PortRole::kMask)
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

// Finds the program without states whose output another program attends to, if there is one.
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

// Checks that all of the encoder's inputs are given.
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

std::string_view OnAnyDevice(std::string_view name) {
  const size_t at = name.rfind('@');
  const bool number =
      at != name.npos && at + 1 < name.size() && name.find_first_not_of("0123456789", at + 1) == name.npos;
  return number ? name.substr(0, at) : name;
}

bool ParseRole(const std::string& text, PortRole* role) { return Look(kRoles, text, role); }

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
    RONDO_ASSIGN_OR_RETURN(DecoderProgram found, Finder(plan, options, program, &form).Run());
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
