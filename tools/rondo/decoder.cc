#include "tools/rondo/decoder.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "core/scalar.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/run_tensors.h"
#include "tools/rondo/sampler.h"

namespace rondo::tools {

namespace {

constexpr size_t kMostLoopStops = 8;  // compiler/passes/token_loop.cc

}  // namespace

Decoder::Decoder(Session* session, const DecoderForm* form, const std::vector<Tensor>* given,
                 Processes* processes, int64_t position)
    : session_(session), form_(form), given_(given), processes_(processes), position_(position) {
  const PlanData& plan = session->plan().data();
  std::vector<DecoderProgram> all = form->programs;
  if (form->loop.program != kNone) all.push_back(form->loop);
  for (const DecoderProgram& program : all) {
    const Program& of = plan.programs[program.program];
    Buffers buffers;
    for (const DecoderInput& input : program.inputs)
      buffers.inputs.emplace_back(plan.buffers[of.inputs[input.port].buffer].bytes);
    buffers.result.resize(
        plan.buffers[of.outputs[program.next != kNone ? program.next : program.logits].buffer].bytes);
    buffers_.push_back(std::move(buffers));
  }
}

// The longest program that the rest fills. Instead of reading one token after the other, the shortest program
// that the rest does not fill, if one of two things is allowed: some of the `done` tokens are read again, or,
// if there are too few of them, tokens behind the end are read and fit into the caches.
const DecoderProgram* Decoder::Choose(int64_t done, int64_t rest) const {
  const DecoderProgram* padded = nullptr;
  const bool begins = position_ == 0 && form_->programs.front().begins;
  for (const DecoderProgram& program : form_->programs) {
    if (program.begins != begins) continue;
    if (program.length > rest) {
      const bool again = !program.begins && done + rest >= program.length;
      if (form_->pads && (again || position_ + program.length <= form_->context)) padded = &program;
    } else if (program.length > 1 || rest == 1 || padded == nullptr) {
      return &program;
    }
  }
  return padded;
}

// Whether a run of `count` tokens gives the token after the last of them.
bool Decoder::Ends(const DecoderProgram& program, int64_t count) const {
  return (program.next != kNone || !form_->draws) && (program.all_rows || count == program.length);
}

Status Decoder::Read(const std::vector<Tokens>& texts, const Sampling& sampling, Tokens* next) {
  const int64_t count = static_cast<int64_t>(texts[0].size()), end = position_ + count;
  for (int64_t done = 0; done < count;) {
    const DecoderProgram* chosen = Choose(done, count - done);
    if (chosen == nullptr) {
      return Status::Error(
          Code::kInvalidArgument, "the program that begins texts reads %lld tokens; %lld are too few",
          static_cast<long long>(form_->programs.front().length), static_cast<long long>(count));
    }
    const DecoderProgram& program = *chosen;
    const size_t number = static_cast<size_t>(&program - form_->programs.data());
    const int64_t fresh = std::min(program.length, count - done);
    // Tokens that are read again write the same rows again. So padding does not change what the model
    // computes from the number of tokens read.
    const int64_t missing = program.length - fresh, again = missing <= done && !program.begins ? missing : 0;
    Chunk chunk{&texts, done - again, fresh + again, end};
    const bool last = done + fresh == count && next != nullptr;
    const bool ends = last && Ends(program, chunk.count);
    if (ends) chunk.sampling = &sampling;
    RONDO_RETURN_IF_ERROR(Run(number, chunk, position_ - again, ends ? next : nullptr));
    done += fresh;
    position_ += fresh;
    if (!last || ends) continue;
    // Reads the last token once more with the program that gives the token after one.
    chunk = {&texts, count - 1, 1, end, &sampling};
    RONDO_RETURN_IF_ERROR(Run(form_->programs.size() - 1, chunk, position_ - 1, next));
  }
  return Status::Ok();
}

Status Decoder::Next(const Tokens& last, Tokens* next) {
  Chunk chunk{nullptr, 0, 1, position_ + 1};
  chunk.drawn = form_->programs.back().reads_drawn;
  return Step(last, chunk, next);
}

Status Decoder::Next(const Tokens& tokens, const Sampling& sampling, const std::vector<int64_t>& draws,
                     Tokens* next) {
  return Step(tokens, {nullptr, 0, 1, position_ + 1, &sampling, &draws}, next);
}

Status Decoder::Step(const Tokens& tokens, Chunk chunk, Tokens* next) {
  std::vector<Tokens> texts;
  for (int64_t token : tokens) texts.push_back({token});
  chunk.texts = &texts;
  RONDO_RETURN_IF_ERROR(Run(form_->programs.size() - 1, chunk, position_, next));
  ++position_;
  return Status::Ok();
}

// Adds the given tensors for which the program has inputs.
void Decoder::AddGiven(uint32_t program, std::vector<Input>* inputs) const {
  const PlanData& plan = session_->plan().data();
  const Program& of = plan.programs[program];
  for (const Input& input : InputsOf(plan, program, {given_->data(), given_->size()})) {
    const bool has = std::any_of(of.inputs.begin(), of.inputs.end(),
                                 [&](const Port& port) { return port.name == input.name; });
    if (has) inputs->push_back(input);
  }
}

Status Decoder::Encode(const std::vector<Tokens>& sources) {
  const EncoderProgram& encoder = form_->encoder;
  const PlanData& plan = session_->plan().data();
  const Program& of = plan.programs[encoder.program];
  std::vector<Input> inputs;
  std::vector<std::vector<uint8_t>> bytes(of.inputs.size());
  source_lengths_.assign(static_cast<size_t>(form_->texts), encoder.length);
  for (uint32_t port : {encoder.tokens, encoder.mask}) {
    if (port == kNone) continue;
    const Buffer& b = plan.buffers[of.inputs[port].buffer];
    bytes[port].resize(b.bytes);
    for (size_t t = 0; t < sources.size(); ++t) {
      const int64_t count = std::ssize(sources[t]);
      if (count > encoder.length || (count < encoder.length && encoder.mask == kNone))
        return Status::Error(Code::kInvalidArgument, "a source of %lld tokens: the encoder reads %s%lld",
                             static_cast<long long>(count), encoder.mask == kNone ? "" : "at most ",
                             static_cast<long long>(encoder.length));
      source_lengths_[t] = count;
      for (int64_t i = 0; i < encoder.length; ++i) {
        const int64_t token = i < count ? sources[t][static_cast<size_t>(i)] : 0;
        scalar::Store(b.dtype, bytes[port].data(), static_cast<int64_t>(t) * encoder.length + i,
                      port == encoder.tokens ? token : int64_t{i < count});
      }
    }
    Input input;
    input.index = port;
    input.dtype = b.dtype;
    input.shape = b.shape;
    input.data = bytes[port].data();
    input.bytes = bytes[port].size();
    inputs.push_back(input);
  }
  AddGiven(encoder.program, &inputs);
  if (encoder.out == kNone) return RunFor(encoder.program, inputs, {kNone, nullptr});
  encoded_.resize(plan.buffers[of.outputs[encoder.out].buffer].bytes);
  return RunFor(encoder.program, inputs, {encoder.out, &encoded_});
}

// Of outputs that are equal on several devices, this device's own; `port` if it has none.
uint32_t Decoder::OwnPort(const Program& program, uint32_t port) const {
  const PlanData& plan = session_->plan().data();
  for (uint32_t i = 0; i < program.outputs.size(); ++i) {
    const bool same = OnAnyDevice(program.outputs[i].name) == OnAnyDevice(program.outputs[port].name);
    if (same && session_->device(plan.buffers[program.outputs[i].buffer].device) != nullptr) return i;
  }
  return port;
}

bool Decoder::AllHave(const Program& program, uint32_t port) const {
  const PlanData& plan = session_->plan().data();
  std::vector<bool> has(plan.requirements.devices.size(), false);
  for (const Port& other : program.outputs) {
    if (OnAnyDevice(other.name) == OnAnyDevice(program.outputs[port].name))
      has[plan.buffers[other.buffer].device] = true;
  }
  return std::find(has.begin(), has.end(), false) == has.end();
}

// Runs the program and reads the wanted output.
Status Decoder::RunFor(uint32_t program, const std::vector<Input>& inputs, Wanted result) const {
  const PlanData& plan = session_->plan().data();
  const Program& of = plan.programs[program];
  std::vector<Output> outputs;
  bool here = false;
  if (result.bytes != nullptr) {
    Output output;
    output.index = OwnPort(of, result.port);
    const Buffer& buffer = plan.buffers[of.outputs[output.index].buffer];
    here = session_->device(buffer.device) != nullptr;
    output.dtype = buffer.dtype;
    output.data = result.bytes->data();
    output.bytes = result.bytes->size();
    if (here) outputs.push_back(output);
  }
  RONDO_RETURN_IF_ERROR(
      session_->Run(program, {inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}));
  if (result.bytes == nullptr || processes_ == nullptr || AllHave(of, result.port)) return Status::Ok();
  return Tell(here, result.bytes);
}

// Processes that have the bytes send them to the others; the first such process sends.
Status Decoder::Tell(bool here, std::vector<uint8_t>* bytes) const {
  struct Piece {
    uint8_t here = 0;
    uint8_t bytes[Processes::kMaxGather - 1] = {};
  } mine;
  std::vector<Piece> all(processes_->size());
  for (size_t done = 0; done < bytes->size(); done += sizeof(mine.bytes)) {
    const size_t count = std::min(sizeof(mine.bytes), bytes->size() - done);
    mine.here = here ? 1 : 0;
    if (here) std::copy_n(bytes->data() + done, count, mine.bytes);
    RONDO_RETURN_IF_ERROR(processes_->Gather(Status::Ok(), &mine, all.data(), sizeof(Piece), nullptr));
    const auto from =
        std::find_if(all.begin(), all.end(), [](const Piece& piece) { return piece.here != 0; });
    if (!here && from != all.end()) std::copy_n(from->bytes, count, bytes->data() + done);
  }
  return Status::Ok();
}

std::vector<Input> Decoder::InputsFor(const DecoderProgram& program, const Chunk& chunk, int64_t position,
                                      std::vector<std::vector<uint8_t>>* bytes) const {
  const PlanData& plan = session_->plan().data();
  const Program& of = plan.programs[program.program];
  std::vector<Input> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (!Fill(program, program.inputs[i], chunk, position, &(*bytes)[i])) continue;
    Input input;
    input.index = program.inputs[i].port;
    input.dtype = plan.buffers[of.inputs[input.index].buffer].dtype;
    input.shape = plan.buffers[of.inputs[input.index].buffer].shape;
    input.data = (*bytes)[i].data();
    input.bytes = (*bytes)[i].size();
    inputs.push_back(input);
  }
  AddGiven(program.program, &inputs);
  return inputs;
}

