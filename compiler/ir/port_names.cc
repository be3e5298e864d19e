#include "compiler/ir/port_names.h"

#include <utility>

namespace rondo::ir {

namespace {

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  return at == std::string::npos ? std::string() : text.replace(at, from.size(), to);
}

}  // namespace

std::vector<std::string> StateOutputNames(const std::string& input) {
  std::vector<std::string> names;
  for (const char* suffix : {"_out", ".out", "/out", "_new", ".new", "_updated", "_next", ".1"}) {
    names.push_back(input + suffix);
  }
  for (const char* prefix : {"new_", "updated_", "out_", "next_"}) names.push_back(prefix + input);
  const std::pair<const char*, const char*> kSwaps[] = {
      {"past_key_values", "present"},
      {"past_key_values", "present_key_values"},
      {"past_key", "present_key"},
      {"past_value", "present_value"},
      {"past", "present"},
      {"_in", "_out"},
      {".in", ".out"},
      {"input_", "output_"},
      {"input.", "output."},
  };
  for (const auto& [from, to] : kSwaps) names.push_back(Replaced(input, from, to));
  return names;
}

}  // namespace rondo::ir
