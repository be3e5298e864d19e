// Requests of OpenAI's /v1/completions and /v1/chat/completions, read into plain data.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/rondo/sampler.h"
#include "tools/serve/text_job.h"

namespace rondo::serve {

struct TextRequest {
  std::string model;
  bool is_chat = false;
  nlohmann::json messages;            // of a chat
  std::vector<std::string> prompts;   // of completions: texts,
  std::vector<Tokens> prompt_tokens;  // or tokens
  tools::SamplerSettings sampling;
  bool has_seed = false;
  int64_t count = 1;         // texts for each prompt
  int64_t most_tokens = -1;  // -1: not given
  int chances = -1;          // as TextJob::chances
  bool ignores_ends = false;
  std::vector<std::string> stops;
  std::shared_ptr<const Grammar> grammar;  // null: none
  bool streams = false, usage = false;     // usage: send token counts in a last chunk
};

// `text`: the JSON from which `body` was read, because the order of a schema's members matters.
// kInvalidArgument, naming the member, for an invalid request or one that asks for something unsupported.
Result<TextRequest> ReadTextRequest(const nlohmann::json& body, const std::string& text, bool is_chat);

}  // namespace rondo::serve
