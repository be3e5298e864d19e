// TextJob: one text that a language model is to continue, and who is told as it comes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "tools/rondo/decoder.h"
#include "tools/rondo/sampler.h"
#include "tools/serve/http_message.h"
#include "tools/serve/text_grammars.h"

namespace rondo::serve {

using tools::Tokens;

// A token as log-probabilities are told.
struct TokenChance {
  std::string text;
  float log_probability = 0;
};

// What came of a text in one step.
struct TextPiece {
  std::string text;  // settled; "" while bytes, or what may become a stop text, wait
  // Of one token, if asked for.
  std::vector<TokenChance> tokens;                  // none or one
  std::vector<std::vector<TokenChance>> likeliest;  // as many
};

struct TextEnd {
  Status status;       // of what went wrong
  std::string reason;  // "stop" or "length"
  int64_t prompt_tokens = 0, tokens = 0;
};

struct TextJob {
  Tokens prompt;
  tools::SamplerSettings sampling;
  int64_t most_tokens = 16;
  int chances = -1;                // likeliest tokens that are told with each; < 0: nor its own probability
  bool ignores_ends = false;       // of the model's own tokens
  std::vector<std::string> stops;  // a text ends before one
  std::shared_ptr<const Grammar> grammar;  // what it follows, and ends with; null: none
  ByteCharge charge;
  Clock::time_point arrived, deadline;
  std::function<bool()> unwanted;  // nobody waits any more
  // Called on the engine's thread, which they must not hold up; `end` once, last.
  std::function<void(const TextPiece& piece)> piece;
  std::function<void(const TextEnd& end)> end;
};

}  // namespace rondo::serve
