// TextJob: a text that a language model continues, with the callbacks that get the result.
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

// A token with its log-probability.
struct TokenChance {
  std::string text;
  float log_probability = 0;
};

// The part of a text that one step adds.
struct TextPiece {
  std::string text;  // "" while incomplete characters, or the possible beginning of a stop text, wait
  // For one token, if requested.
  std::vector<TokenChance> tokens;                  // none or one
  std::vector<std::vector<TokenChance>> likeliest;  // as many as `tokens`
};

struct TextEnd {
  Status status;       // the error, if there was one
  std::string reason;  // "stop" or "length"
  int64_t prompt_tokens = 0, tokens = 0;
};

struct TextJob {
  Tokens prompt;
  tools::SamplerSettings sampling;
  int64_t most_tokens = 16;
  int chances = -1;                // likeliest tokens reported with each; < 0: no probabilities at all
  bool ignores_ends = false;       // the model's end tokens do not end the text
  std::vector<std::string> stops;  // the text ends before any of these
  std::shared_ptr<const Grammar> grammar;  // the text follows it and ends with it; null: none
  ByteCharge charge;
  Clock::time_point arrived, deadline;
  std::function<bool()> unwanted;  // whether nobody waits any more
  // Called on the engine's thread, so they must not wait. `end` is called once, last.
  std::function<void(const TextPiece& piece)> piece;
  std::function<void(const TextEnd& end)> end;
};

}  // namespace rondo::serve
