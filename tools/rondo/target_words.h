// The targets that --target knows, one by one: what shells complete.
#ifndef RONDO_TOOLS_RONDO_TARGET_WORDS_H_
#define RONDO_TOOLS_RONDO_TARGET_WORDS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/targets.h"

namespace rondo::tools {

inline std::vector<std::string> TargetWords() {
  std::vector<std::string> words;
  const std::string known = KnownTargets();
  for (size_t at = 0; at < known.size();) {
    const size_t end = std::min(known.find(", ", at), known.size());
    words.push_back(known.substr(at, end - at));
    at = end + 2;
  }
  return words;
}

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_TARGET_WORDS_H_
