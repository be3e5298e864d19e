// Parses dimension names that are expressions of others: "past_sequence_length + sequence_length", "2*s0".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/size.h"

namespace rondo::importer {

// The size that `text` is: that of the symbol of this very name, else whole numbers and symbols joined by + -
// * / // % and parentheses, and floor(x), max(x, y), min(x, y) in any case. None if a symbol is missing (its
// name is added to `missing`, each once), the text is no expression, a division leaves a remainder ('/') or
// may be by 0, or the result leaves 62 bits.
std::optional<ir::Size> EvaluateDim(const std::string& text, const std::map<std::string, ir::Size>& symbols,
                                    std::vector<std::string>* missing);

// The symbols that `text` names; itself if it is no expression.
std::vector<std::string> SymbolsOf(const std::string& text);

// Whether `text` names no dimension: what exporters write where one has no name ("?", "", "-1", "None",
// "unknown"). Two dimensions that both say so need not be the same.
bool IsPlaceholder(const std::string& text);

}  // namespace rondo::importer
