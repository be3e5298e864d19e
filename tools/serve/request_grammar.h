// The grammar that a request of OpenAI's interface asks for: `response_format`, or vLLM's
// `structured_outputs`.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/status.h"
#include "tools/serve/text_grammars.h"

namespace rondo::serve {

// Null: the request has none. `text`: the JSON from which `body` was read. kInvalidArgument, naming the
// member.
Result<std::shared_ptr<const Grammar>> ReadRequestGrammar(const nlohmann::json& body,
                                                          const std::string& text);

}  // namespace rondo::serve
