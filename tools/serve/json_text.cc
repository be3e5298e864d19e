#include "tools/serve/json_text.h"

#include <algorithm>

namespace rondo::serve {

using nlohmann::json;

namespace {

constexpr int kMostDepth = 32;

// Reads JSON for the number of bytes up to where it is wrong.
struct Place : nlohmann::json_sax<json> {
  size_t at = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    at = position;
    return false;
  }
};

Status NoJson(std::string_view text) {
  Place place;
  json::sax_parse(text.begin(), text.end(), &place);
  if (place.at > text.size())
    return Status::Error(Code::kInvalidArgument, "the body is no JSON: it ends too early, after %zu bytes",
                         text.size());
  const std::string_view before = text.substr(0, place.at);
  const std::string_view shown = before.substr(before.size() - std::min<size_t>(before.size(), 24));
  return Status::Error(Code::kInvalidArgument, "the body is no JSON at byte %zu: ...%.*s", place.at,
                       static_cast<int>(shown.size()), shown.data());
}

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
  if (value.is_discarded()) return NoJson(text);
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
