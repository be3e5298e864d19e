#include "tools/serve/slot_session.h"

#include <algorithm>
#include <cmath>

#include "core/scalar.h"

namespace rondo::serve {

using tools::DecoderInput;
using tools::DecoderProgram;
using tools::PortRole;

Result<std::unique_ptr<SlotSession>> SlotSession::Create(const Runtime& runtime, const Plan& plan,
                                                         const SessionOptions& options) {
  std::unique_ptr<SlotSession> made(new SlotSession());
  RONDO_ASSIGN_OR_RETURN(made->form_, tools::FindDecoderForm(plan.data(), {}));
  RONDO_RETURN_IF_ERROR(made->CheckForm());
  RONDO_ASSIGN_OR_RETURN(made->session_, Session::Create(runtime, plan, options));
  const PlanData& data = made->session_.plan().data();
  for (const DecoderProgram& program : made->form_.programs) {
    const Program& of = data.programs[program.program];
    Buffers buffers;
    for (const DecoderInput& input : program.inputs)
      buffers.inputs.emplace_back(data.buffers[of.inputs[input.port].buffer].bytes);
    buffers.logits.resize(data.buffers[of.outputs[program.logits].buffer].bytes);
    made->buffers_.push_back(std::move(buffers));
  }
  RONDO_RETURN_IF_ERROR(made->Try());
  return made;
}

Status SlotSession::CheckForm() const {
  const auto refuse = [](const char* why) {
    return Status::Error(Code::kUnsupported,
                         "the plan is a decoder %s, which rondo serve does not run; rondo generate does",
                         why);
  };
  if (form_.encoder.program != kNone) return refuse("with an encoder");
  if (form_.chooses) return refuse("that chooses by the length of texts (text_length)");
  for (const DecoderProgram& program : form_.programs) {
    if (program.begins) return refuse("with a program that begins texts and one that goes on");
  }
  if (form_.context <= 0) return refuse("that does not say how many positions it has");
  return Status::Ok();
}

SlotSession::Choice SlotSession::Choose(const std::vector<int64_t>& pending,
                                        const std::vector<int64_t>& positions, bool chunks) const {
  Choice choice;
  for (choice.program = chunks ? 0 : form_.programs.size() - 1;; ++choice.program) {
    const int64_t length = form_.programs[choice.program].length;
    choice.counts.clear();
    choice.is_chunk = length > 1;
    bool whole = true, fits = true;
    int64_t most = 0;
    for (size_t slot = 0; slot < pending.size(); ++slot) {
      int64_t count = std::min(pending[slot], length);
      // Keeps the last token for a run that gives its logits.
      if (count == pending[slot] && count > 0 && !Gives(choice.program, count)) --count;
      whole = whole && count == length;
      fits = fits && positions[slot] + length <= form_.context;
      most = std::max(most, count);
      choice.counts.push_back(count);
    }
    const bool last = choice.program + 1 == form_.programs.size();
    if (last || (fits && (form_.pads || whole) && most > 1 && 4 * most >= length)) return choice;
  }
}

bool SlotSession::Gives(size_t program, int64_t count) const {
  const DecoderProgram& p = form_.programs[program];
  return p.all_rows || count == p.length;
}

bool SlotSession::Fill(const DecoderProgram& program, const DecoderInput& input,
                       const std::vector<SlotInput>& inputs, std::vector<uint8_t>* bytes) const {
  const PlanData& plan = session_.plan().data();
  const Buffer& b = plan.buffers[plan.programs[program.program].inputs[input.port].buffer];
  const int64_t elements = b.shape.elements(), length = program.length;
  const auto store = [&](int64_t i, int64_t value) { scalar::Store(b.dtype, bytes->data(), i, value); };
  // Ports that all texts share, and texts beyond the slots, use the first slot's values.
  const auto slot_of = [&](int64_t i, int64_t each) -> const SlotInput& {
    const int64_t text = each == 0 ? 0 : i / each;
    return inputs[static_cast<size_t>(text < std::ssize(inputs) ? text : 0)];
  };
  switch (input.role) {
    case PortRole::kTokens:
    case PortRole::kLastTokens:
      if (input.role == PortRole::kLastTokens && !program.reads_drawn) return false;
      for (int64_t i = 0; i < elements; ++i) {
        const SlotInput& slot = slot_of(i, length);
        const int64_t at = i % length;
        store(i, at < slot.count ? (*slot.tokens)[static_cast<size_t>(slot.first + at)] : 0);
      }
      return true;
    case PortRole::kPositions:
      for (int64_t i = 0; i < elements; ++i)
        store(i, slot_of(i, elements == length ? 0 : length).position + i % length);
      return true;
    case PortRole::kMask: {
      const int rank = b.shape.rank;
      const int64_t context = b.shape[rank - 1],
                    each = rank > 2 && b.shape[0] == 1 ? 0 : elements / b.shape[0];
      const int64_t rows = rank == 2 ? 1 : b.shape[rank - 2];
      const double least = b.dtype == DType::kF16    ? -65504
                           : b.dtype == DType::kBF16 ? -0x1.FEp127
                                                     : -0x1.FFFFFEp127;
      for (int64_t i = 0; i < elements; ++i) {
        const int64_t last = slot_of(i, each).position + (rank == 2 ? length - 1 : i / context % rows);
        const bool seen = i % context <= last;
        if (IsFloat(b.dtype))
          scalar::Store(b.dtype, bytes->data(), i, seen ? 0 : least);
        else
          store(i, int64_t{seen});
      }
      return true;
    }
    case PortRole::kPast:
    case PortRole::kTotal:
    case PortRole::kLast:
    case PortRole::kSampleRows:
      for (int64_t i = 0; i < elements; ++i) {
        const SlotInput& slot = slot_of(i, elements == 1 ? 0 : 1);
        int64_t value = slot.position;
        if (input.role == PortRole::kTotal) value += length;
        if (input.role == PortRole::kLast) value += length - 1;
        if (input.role == PortRole::kSampleRows) value = std::max<int64_t>(slot.count - 1, 0);
        if (elements == 1 && input.role == PortRole::kTotal) {  // one number for all texts: the longest
          for (const SlotInput& other : inputs) value = std::max(value, other.position + length);
        }
        store(i, value);
      }
      return true;
    default: return false;  // needed only for draws on the device
  }
}

Status SlotSession::Run(size_t number, const std::vector<SlotInput>& inputs, uint64_t timeout_ns) {
  const DecoderProgram& program = form_.programs[number];
  const PlanData& plan = session_.plan().data();
  const Program& of = plan.programs[program.program];
  Buffers& buffers = buffers_[number];
  std::vector<Input> given;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (!Fill(program, program.inputs[i], inputs, &buffers.inputs[i])) continue;
    const Buffer& b = plan.buffers[of.inputs[program.inputs[i].port].buffer];
    Input input;
    input.index = program.inputs[i].port;
    input.dtype = b.dtype;
    input.shape = b.shape;
    input.data = buffers.inputs[i].data();
    input.bytes = buffers.inputs[i].size();
    given.push_back(input);
  }
  Output output;
  output.index = program.logits;
  output.dtype = plan.buffers[of.outputs[program.logits].buffer].dtype;
  output.data = buffers.logits.data();
  output.bytes = buffers.logits.size();
  RunOptions options;
  options.timeout_ns = timeout_ns;
  return session_.Run(program.program, {given.data(), given.size()}, {&output, 1}, options);
}