Status Decoder::NextSeveral(const Tokens& last, int64_t most, std::vector<bool> ended, const Tokens& stops,
                            std::vector<Tokens>* next) {
  const DecoderProgram& program = form_->loop;
  std::vector<Tokens> texts;
  for (int64_t token : last) texts.push_back({token});
  Chunk chunk{&texts, 0, 1, position_ + 1};
  chunk.drawn = true;
  chunk.rounds = std::min({most, form_->rounds, form_->context - position_});
  chunk.stops = &stops;
  chunk.ended = &ended;
  Buffers& buffers = buffers_.back();
  RONDO_RETURN_IF_ERROR(RunFor(program.program, InputsFor(program, chunk, position_, &buffers.inputs),
                               {program.next, &buffers.result}));
  const PlanData& plan = session_->plan().data();
  const DType type = plan.buffers[plan.programs[program.program].outputs[program.next].buffer].dtype;
  const size_t counted = std::min(stops.size(), kMostLoopStops);
  next->clear();
  for (int64_t round = 0; round < chunk.rounds; ++round) {
    if (round > 0 && std::find(ended.begin(), ended.end(), false) == ended.end()) break;
    Tokens drawn;
    for (size_t text = 0; text < texts.size(); ++text) {
      const int64_t token = scalar::Load<int64_t>(type, buffers.result.data(),
                                                  static_cast<int64_t>(text) * form_->rounds + round);
      if (token < 0) return NoToken(program, position_ + 1, static_cast<int64_t>(text));
      const auto end = stops.begin() + static_cast<ptrdiff_t>(counted);
      ended[text] = ended[text] || std::find(stops.begin(), end, token) != end;
      drawn.push_back(token);
    }
    ++position_;
    next->push_back(std::move(drawn));
  }
  return Status::Ok();
}

