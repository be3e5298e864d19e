#include "compiler/given_ports.h"

#include <algorithm>

#include "compiler/ir/port_names.h"

namespace rondo {
namespace {

bool IsAmong(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

size_t Nearest(const std::vector<std::string>& names, const std::string& wanted) {
  size_t nearest = wanted.size();
  for (const std::string& name : names) nearest = std::min(nearest, ir::LettersApart(name, wanted));
  return nearest;
}

}  // namespace

std::string WithoutEscapes(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\\:") != 0) plain += text[i];
  }
  return plain;
}

std::vector<NamePair> PairsIn(const std::string& text) {
  std::vector<NamePair> pairs;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == ':' && text[i - 1] != '\\')
      pairs.emplace_back(WithoutEscapes(text.substr(0, i)), WithoutEscapes(text.substr(i + 1)));
  }
  return pairs;
}

Result<std::optional<NamePair>> PartNames(const char* option, const std::string& text,
                                          const std::vector<std::string>& first,
                                          const std::vector<std::string>& second) {
  std::optional<NamePair> found;
  for (const NamePair& pair : PairsIn(text)) {
    if (!IsAmong(first, pair.first) || !IsAmong(second, pair.second)) continue;
    if (found && *found != pair) {
      return Status::Error(Code::kInvalidArgument,
                           "%s %s could be \"%s\" and \"%s\", or \"%s\" and \"%s\": write every ':' that "
                           "belongs to a name as \"\\:\"",
                           option, text.c_str(), found->first.c_str(), found->second.c_str(),
                           pair.first.c_str(), pair.second.c_str());
    }
    found = pair;
  }
  return found;
}

std::string NearPairs(const std::string& text, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs) {
  constexpr size_t kMostPairs = 16;
  std::vector<NamePair> pairs = PairsIn(text);
  if (pairs.empty()) pairs.emplace_back(text, text);
  pairs.resize(std::min(pairs.size(), kMostPairs));
  const auto distance = [&](const NamePair& pair) {
    return Nearest(inputs, pair.first) + Nearest(outputs, pair.second);
  };
  const NamePair* best = &pairs[0];
  for (const NamePair& pair : pairs) {
    if (distance(pair) < distance(*best)) best = &pair;
  }
  return "inputs near \"" + best->first + "\" are " + ir::NearNames(inputs, best->first) +
         ", outputs near \"" + best->second + "\" are " + ir::NearNames(outputs, best->second);
}

}  // namespace rondo
