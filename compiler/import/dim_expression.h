// Parses dimension names that are expressions of others: "past_sequence_length + sequence_length", "2*s0".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/size.h"

namespace rondo::importer {

// The size that `text` means: that of the symbol with exactly this name, otherwise the value of an expression
// of integers and symbols with + - * / // % and parentheses, and floor(x), max(x, y), min(x, y) in upper or
// lower case. None if a symbol is missing (its name is added to `missing`, each once), if the text is no
// expression, if a division leaves a remainder ('/') or may be by 0, or if the result exceeds 62 bits.
std::optional<ir::Size> EvaluateDim(const std::string& text, const std::map<std::string, ir::Size>& symbols,
                                    std::vector<std::string>* missing);

// The symbols that `text` names; itself if it is no expression.
std::vector<std::string> SymbolsOf(const std::string& text);

// Whether `text` is what exporters write for a dimension without a name ("?", "", "-1", "None", "unknown").
// Two such dimensions need not be the same.
bool IsPlaceholder(const std::string& text);

}  // namespace rondo::importer