void SlotSession::ReadLogits(size_t number, int64_t slot, int64_t count, std::vector<float>* logits) const {
  const DecoderProgram& program = form_.programs[number];
  const PlanData& plan = session_.plan().data();
  const DType type = plan.buffers[plan.programs[program.program].outputs[program.logits].buffer].dtype;
  const int64_t row = program.all_rows ? slot * program.length + count - 1 : slot;
  logits->resize(static_cast<size_t>(form_.words));
  for (int64_t word = 0; word < form_.words; ++word)
    (*logits)[static_cast<size_t>(word)] =
        scalar::Load<float>(type, buffers_[number].logits.data(), row * form_.words + word);
}

// ------------------------------------------------------------------------------------------ the trial

// Lets each slot read the same three tokens, one per run. Slot s rests before run delays[s]. Gives the logits
// after the third token.
Status SlotSession::TryTexts(const std::vector<int64_t>& delays, std::vector<std::vector<float>>* logits) {
  RONDO_RETURN_IF_ERROR(session_.ResetState());
  Tokens tokens;
  for (int64_t i = 0; i < 3; ++i) tokens.push_back((i * 7 + 1) % form_.words);
  const size_t program = form_.programs.size() - 1;
  logits->assign(delays.size(), {});
  for (int64_t run = 0; run < 3 + *std::max_element(delays.begin(), delays.end()); ++run) {
    std::vector<SlotInput> inputs;
    for (int64_t delay : delays) {
      const int64_t at = std::clamp<int64_t>(run - delay, 0, 3);
      inputs.push_back({&tokens, std::min<int64_t>(at, 2), run >= delay && at < 3 ? 1 : 0, at});
    }
    RONDO_RETURN_IF_ERROR(Run(program, inputs, 0));
    for (size_t slot = 0; slot < delays.size(); ++slot) {
      if (run == delays[slot] + 2) ReadLogits(program, static_cast<int64_t>(slot), 1, &(*logits)[slot]);
    }
  }
  return session_.ResetState();
}

// Slots are independent if texts that begin at different runs give the same results as a text alone.
Status SlotSession::Try() {
  const int64_t texts = form_.texts;
  if (texts == 1 || !form_.pads || form_.context < 8) return Status::Ok();
  std::vector<std::vector<float>> together, apart;
  std::vector<int64_t> delays(static_cast<size_t>(texts), 0);
  slots_ = texts;
  Status status = TryTexts(delays, &together);
  for (size_t slot = 0; slot < delays.size(); ++slot) delays[slot] = static_cast<int64_t>(slot % 3);
  if (status.ok()) status = TryTexts(delays, &apart);
  bool same = status.ok();
  for (size_t slot = 0; same && slot < delays.size(); ++slot) {
    for (size_t word = 0; same && word < together[slot].size(); ++word) {
      const float a = together[slot][word], b = apart[slot][word];
      same = std::abs(a - b) <= 1e-3f * (1 + std::abs(a));
    }
  }
  if (!same) slots_ = 1;
  return session_.ResetState();
}

}  // namespace rondo::serve
