#include "compiler/ir/node_annotation.h"

#include <algorithm>
#include <charconv>

#include "compiler/ir/region.h"

namespace rondo {
namespace {

constexpr std::string_view kValue = "value:", kRegion = "region:", kOn = ":deterministic";

bool IsKey(std::string_view text) {
  return IsOrder(text) || text == kAssertKey ||
         std::find(std::begin(kBindingKeys), std::end(kBindingKeys), text) != std::end(kBindingKeys);
}

// The allowed values of the keys that have few; WhyNoAnnotation covers the other keys.
struct Values {
  std::string_view key;
  std::initializer_list<std::string_view> values;
};
const Values kValues[] = {{kAssertKey, {"finite"}},
                          {"deterministic", {"on"}},
                          {"fuse", {"off"}},
                          {"graph", {"off"}},
                          {"keep", {"together"}},
                          {"matmul", {"library", "generated"}},
                          {"precision", {"f32", "tf32", "f16", "bf16"}}};

// Calls `at(i)` for each character without a `\` before it.
template <typename Visit>
void ForEachPlain(std::string_view text, Visit visit) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else {
      visit(i);
    }
  }
}

// The pattern element at `at`: one character or any characters; and where the next element begins.
struct Sign {
  char character = 0;
  bool any = false;
  size_t next = 0;
};
Sign SignAt(std::string_view pattern, size_t at) {
  if (pattern[at] == '\\' && at + 1 < pattern.size()) return {pattern[at + 1], false, at + 2};
  return {pattern[at], pattern[at] == '*', at + 1};
}

// `text` without the escaping `\`.
std::string Plain(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const Sign sign = SignAt(text, at);
    plain += sign.character;
    at = sign.next;
  }
  return plain;
}

}  // namespace

Result<NodeAnnotation> ParseNodeAnnotation(std::string_view text) {
  if (text.size() > kOn.size() && text.substr(text.size() - kOn.size()) == kOn)
    return ParseNodeAnnotation(std::string(text) + "=on");
  size_t colon = text.npos, equals = text.npos, any_colon = text.npos;
  ForEachPlain(text, [&](size_t at) {
    if (text[at] != ':') return;
    const size_t end = text.find('=', at);
    if (end == text.npos) return;
    any_colon = at;
    if (!IsKey(text.substr(at + 1, end - at - 1))) return;
    colon = at;
    equals = end;
  });
  if (colon == text.npos && any_colon != text.npos) {  // an unknown key, which is reported later
    colon = any_colon;
    equals = text.find('=', any_colon);
  }
  if (colon == 0 || colon == text.npos)
    return Status::Error(Code::kInvalidArgument, "%.300s is not of the form NODE:KEY=VALUE",
                         std::string(text).c_str());
  return NodeAnnotation{std::string(text.substr(0, colon)),
                        std::string(text.substr(colon + 1, equals - colon - 1)),
                        std::string(text.substr(equals + 1))};
}

std::string TextOf(const NodeAnnotation& annotation) {
  return annotation.node + ":" + annotation.key + "=" + annotation.value;
}

bool AppliesTo(std::string_view pattern, std::string_view name) {
  size_t at = 0, in = 0;                             // positions in the pattern and in the name
  size_t star = std::string_view::npos, resume = 0;  // after the last '*', and how far it matches
  while (in < name.size()) {
    const Sign sign = at < pattern.size() ? SignAt(pattern, at) : Sign{};
    if (at < pattern.size() && sign.any) {
      star = at = sign.next;
      resume = in;
    } else if (at < pattern.size() && sign.character == name[in]) {
      at = sign.next;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star;
      in = ++resume;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

bool AppliesTo(std::string_view pattern, std::string_view name, std::string_view prefix,
               const std::vector<std::string>& outputs) {
  if (NamesRegions(pattern)) return false;
  if (pattern.substr(0, kValue.size()) != kValue) return AppliesTo(pattern, name);
  const std::string_view of_value = pattern.substr(kValue.size());
  return std::any_of(outputs.begin(), outputs.end(), [&](const std::string& output) {
    return !output.empty() && AppliesTo(of_value, std::string(prefix) + output);
  });
}

bool NamesOne(std::string_view pattern) {
  bool one = true;
  ForEachPlain(pattern, [&](size_t at) { one = one && pattern[at] != '*'; });
  return one;
}

bool NamesRegions(std::string_view pattern) { return pattern.substr(0, kRegion.size()) == kRegion; }

int RegionsAbove(std::string_view pattern, std::string_view name) {
  if (!NamesRegions(pattern)) return -1;
  for (int above = 0; !name.empty(); ++above) {
    if (AppliesTo(pattern.substr(kRegion.size()), name)) return above;
    const size_t outer = name.rfind('/');
    name = outer == name.npos ? std::string_view() : name.substr(0, outer);
  }
  return -1;
}

bool Covers(std::string_view wide, std::string_view narrow) {
  if (NamesRegions(wide) != NamesRegions(narrow)) return wide == "*";
  if (wide.substr(0, kValue.size()) == kValue || narrow.substr(0, kValue.size()) == kValue)
    return wide == narrow || wide == "*" || (NamesOne(narrow) && !NamesOne(wide));
  return AppliesTo(wide, Plain(narrow));
}

std::string Escaped(std::string_view name) {
  std::string pattern;
  for (char c : name) {
    if (std::string_view("*:=,\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::vector<std::string> NamesIn(std::string_view list) {
  std::vector<size_t> ends;
  ForEachPlain(list, [&](size_t at) {
    if (list[at] == ',') ends.push_back(at);
  });
  ends.push_back(list.size());
  std::vector<std::string> names;
  size_t at = 0;
  for (size_t end : ends) {
    std::string_view name = list.substr(at, end - at);
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    name.remove_suffix(name.size() - std::min(name.find_last_not_of(' ') + 1, name.size()));
    if (!name.empty()) names.emplace_back(name);
    at = end + 1;
  }
  return names;
}

bool IsChoice(std::string_view key) {
  return key == "deterministic" || key == "matmul" || key == "precision";
}

bool Binds(std::string_view key, std::string_view value) {
  return value != kSampleValue &&
         std::find(std::begin(kBindingKeys), std::end(kBindingKeys), key) != std::end(kBindingKeys);
}

bool IsStreamNumber(std::string_view text) {
  uint32_t stream = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), stream);
  return error == std::errc() && end == text.data() + text.size() && stream < kMaxAnnotatedStreams;
}

std::string WhyNoAnnotation(std::string_view key, std::string_view value) {
  bool known = (key == "stream" && IsStreamNumber(value)) || (IsOrder(key) && !value.empty()) ||
               (key == kRegionKey && ir::IsRegionName(value));
  std::string all;
  for (const Values& each : kValues) {
    std::string text;
    for (const std::string_view one : each.values) {
      known = known || (key == each.key && value == one);
      text += (text.empty() ? "" : "|") + std::string(one);
    }
    all += ", " + std::string(each.key) + ": " + text;
  }
  if (known) return "";
  return "none of stream: 0 to " + std::to_string(kMaxAnnotatedStreams - 1) + all +
         ", region: NAME (of letters, digits, '_', '.' and '-'; OUTER/INNER), after: NODES, needs: NODES";
}

}  // namespace rondo
