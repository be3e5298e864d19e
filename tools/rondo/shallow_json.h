// JSON that a user gives to a command, read so that copying it is safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace rondo::tools {

// Parses `text` without values nested deeper than in any file that a command reads. Copying or writing a
// value is recursive, and a text of some hundred KiB of brackets would exhaust the stack. Dropped values are
// missing from their list or object. The result is discarded (no object, no list, nothing) if `text` is not
// JSON.
nlohmann::ordered_json ParseShallowJson(std::string_view text);

}  // namespace rondo::tools
