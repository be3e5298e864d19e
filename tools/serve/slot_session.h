// SlotSession: a session of a decoder with a slot for each text, each at its own position.
//
// A run reads as many tokens of each slot as the program's length. If the decoder's states are all caches, it
// may read fewer, and none of a resting slot. The values for a resting slot are then written behind its
// position, where the next tokens will go; nothing reads them. A trial when the session is made tests whether
// the plan keeps its texts apart in this way. A plan with one position for all texts serves one at a time.
#pragma once

#include <memory>
#include <vector>

#include "runtime/session.h"
#include "tools/rondo/decoder.h"
#include "tools/rondo/decoder_form.h"

namespace rondo::serve {

using tools::Tokens;

// What a run reads of one slot: `count` of `tokens` from `first` on, after `position` earlier ones.
struct SlotInput {
  const Tokens* tokens = nullptr;
  int64_t first = 0, count = 0, position = 0;
};

class SlotSession {
 public:
  // kUnsupported for a decoder with an encoder, or with programs that only begin texts.
  static Result<std::unique_ptr<SlotSession>> Create(const Runtime& runtime, const Plan& plan,
                                                     const SessionOptions& options);

  int64_t slots() const { return slots_; }
  int64_t words() const { return form_.words; }
  int64_t context() const { return form_.context; }
  // Resets the slot before a text begins. Only has an effect with a single slot.
  Status Begin() { return slots_ == 1 ? session_.ResetState() : Status::Ok(); }

  // The program that reads `pending` tokens of each slot (0: it rests) at these positions, and how many of
  // them: the longest program of which some slot fills a good part; without `chunks`, that of single tokens.
  struct Choice {
    size_t program = 0;
    std::vector<int64_t> counts;  // tokens read of each slot
    bool is_chunk = false;        // the program reads several tokens
  };
  Choice Choose(const std::vector<int64_t>& pending, const std::vector<int64_t>& positions,
                bool chunks) const;
  // Whether such a run gives the logits of the last of `count` tokens.
  bool Gives(size_t program, int64_t count) const;
  // Runs a program of the form; `inputs`: one per slot.
  Status Run(size_t program, const std::vector<SlotInput>& inputs, uint64_t timeout_ns);
  // The logits of the last token that the last run read of a slot.
  void ReadLogits(size_t program, int64_t slot, int64_t count, std::vector<float>* logits) const;
  // Clears an error that stays in the session, and with it all texts.
  Status Recover() { return session_.ResetState(); }

 private:
  SlotSession() = default;
  Status CheckForm() const;
  Status Try();
  Status TryTexts(const std::vector<int64_t>& delays, std::vector<std::vector<float>>* logits);
  bool Fill(const tools::DecoderProgram& program, const tools::DecoderInput& input,
            const std::vector<SlotInput>& inputs, std::vector<uint8_t>* bytes) const;

  Session session_;
  tools::DecoderForm form_;
  int64_t slots_ = 1;
  struct Buffers {
    std::vector<std::vector<uint8_t>> inputs;
    std::vector<uint8_t> logits;
  };
  std::vector<Buffers> buffers_;  // by program of the form
};

}  // namespace rondo::serve