Status Decoder::Run(size_t number, const Chunk& chunk, int64_t position, Tokens* next) {
  const DecoderProgram& program = form_->programs[number];
  Buffers& buffers = buffers_[number];
  const std::vector<Input> inputs = InputsFor(program, chunk, position, &buffers.inputs);
  if (next == nullptr) return RunFor(program.program, inputs, {program.logits, nullptr});
  const uint32_t wanted = program.next != kNone ? program.next : program.logits;
  RONDO_RETURN_IF_ERROR(RunFor(program.program, inputs, {wanted, &buffers.result}));
  return TakeResult(program, chunk, buffers, next);
}

namespace {

// A mask [..., s, context] for queries from `position` on.
void MaskQueries(const Buffer& mask, int64_t position, std::vector<uint8_t>* bytes) {
  const int64_t context = mask.shape[mask.shape.rank - 1], rows = mask.shape[mask.shape.rank - 2];
  const double least = mask.dtype == DType::kF16    ? -65504
                       : mask.dtype == DType::kBF16 ? -0x1.FEp127
                                                    : -static_cast<double>(std::numeric_limits<float>::max());
  for (int64_t i = 0; i < mask.shape.elements(); ++i) {
    const bool seen = i % context <= position + i / context % rows;
    if (IsFloat(mask.dtype)) {
      scalar::Store(mask.dtype, bytes->data(), i, seen ? 0 : least);
    } else {
      scalar::Store(mask.dtype, bytes->data(), i, int64_t{seen});
    }
  }
}

}  // namespace

