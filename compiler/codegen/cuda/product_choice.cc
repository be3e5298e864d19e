#include "compiler/codegen/cuda/product_choice.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace rondo {

namespace {

constexpr std::string_view kTemplateNames[] = {"",      "skinny", "tile", "group",
                                               "float", "tf32",   "bulk", "library"};

// The parts of a name, in its order: numbers joined by 'x', behind a word or alone.
struct Field {
  std::string_view word;
  int64_t ProductChoice::*numbers[3];  // null where there are fewer
};
constexpr Field kFields[] = {
    {"", {&ProductChoice::rows, &ProductChoice::columns, &ProductChoice::deep}},
    {"", {&ProductChoice::warps_rows, &ProductChoice::warps_columns, &ProductChoice::warps_deep}},
    {"warps", {&ProductChoice::warps}},
    {"cluster", {&ProductChoice::cluster}},
    {"", {&ProductChoice::algorithm}},
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

// "128x64x2": as many numbers as there are, into the choice. False if it is anything else.
bool ParseNumbers(std::string_view text, const Field& field, ProductChoice* choice) {
  const char *at = text.data(), *end = text.data() + text.size();
  for (int64_t ProductChoice::*number : field.numbers) {
    if (number == nullptr) return false;
    const auto [next, error] = std::from_chars(at, end, choice->*number);
    if (error != std::errc() || choice->*number < 1) return false;
    at = next;
    if (at == end) return true;
    if (*at++ != 'x') return false;
  }
  return false;
}

bool IsNumber(std::string_view word) { return !word.empty() && word[0] >= '0' && word[0] <= '9'; }

}  // namespace

std::string Text(const ProductChoice& choice) {
  std::string text(kTemplateNames[static_cast<size_t>(choice.by)]);
  for (const Field& field : kFields) {
    std::string numbers;
    for (int64_t ProductChoice::*number : field.numbers) {
      if (number == nullptr || choice.*number == 0) break;
      numbers += (numbers.empty() ? "" : "x") + std::to_string(choice.*number);
    }
    if (numbers.empty()) continue;
    if (!field.word.empty()) Append(field.word, &text);
    Append(numbers, &text);
  }
  return text;
}

std::optional<ProductChoice> ParseProductChoice(std::string_view name) {
  ProductChoice choice;
  std::string_view rest = name;
  for (size_t t = 1; t < std::size(kTemplateNames); ++t) {
    std::string_view after = rest;
    if (NextWord(&after) != kTemplateNames[t]) continue;
    choice.by = static_cast<ProductTemplate>(t);
    rest = after;
    break;
  }
  // A library's choice has a number alone, a tile's its sides.
  const bool library = choice.by == ProductTemplate::kLibrary;
  size_t next = library ? std::size(kFields) - 1 : 0;
  while (!rest.empty()) {
    std::string_view word = NextWord(&rest);
    const std::string_view named = IsNumber(word) ? std::string_view() : word;
    while (next < std::size(kFields) && kFields[next].word != named) ++next;
    if (next == std::size(kFields)) return std::nullopt;
    if (!named.empty()) word = NextWord(&rest);
    if (!ParseNumbers(word, kFields[next++], &choice)) return std::nullopt;
  }
  if (Text(choice) != name) return std::nullopt;
  return choice;
}

bool Matches(const ProductChoice& pattern, const ProductChoice& choice) {
  if (pattern.by != ProductTemplate::kAny && pattern.by != choice.by) return false;
  for (const Field& field : kFields) {
    for (int64_t ProductChoice::*number : field.numbers) {
      if (number != nullptr && pattern.*number != 0 && pattern.*number != choice.*number) return false;
    }
  }
  return true;
}

size_t BestOffer(const std::vector<ProductOffer>& offers, const ProductChoice& pattern) {
  size_t best = offers.size(), best_match = offers.size();
  for (size_t i = 0; i < offers.size(); ++i) {
    if (best == offers.size() || offers[i].cycles < offers[best].cycles) best = i;
    if (!Matches(pattern, offers[i].choice)) continue;
    if (best_match == offers.size() || offers[i].cycles < offers[best_match].cycles) best_match = i;
  }
  return best_match < offers.size() ? best_match : best;
}

}  // namespace rondo
