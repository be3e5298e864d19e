#include "tools/serve/request_grammar.h"

#include "tools/serve/json_text.h"

namespace rondo::serve {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr const char *kFormat = "response_format", *kStructured = "structured_outputs";

// The text's properties come in the schema's order, which `json` does not keep.
ordered_json Ordered(const std::string& text, const char* member) {
  return ordered_json::parse(text, [&](int depth, ordered_json::parse_event_t event, ordered_json& value) {
    return depth != 1 || event != ordered_json::parse_event_t::key || value == member;
  })[member];
}

Result<Grammar> ReadFormat(const json& format, const std::string& text) {
  const json* type = Member(format, "type");
  if (type == nullptr || !type->is_string()) return Refuse("\"response_format\" has no \"type\"");
  if (*type == "text") return Grammar();
  if (*type == "json_object") return Grammar{"json_schema", R"({"type":"object"})"};
  if (*type != "json_schema")
    return Refuse("\"response_format\" has the type " + JsonText(*type).substr(0, 32) +
                  "; \"text\", \"json_object\" and \"json_schema\" are supported");
  const json* named = Member(format, "json_schema");
  if (named == nullptr || Member(*named, "schema") == nullptr)
    return Refuse("\"response_format\" has no \"json_schema\" with a \"schema\"");
  return Grammar{"json_schema", Ordered(text, kFormat)["json_schema"]["schema"].dump()};
}

// A schema is JSON or its text; choices are a list of texts; all other kinds are text.
Result<Grammar> ReadStructured(const json& structured, const std::string& text) {
  Grammar grammar;
  for (const auto& [name, kind] :
       {std::pair("json", "json_schema"), {"regex", "regex"}, {"choice", "choice"}, {"grammar", "grammar"}}) {
    const json* value = Member(structured, name);
    if (value == nullptr) continue;
    if (!grammar.kind.empty())
      return Refuse("\"structured_outputs\" has \"" + grammar.kind + "\" and \"" + name +
                    "\"; one is possible");
    const bool is_schema = std::string_view(name) == "json", is_choice = std::string_view(name) == "choice";
    bool good = is_choice ? value->is_array() && !value->empty() : is_schema || value->is_string();
    for (const json& one : is_choice&& good ? *value : json::array()) good = good && one.is_string();
    if (!good)
      return Refuse(std::string("\"") + name + "\" in \"structured_outputs\" is " +
                    (is_choice ? "no list of texts" : "no text"));
    grammar = {kind,
               value->is_string() ? value->get<std::string>() : Ordered(text, kStructured)[name].dump()};
  }
  if (!grammar.kind.empty()) return grammar;
  return Refuse("\"structured_outputs\" has none of \"json\", \"regex\", \"choice\" and \"grammar\"");
}

}  // namespace

Result<std::shared_ptr<const Grammar>> ReadRequestGrammar(const json& body, const std::string& text) {
  Grammar grammar;
  if (const json* format = Member(body, kFormat)) {
    RONDO_ASSIGN_OR_RETURN(grammar, ReadFormat(*format, text));
  }
  if (const json* structured = Member(body, kStructured)) {
    if (!grammar.kind.empty())
      return Refuse("the request has \"response_format\" and \"structured_outputs\"; one is possible");
    RONDO_ASSIGN_OR_RETURN(grammar, ReadStructured(*structured, text));
  }
  if (grammar.kind.empty()) return std::shared_ptr<const Grammar>();
  if (grammar.text.size() > kMostBytes)
    return Refuse("the request's grammar has " + std::to_string(grammar.text.size()) + " bytes; " +
                  std::to_string(kMostBytes) + " is the limit");
  return std::make_shared<const Grammar>(std::move(grammar));
}

}  // namespace rondo::serve
