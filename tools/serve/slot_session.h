// SlotSession: a session of a decoder whose texts stand in slots, each at a position of its own.
//
// A run reads some tokens of some slots: all of a program's length, or, where the decoder's states are caches
// alone, fewer, and none of a slot that rests. What a resting slot is given is written behind its position,
// where the next tokens go; nothing reads it. Whether a plan keeps its texts apart so is tried out when the
// session is made: one that has one position for all of them serves one text at a time.
#pragma once

#include <memory>
#include <vector>

#include "runtime/session.h"
#include "tools/rondo/decoder.h"
#include "tools/rondo/decoder_form.h"

namespace rondo::serve {

using tools::Tokens;

// What a run reads of one slot: `count` tokens of `tokens` from `first` on, behind `position` others.
struct SlotInput {
  const Tokens* tokens = nullptr;
  int64_t first = 0, count = 0, position = 0;
};

class SlotSession {
 public:
  // kUnsupported for a decoder that this does not serve: with an encoder, with programs that only begin
  // texts.
  static Result<std::unique_ptr<SlotSession>> Create(const Runtime& runtime, const Plan& plan,
                                                     const SessionOptions& options);

  int64_t slots() const { return slots_; }
  int64_t words() const { return form_.words; }
  int64_t context() const { return form_.context; }
  // Makes a slot that begins a text as good as new. With one slot only.
  Status Begin() { return slots_ == 1 ? session_.ResetState() : Status::Ok(); }

  // Which program reads `pending` tokens of each slot (0: it rests) at these positions, and how many of them:
  // the longest of which some slot fills a good part; if not `chunks`, the one of single tokens.
  struct Choice {
    size_t program = 0;
    std::vector<int64_t> counts;  // of each slot
    bool is_chunk = false;        // of several tokens
  };
  Choice Choose(const std::vector<int64_t>& pending, const std::vector<int64_t>& positions,
                bool chunks) const;
  // Whether that run gives the logits behind the last of `count` tokens.
  bool Gives(size_t program, int64_t count) const;
  // Runs a program of the form; `inputs`: one a slot.
  Status Run(size_t program, const std::vector<SlotInput>& inputs, uint64_t timeout_ns);
  // The logits behind the last token that the last run read of a slot.
  void ReadLogits(size_t program, int64_t slot, int64_t count, std::vector<float>* logits) const;
  // Forgets an error that stuck, and with it all texts.
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
