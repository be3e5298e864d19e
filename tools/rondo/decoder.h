// Decoder: texts on their way through a session: prompts are read in chunks, as the plan's programs take
// them, then one token of each text a step.
//
// The texts of a session go in step: token by token, all are at one position. Where prompts are of different
// lengths, the shorter ones go on with what follows them while the longer ones are still read. Tokens are
// drawn on the device where the plan does so (compile --sample), and on the host (sampler.h) where not. Of
// several processes, each has the same texts and does the same; what only some devices give, the others are
// told. Borrows the session, the form and the given tensors. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "drivers/processes/processes.h"
#include "formats/tensor/tensor.h"
#include "runtime/session.h"
#include "tools/rondo/decoder_form.h"

namespace rondo::tools {

// How tokens are drawn. Text r of a session has the seed seed + r; draws are counted from 0 on.
struct Sampling {
  double temperature = 0;  // 0: the greatest logit
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 0;
};

using Tokens = std::vector<int64_t>;

class Decoder {
 public:
  // `given`: inputs of every run; `processes`: those that run the plan together, or null. `position`: how
  // many tokens the session's states hold, 0 or those of the session that they were copied from.
  Decoder(Session* session, const DecoderForm* form, const std::vector<Tensor>* given, Processes* processes,
          int64_t position = 0);

  // Runs the encoder, whose result the texts that are read next attend to: `sources` has one for each text,
  // or none where its inputs are given. kInvalidArgument for one that does not fit it.
  Status Encode(const std::vector<Tokens>& sources);
  // Reads one text for each of the form's, all of one length >= 1. `next`, if not null, gets the token that
  // follows each, drawn as `sampling` says from the first draw on. kOutOfRange where one of its logits is no
  // number (so do others below).
  Status Read(const std::vector<Tokens>& texts, const Sampling& sampling, Tokens* next);
  // Reads what follows the last ones and gives the next. `last` must be what was given before.
  Status Next(const Tokens& last, Tokens* next);
  // The same of any tokens, one of each text, whose number of draws so far is `draws`.
  Status Next(const Tokens& tokens, const Sampling& sampling, const std::vector<int64_t>& draws,
              Tokens* next);
  // Tokens of each text that were read.
  int64_t position() const { return position_; }

 private:
  struct Buffers {
    std::vector<std::vector<uint8_t>> inputs;  // of DecoderProgram::inputs
    std::vector<uint8_t> result;               // tokens drawn, or logits
  };
  // A run of some tokens of each text, from `first` of the texts on.
  struct Chunk {
    const std::vector<Tokens>* texts = nullptr;
    int64_t first = 0, count = 0;
    int64_t text = 0;  // tokens of each text up to the end of what is read: of all of a prompt
    const Sampling* sampling = nullptr;           // draws are counted anew, from `draws` on
    const std::vector<int64_t>* draws = nullptr;  // of each text; null: 0
    bool drawn = false;                           // the tokens are those the device has
  };

  // An output that a run is for.
  struct Wanted {
    uint32_t port;
    std::vector<uint8_t>* bytes;  // of its size; null: not read
  };
  Status RunFor(uint32_t program, const std::vector<Input>& inputs, Wanted result) const;
  uint32_t OwnPort(const Program& program, uint32_t port) const;
  bool AllHave(const Program& program, uint32_t port) const;
  Status Tell(bool here, std::vector<uint8_t>* bytes) const;
  void AddGiven(uint32_t program, std::vector<Input>* inputs) const;
  Status Step(const Tokens& tokens, Chunk chunk, Tokens* next);
  const DecoderProgram* Choose(int64_t done, int64_t rest) const;
  bool Ends(const DecoderProgram& program, int64_t count) const;
  Status Run(size_t program, const Chunk& chunk, int64_t position, Tokens* next);
  bool Fill(const DecoderProgram& program, const DecoderInput& input, const Chunk& chunk, int64_t position,
            std::vector<uint8_t>* bytes) const;
  bool CopyGivenMask(std::vector<uint8_t>* bytes) const;
  Status TakeResult(const DecoderProgram& program, const Chunk& chunk, const Buffers& buffers, Tokens* next);

  Session* session_;
  const DecoderForm* form_;
  const std::vector<Tensor>* given_;
  Processes* processes_;
  int64_t position_;
  std::vector<Buffers> buffers_;         // by program of the form
  Sampling sampling_;                    // of what is drawn on the host,
  std::vector<int64_t> draws_;           // and how many draws each text has had
  std::vector<uint8_t> encoded_;         // the encoder's result
  std::vector<int64_t> source_lengths_;  // of each text
};

}  // namespace rondo::tools
