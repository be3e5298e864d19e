#include "tools/serve/json_text.h"

namespace rondo::serve {

using nlohmann::json;

namespace {

constexpr int kMostDepth = 32;

}  // namespace

Result<json> ParseJson(std::string_view text) {
  bool too_deep = false;
  const auto guard = [&](int depth, json::parse_event_t event, json&) {
    const bool begins =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (!begins || depth < kMostDepth) return true;
    too_deep = true;
    return false;  // keep nothing of the value
  };
  json value = json::parse(text.begin(), text.end(), guard, false);
  if (too_deep)
    return Status::Error(Code::kInvalidArgument, "the body's JSON is nested deeper than %d", kMostDepth);
  if (value.is_discarded()) return Status::Error(Code::kInvalidArgument, "the body is no JSON");
  if (!value.is_object()) return Status::Error(Code::kInvalidArgument, "the body is no JSON object");
  return value;
}

std::string JsonText(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

Status Refuse(const std::string& sentence) {
  return Status::Error(Code::kInvalidArgument, "%s", sentence.c_str());
}

const json* Member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace rondo::serve
