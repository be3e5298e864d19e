#include "tools/rondo/expect_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "runtime/verify/value_names.h"
#include "tools/rondo/report.h"
#include "tools/rondo/shallow_json.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostFileBytes = uint64_t{64} << 20;

// The kind of value after an expectation's key.
enum class Takes { kBytes, kCount, kName, kTrue };
constexpr bool IsNumber(Takes takes) { return takes == Takes::kBytes || takes == Takes::kCount; }
struct Key {
  ExpectationKind kind;
  const char* name;
  Takes takes;
};
constexpr Key kKeys[] = {{ExpectationKind::kReusesMemory, "reuses_memory_of", Takes::kName},
                         {ExpectationKind::kSharesMemory, "shares_memory_with", Takes::kName},
                         {ExpectationKind::kDiesAfter, "dies_after", Takes::kName},
                         {ExpectationKind::kUpdatedInPlace, "updated_in_place", Takes::kTrue},
                         {ExpectationKind::kStepsAtMost, "steps_at_most", Takes::kCount},
                         {ExpectationKind::kLaunchesAtMost, "launches_at_most", Takes::kCount},
                         {ExpectationKind::kPartitionsAtMost, "partitions_at_most", Takes::kCount},
                         {ExpectationKind::kTouchedAtMost, "touched_bytes_at_most", Takes::kBytes},
                         {ExpectationKind::kCopiesAtMost, "copied_bytes_at_most", Takes::kBytes},
                         {ExpectationKind::kPeakAtMost, "peak_bytes_at_most", Takes::kBytes}};

Status Wrong(size_t entry, const std::string& text) {
  return Status::Error(Code::kInvalidArgument, "expectation %zu: %s", entry, text.c_str());
}

const Key* FindKey(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return key.name == name; });
  return found == std::end(kKeys) ? nullptr : found;
}

std::string UnknownField(const std::string& name) {
  std::vector<std::string_view> known = {"value", "program"};
  for (const Key& key : kKeys) known.push_back(key.name);
  const std::string near = NearestNames(name, known);
  std::string all;
  for (std::string_view one : known) all += (all.empty() ? "" : ", ") + std::string(one);
  return "\"" + name + "\" is no field of an expectation" +
         (near.empty() ? "; there are: " + all : "; nearest: " + near);
}

// Reads `field`, the expected value.
Status Take(const Key& key, const Json& field, size_t entry, MemoryExpectation* expectation) {
  const std::string name = std::string("\"") + key.name + "\" ";
  expectation->kind = key.kind;
  switch (key.takes) {
    case Takes::kBytes:
    case Takes::kCount:
      if (!field.is_number_unsigned())
        return Wrong(entry, name + "is no whole number" + (key.takes == Takes::kBytes ? " of bytes" : "") +
                                ", 0 or more");
      expectation->bytes = field.get<uint64_t>();
      return Status::Ok();
    case Takes::kName:
      if (!field.is_string()) return Wrong(entry, name + "is no name in quotes");
      expectation->other = field.get<std::string>();
      return Status::Ok();
    case Takes::kTrue:
      if (!field.is_boolean() || !field.get<bool>()) return Wrong(entry, name + "can only be true");
      return Status::Ok();
  }
  return Status::Ok();
}

Result<MemoryExpectation> ParseEntry(const Json& json, size_t entry) {
  if (!json.is_object()) return Wrong(entry, "it is no object in braces");
  MemoryExpectation expectation;
  const Key* kind = nullptr;
  for (const auto& [name, field] : json.items()) {
    const Key* key = FindKey(name);
    if (key == nullptr && name != "value" && name != "program") return Wrong(entry, UnknownField(name));
    if (key == nullptr) {
      if (!field.is_string()) return Wrong(entry, "\"" + name + "\" is no name in quotes");
      (name == "value" ? expectation.value : expectation.program) = field.get<std::string>();
      continue;
    }
    if (kind != nullptr)
      return Wrong(
          entry, std::string("it has both \"") + kind->name + "\" and \"" + key->name + "\": make two of it");
    kind = key;
    RONDO_RETURN_IF_ERROR(Take(*key, field, entry, &expectation));
  }
  if (kind == nullptr)
    return Wrong(entry, "it says nothing that is expected, as \"dies_after\" or \"peak_bytes_at_most\"");
  const bool has_value = json.contains("value"), needs_value = !IsNumber(kind->takes);
  if (needs_value && !has_value)
    return Wrong(entry, std::string("\"") + kind->name + "\" needs a \"value\" that it is said of");
  if (!needs_value && has_value)
    return Wrong(entry, std::string("\"") + kind->name + "\" is said of no \"value\"");
  return expectation;
}

}  // namespace

Result<std::vector<MemoryExpectation>> ParseExpectations(std::string_view text) {
  const Json json = ParseShallowJson(text);
  if (!json.is_object()) return Status::Error(Code::kInvalidArgument, "it is no JSON object");
  const Json version = json.value("rondo_expect", Json());
  if (version != 1) {
    // A list or object is not quoted, because it may be as long as the file.
    const std::string is = version.is_structured()
                               ? version.type_name()
                               : version.dump(-1, ' ', false, Json::error_handler_t::replace);
    return Status::Error(Code::kInvalidArgument, "\"rondo_expect\" is %.200s; this release reads 1",
                         Printable(is).c_str());
  }
  for (const auto& [name, field] : json.items()) {
    if (name != "rondo_expect" && name != "expect")
      return Status::Error(Code::kInvalidArgument,
                           "\"%.200s\" is no field of the file, which has rondo_expect and expect",
                           Printable(name).c_str());
  }
  const Json entries = json.value("expect", Json());
  if (!entries.is_array()) return Status::Error(Code::kInvalidArgument, "\"expect\" is no list in brackets");
  std::vector<MemoryExpectation> expectations;
  for (const Json& entry : entries) {
    RONDO_ASSIGN_OR_RETURN(MemoryExpectation expectation, ParseEntry(entry, expectations.size() + 1));
    expectations.push_back(std::move(expectation));
  }
  return expectations;
}

Result<std::vector<MemoryExpectation>> ReadExpectations(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadInputFile(path, kMostFileBytes));
  auto parsed = ParseExpectations({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!parsed.ok()) return parsed.status().At("%s", path.c_str());
  return parsed;
}

std::string ExpectationsText(const std::vector<MemoryExpectation>& expectations) {
  std::string text = "{\n  \"rondo_expect\": 1,\n  \"expect\": [";
  bool first = true;
  for (const MemoryExpectation& e : expectations) {
    Json entry;
    if (!e.program.empty()) entry["program"] = e.program;
    for (const Key& key : kKeys) {
      if (key.kind != e.kind) continue;
      if (!IsNumber(key.takes)) entry["value"] = e.value;
      entry[key.name] = IsNumber(key.takes)         ? Json(e.bytes)
                        : key.takes == Takes::kName ? Json(e.other)
                                                    : Json(true);
    }
    const std::string line = JsonText(entry.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (ParseShallowJson(line) != entry) continue;  // a name that is not UTF-8 cannot be written
    text += (first ? "\n    " : ",\n    ") + line;
    first = false;
  }
  return text + "\n  ]\n}\n";
}

Status WriteExpectations(const std::vector<MemoryExpectation>& expectations, const std::string& path) {
  const std::string text = ExpectationsText(expectations);
  constexpr FileKind kFile = {"expectations of rondo check", "{\n  \"rondo_expect\":"};
  return ReplaceFile(path, kFile, text.data(), text.size());
}

}  // namespace rondo::tools
