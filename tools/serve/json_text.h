// ParseJson: JSON from a client, whose depth has a limit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace rondo::serve {

// A value of JSON takes many times the bytes of its text: what is parsed counts so often.
inline constexpr uint64_t kJsonBytesPerByte = 12;

// kInvalidArgument, saying where, for what is no JSON, no object, or nested deeper than 32.
Result<nlohmann::json> ParseJson(std::string_view text);
// What is not UTF-8 becomes U+FFFD; no number that JSON cannot say: null.
std::string JsonText(const nlohmann::json& value);

// kInvalidArgument: what a client's JSON says cannot be done.
Status Refuse(const std::string& sentence);

// The member called `name`; null if there is none, or it is null.
const nlohmann::json* Member(const nlohmann::json& object, const char* name);

}  // namespace rondo::serve
