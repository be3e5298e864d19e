#include "tools/rondo/shallow_json.h"

#include <nlohmann/json.hpp>

namespace rondo::tools {

using Json = nlohmann::ordered_json;

Json ParseShallowJson(std::string_view text) {
  constexpr int kDeepest = 4;  // the times in a profile: an object in an object in a list in an object
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  return Json::parse(text, shallow, /*allow_exceptions=*/false);
}

}  // namespace rondo::tools
