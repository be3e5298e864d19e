// ParseJson: JSON from a client, whose depth has a limit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace rondo::serve {

// A parsed JSON value takes many times the bytes of its text. Its bytes are counted with this factor.
inline constexpr uint64_t kJsonBytesPerByte = 12;

// kInvalidArgument, with the place, if the text is not JSON, is not an object, or is nested deeper than 32.
Result<nlohmann::json> ParseJson(std::string_view text);
// Bytes that are not UTF-8 become U+FFFD; numbers that JSON cannot express (NaN, infinity) become null.
std::string JsonText(const nlohmann::json& value);

// kInvalidArgument: a client's request cannot be fulfilled.
Status Refuse(const std::string& sentence);

// The member called `name`; null if there is none, or it is null.
const nlohmann::json* Member(const nlohmann::json& object, const char* name);

}  // namespace rondo::serve
