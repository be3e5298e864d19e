#include "tools/rondo/decoder_ports.h"

#include <algorithm>
#include <utility>

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

}  // namespace

bool FindInputRole(std::string_view name, PortRole* role) { return Look(kKnown, name, role); }

std::string_view OnAnyDevice(std::string_view name) {
  const size_t at = name.rfind('@');
  const bool number =
      at != name.npos && at + 1 < name.size() && name.find_first_not_of("0123456789", at + 1) == name.npos;
  return number ? name.substr(0, at) : name;
}
bool ParseRole(const std::string& text, PortRole* role) { return Look(kRoles, text, role); }

bool IsCache(const Port& port) {
  PortRole role;
  return port.is_state && !Look(kStates, OnAnyDevice(port.name), &role);
}

bool IsEncoders(std::string_view name) {
  return name.find("encoder") != name.npos || name.find("cross") != name.npos;
}

Result<DecoderProgram> FindPorts(const PlanData& plan, const FormOptions& options, uint32_t program,
                                 DecoderForm* form) {
  return Finder(plan, options, program, form).Run();
}

}  // namespace rondo::tools
