// Inputs and outputs of models that a user names in one text, as in `--state INPUT:OUTPUT` and
// `--sample LOGITS:TOKENS`. Names may hold ':' themselves ("past:0"), so that only the model says where one
// ends: at the ':' on whose sides both are its names. "\:" is a ':' of a name in any case.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"

namespace rondo {

using NamePair = std::pair<std::string, std::string>;

// All that `text` could name, with "\:" as ':': one pair for each ':' with something on both sides, from left
// to right.
std::vector<NamePair> PairsIn(const std::string& text);

// `text` with "\:" as ':'.
std::string WithoutEscapes(const std::string& text);

// The one pair of `text` that is of `first` and `second`; none if there is none. kInvalidArgument if several
// are. `option` is what the text was given for ("--state").
Result<std::optional<NamePair>> PartNames(const char* option, const std::string& text,
                                          const std::vector<std::string>& first,
                                          const std::vector<std::string>& second);

// A sentence that says of `text`, which PartNames found nothing for: what is near.
std::string NearPairs(const std::string& text, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs);

}  // namespace rondo
