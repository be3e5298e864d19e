// JSON that a user gives a command, read so that it can be copied.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace rondo::tools {

// `text` without what is nested deeper than any file that a command reads: whoever copies a value or writes
// it out does so by recursion, and a text of some hundred KiB of brackets would take all of the stack. What
// is left out is missing from the list or object that it was in. Discarded (no object, no list, nothing)
// where `text` is not JSON.
nlohmann::ordered_json ParseShallowJson(std::string_view text);

}  // namespace rondo::tools
