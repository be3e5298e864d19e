#include "compiler/codegen/cuda/kernel_configuration.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace rondo {

namespace {

constexpr std::string_view kVariantNames[] = {
    "",          "few_rows", "mma",          "wgmma",       "simt",          "tf32",      "tma",
    "dot",       "library",  "staged",       "flash",       "windows",       "plain",     "imma",
    "packed",    "fma",      "packed_tiles", "packed_rows", "packed_digits", "wgmma_fp8", "ping_pong",
    "pipelined", "short"};
static_assert(std::size(kVariantNames) == static_cast<size_t>(VariantId::kShort) + 1);

// Names that older plans and profiles use for variants.
struct OldName {
  std::string_view old;
  VariantId variant;
};
constexpr OldName kOldNames[] = {{"skinny", VariantId::kFewRows},
                                 {"tile", VariantId::kMma},
                                 {"group", VariantId::kWgmma},
                                 {"float", VariantId::kSimt},
                                 {"bulk", VariantId::kTma}};

// The parts of a name, in order: numbers joined by 'x', after a word or alone.
struct Field {
  std::string_view word;
  int64_t KernelConfiguration::*numbers[3];  // null where there are fewer
};
constexpr Field kFields[] = {
    {"", {&KernelConfiguration::m, &KernelConfiguration::n, &KernelConfiguration::k}},
    {"", {&KernelConfiguration::warps_m, &KernelConfiguration::warps_n, &KernelConfiguration::warps_k}},
    {"warps", {&KernelConfiguration::warps}},
    {"cluster", {&KernelConfiguration::cluster}},
    {"", {&KernelConfiguration::algorithm}},
};

void Append(std::string_view word, std::string* text) {
  if (!text->empty()) *text += ' ';
  text->append(word);
}

// Takes the next word of `rest`.
std::string_view NextWord(std::string_view* rest) {
  const size_t end = std::min(rest->find(' '), rest->size());
  const std::string_view word = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return word;
}

// Parses "128x64x2" into the configuration's fields. False if the text is anything else.
bool ParseNumbers(std::string_view text, const Field& field, KernelConfiguration* configuration) {
  const char *at = text.data(), *end = text.data() + text.size();
  for (int64_t KernelConfiguration::*number : field.numbers) {
    if (number == nullptr) return false;
    const auto [next, error] = std::from_chars(at, end, configuration->*number);
    if (error != std::errc() || configuration->*number < 1) return false;
    at = next;
    if (at == end) return true;
    if (*at++ != 'x') return false;
  }
  return false;
}

bool IsNumber(std::string_view word) { return !word.empty() && word[0] >= '0' && word[0] <= '9'; }

}  // namespace

std::string Text(const KernelConfiguration& configuration) {
  std::string text(kVariantNames[static_cast<size_t>(configuration.variant)]);
  for (const Field& field : kFields) {
    std::string numbers;
    for (int64_t KernelConfiguration::*number : field.numbers) {
      if (number == nullptr || configuration.*number == 0) break;
      numbers += (numbers.empty() ? "" : "x") + std::to_string(configuration.*number);
    }
    if (numbers.empty()) continue;
    if (!field.word.empty()) Append(field.word, &text);
    Append(numbers, &text);
  }
  return text;
}

std::optional<KernelConfiguration> ParseKernelConfiguration(std::string_view name) {
  for (const OldName& known : kOldNames) {
    std::string_view rest = name;
    if (NextWord(&rest) != known.old) continue;
    const std::string_view variant = kVariantNames[static_cast<size_t>(known.variant)];
    return ParseKernelConfiguration(std::string(variant) + std::string(name.substr(known.old.size())));
  }
  KernelConfiguration configuration;
  std::string_view rest = name;
  for (size_t t = 1; t < std::size(kVariantNames); ++t) {
    std::string_view after = rest;
    if (NextWord(&after) != kVariantNames[t]) continue;
    configuration.variant = static_cast<VariantId>(t);
    rest = after;
    break;
  }
  // A library's name has only a number, a tile's has its extents.
  const bool library = configuration.variant == VariantId::kLibrary;
  size_t next = library ? std::size(kFields) - 1 : 0;
  while (!rest.empty()) {
    std::string_view word = NextWord(&rest);
    const std::string_view named = IsNumber(word) ? std::string_view() : word;
    while (next < std::size(kFields) && kFields[next].word != named) ++next;
    if (next == std::size(kFields)) return std::nullopt;
    if (!named.empty()) word = NextWord(&rest);
    if (!ParseNumbers(word, kFields[next++], &configuration)) return std::nullopt;
  }
  if (Text(configuration) != name) return std::nullopt;
  return configuration;
}

bool Matches(const KernelConfiguration& pattern, const KernelConfiguration& configuration) {
  if (pattern.variant != VariantId::kAny && pattern.variant != configuration.variant) return false;
  for (const Field& field : kFields) {
    for (int64_t KernelConfiguration::*number : field.numbers) {
      if (number != nullptr && pattern.*number != 0 && pattern.*number != configuration.*number) return false;
    }
  }
  return true;
}

size_t BestCandidate(const std::vector<KernelCandidate>& candidates, const KernelConfiguration& pattern) {
  size_t best = candidates.size(), best_match = candidates.size();
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (pattern.variant != VariantId::kAny && candidates[i].configuration == pattern) return i;
    const double own = candidates[i].microseconds;
    if (best == candidates.size() || own < candidates[best].microseconds) best = i;
    if (!Matches(pattern, candidates[i].configuration)) continue;
    if (best_match == candidates.size() || own < candidates[best_match].microseconds) best_match = i;
  }
  return best_match < candidates.size() ? best_match : best;
}

}  // namespace rondo
