// Decoder: texts being continued in a session. Prompts are read in chunks of the sizes that the plan's
// programs take; then each step reads one token of each text.
//
// The texts of a session go token by token in step: all are at one position. If prompts have different
// lengths, the shorter ones are already continued while the longer ones are still read. Tokens are drawn on
// the device if the plan does that (compile --sample), and otherwise on the host (sampler.h). With several
// processes, each has the same texts and takes the same steps; results that only some devices have are sent
// to the others. Borrows the session, the form and the given tensors. Not thread-safe.
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

// How tokens are drawn. Text r of a session has the seed seed + r; draws count from 0.
struct Sampling {
  double temperature = 0;  // 0: the greatest logit
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 0;
};

using Tokens = std::vector<int64_t>;

class Decoder {
 public:
  // `given`: inputs of every run. `processes`: the processes that run the plan together, or null. `position`:
  // the number of tokens in the session's states: 0, or that of the session from which they were copied.
  Decoder(Session* session, const DecoderForm* form, const std::vector<Tensor>* given, Processes* processes,
          int64_t position = 0);

  // Runs the encoder; the texts read next attend to its result. `sources` has one source per text, or is
  // empty if the encoder's inputs are given. kInvalidArgument for a source that does not fit.
  Status Encode(const std::vector<Tokens>& sources);
  // Reads one text for each of the form's texts, all of one length >= 1. `next`, if not null, gets the token
  // after each text, drawn as `sampling` says, beginning with the first draw. kOutOfRange if a logit of a
  // text is NaN; the functions below return that too.
  Status Read(const std::vector<Tokens>& texts, const Sampling& sampling, Tokens* next);
  // Reads the tokens given last and gives the next ones. `last` must equal what was given before.
  Status Next(const Tokens& last, Tokens* next);
  // The same for any tokens, one per text; `draws` holds the number of draws of each text so far.
  Status Next(const Tokens& tokens, const Sampling& sampling, const std::vector<int64_t>& draws,
              Tokens* next);
  // The same, up to `most` times in one run, where the form has a loop: `next` gets the tokens of each round.
  // It ends early when each text has `ended` or has drawn one of `stops`, of which the first eight count.
  Status NextSeveral(const Tokens& last, int64_t most, std::vector<bool> ended, const Tokens& stops,
                     std::vector<Tokens>* next);
  // How many tokens of each text one run draws at most.
  int64_t rounds() const { return form_->loop.program == kNone ? 1 : form_->rounds; }
  // Tokens of each text that were read.
  int64_t position() const { return position_; }

 private:
  struct Buffers {
    std::vector<std::vector<uint8_t>> inputs;  // in the order of DecoderProgram::inputs
    std::vector<uint8_t> result;               // drawn tokens, or logits
  };
  // A run of some tokens of each text; `first` indexes into the texts.
  struct Chunk {
    const std::vector<Tokens>* texts = nullptr;
    int64_t first = 0, count = 0;
    int64_t text = 0;  // each text's length: while a prompt is read, that of the whole prompt
    const Sampling* sampling = nullptr;           // if set, draws are counted again, from `draws` on
    const std::vector<int64_t>* draws = nullptr;  // of each text; null: 0
    bool drawn = false;                           // the tokens are the ones drawn on the device
    int64_t rounds = 1;                           // of a token loop
    const Tokens* stops = nullptr;
    const std::vector<bool>* ended = nullptr;  // by text
  };

  // The output for which a program is run.
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
  std::vector<Input> InputsFor(const DecoderProgram& program, const Chunk& chunk, int64_t position,
                               std::vector<std::vector<uint8_t>>* bytes) const;
  bool Fill(const DecoderProgram& program, const DecoderInput& input, const Chunk& chunk, int64_t position,
            std::vector<uint8_t>* bytes) const;
  bool CopyGivenMask(std::vector<uint8_t>* bytes) const;
  Status NoToken(const DecoderProgram& program, int64_t read, int64_t text) const;
  Status TakeResult(const DecoderProgram& program, const Chunk& chunk, const Buffers& buffers, Tokens* next);

  Session* session_;
  const DecoderForm* form_;
  const std::vector<Tensor>* given_;
  Processes* processes_;
  int64_t position_;
  std::vector<Buffers> buffers_;         // by program of the form, then of its loop
  Sampling sampling_;                    // for draws on the host
  std::vector<int64_t> draws_;           // the number of draws of each text so far
  std::vector<uint8_t> encoded_;         // the encoder's result
  std::vector<int64_t> source_lengths_;  // by text
};

}  // namespace rondo::tools