// The mask given to the encoder, which has the port's type and shape.
bool Decoder::CopyGivenMask(std::vector<uint8_t>* bytes) const {
  const PlanData& plan = session_->plan().data();
  const std::string_view name = plan.programs[form_->encoder.program].inputs[form_->encoder.given_mask].name;
  const auto given =
      std::find_if(given_->begin(), given_->end(), [&](const Tensor& tensor) { return tensor.name == name; });
  if (given == given_->end() || given->bytes.size() != bytes->size()) return false;
  *bytes = given->bytes;
  return true;
}

// Fills in the input's value for this run; false if it has none.
bool Decoder::Fill(const DecoderProgram& program, const DecoderInput& input, const Chunk& chunk,
                   int64_t position, std::vector<uint8_t>* bytes) const {
  const PlanData& plan = session_->plan().data();
  const Buffer& b = plan.buffers[plan.programs[program.program].inputs[input.port].buffer];
  const int64_t elements = b.shape.elements(), length = program.length, total = position + length;
  const auto store = [&](int64_t i, int64_t value) { scalar::Store(b.dtype, bytes->data(), i, value); };
  const auto token = [&](int64_t text, int64_t i) {
    return i < chunk.count ? (*chunk.texts)[static_cast<size_t>(text)][static_cast<size_t>(chunk.first + i)]
                           : 0;
  };
  switch (input.role) {
    case PortRole::kTokens:
    case PortRole::kLastTokens:
      if (input.role == PortRole::kLastTokens && (!program.reads_drawn || chunk.drawn)) return false;
      for (int64_t i = 0; i < elements; ++i) store(i, token(i / length, i % length));
      return true;
    case PortRole::kPositions:
      for (int64_t i = 0; i < elements; ++i) store(i, position + i % length);
      return true;
    case PortRole::kMask:
      if (b.shape.rank == 2) {
        for (int64_t i = 0; i < elements; ++i) store(i, i % b.shape[1] < total ? 1 : 0);
      } else {
        MaskQueries(b, position, bytes);
      }
      return true;
    case PortRole::kPast:
    case PortRole::kTotal:
    case PortRole::kLast:
    case PortRole::kSampleRows: {
      const int64_t value = input.role == PortRole::kPast    ? position
                            : input.role == PortRole::kTotal ? total
                            : input.role == PortRole::kLast  ? total - 1
                                                             : chunk.count - 1;
      for (int64_t i = 0; i < elements; ++i) store(i, value);
      return true;
    }
    case PortRole::kTextLength: store(0, chunk.text); return true;
    case PortRole::kLoopRounds: store(0, chunk.rounds); return true;
    case PortRole::kLoopStops:
      for (int64_t i = 0; i < elements; ++i)
        store(i, i < std::ssize(*chunk.stops) ? (*chunk.stops)[static_cast<size_t>(i)] : -1);
      return true;
    case PortRole::kLoopEnded:
      for (int64_t i = 0; i < elements; ++i) store(i, int64_t{(*chunk.ended)[static_cast<size_t>(i)]});
      return true;
    case PortRole::kEncoded: *bytes = encoded_; return true;
    case PortRole::kSourceMask:
      if (form_->encoder.given_mask != kNone) return CopyGivenMask(bytes);
      for (int64_t i = 0; i < elements; ++i) {
        const int64_t at = form_->encoder.length;
        store(i, i % at < source_lengths_[static_cast<size_t>(i / at)] ? 1 : 0);
      }
      return true;
    case PortRole::kSampling:
      if (chunk.sampling == nullptr) return false;
      for (int64_t i = 0; i < elements; ++i) {
        const Sampling& s = *chunk.sampling;
        scalar::Store(b.dtype, bytes->data(), i,
                      i % 3 == 0   ? s.temperature
                      : i % 3 == 1 ? static_cast<double>(s.top_k)
                                   : s.top_p);
      }
      return true;
    case PortRole::kDraws:
      if (chunk.sampling == nullptr) return false;
      for (int64_t i = 0; i < elements; ++i) {
        const int64_t draw = chunk.draws == nullptr ? 0 : (*chunk.draws)[static_cast<size_t>(i / 2)];
        store(i,
              i % 2 == 0 ? static_cast<int64_t>(chunk.sampling->seed + static_cast<uint64_t>(i / 2)) : draw);
      }
      return true;
  }
  return false;
}

