// Splits texts that name an input and an output, as in `--state INPUT:OUTPUT` and `--sample LOGITS:TOKENS`.
// Names may contain ':' themselves ("past:0"), so the split depends on the model: both sides must be its
// names. "\:" is always part of a name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"

namespace rondo {

using NamePair = std::pair<std::string, std::string>;

// All possible splits of `text`, with "\:" replaced by ':': one for each ':' with text on both sides, from
// left to right.
std::vector<NamePair> PairsIn(const std::string& text);

// `text` with "\:" as ':'.
std::string WithoutEscapes(const std::string& text);

// The only split of `text` with one name of `first` and one of `second`; no value if there is none.
// kInvalidArgument if there are several. `option` is the option that gave the text ("--state").
Result<std::optional<NamePair>> PartNames(const char* option, const std::string& text,
                                          const std::vector<std::string>& first,
                                          const std::vector<std::string>& second);

// A sentence with near names, for a `text` that PartNames could not split.
std::string NearPairs(const std::string& text, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs);

}  // namespace rondo