// NaN is neither the greatest nor drawn with any probability: no token follows from it. On a
// device -1 is drawn (compiler/passes/append_sampling.cc).
Status Decoder::NoToken(const DecoderProgram& program, int64_t read, int64_t text) const {
  return Status::Error(
      Code::kOutOfRange,
      "program \"%s\": a logit behind the %lld tokens of text %lld of the session is NaN: no token "
      "follows from it",
      std::string(session_->plan().data().programs[program.program].name).c_str(),
      static_cast<long long>(read), static_cast<long long>(text + 1));
}

Status Decoder::TakeResult(const DecoderProgram& program, const Chunk& chunk, const Buffers& buffers,
                           Tokens* next) {
  const PlanData& plan = session_->plan().data();
  const Program& of = plan.programs[program.program];
  const bool drawn = program.next != kNone;
  const DType type = plan.buffers[of.outputs[drawn ? program.next : program.logits].buffer].dtype;
  const uint8_t* bytes = buffers.result.data();
  if (chunk.sampling != nullptr) {
    sampling_ = *chunk.sampling;
    draws_ = chunk.draws != nullptr ? *chunk.draws : std::vector<int64_t>();
  }
  draws_.resize(static_cast<size_t>(form_->texts));
  std::vector<float> logits(drawn ? 0 : static_cast<size_t>(form_->words));
  next->clear();
  for (int64_t text = 0; text < form_->texts; ++text) {
    if (drawn) {
      next->push_back(scalar::Load<int64_t>(type, bytes, text));
    } else {
      const int64_t row = program.all_rows ? text * program.length + chunk.count - 1 : text;
      for (size_t word = 0; word < logits.size(); ++word)
        logits[word] = scalar::Load<float>(type, bytes, row * form_->words + static_cast<int64_t>(word));
      SamplerSettings settings;
      settings.temperature = sampling_.temperature;
      settings.top_k = sampling_.top_k;
      settings.top_p = sampling_.top_p;
      settings.seed = sampling_.seed + static_cast<uint64_t>(text);
      next->push_back(Sampler(settings, {}, draws_[static_cast<size_t>(text)]++).Draw(&logits).token);
    }
    if (next->back() < 0) return NoToken(program, chunk.text, text);
  }
  return Status::Ok();
}

}  // namespace rondo::tools
