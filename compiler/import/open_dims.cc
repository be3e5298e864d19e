#include "compiler/import/open_dims.h"

#include <algorithm>
#include <cctype>

namespace rondo::importer {
namespace {

// Quotes the text so that a shell takes it as one word.
std::string ShellWord(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-.,:/=+@").find(c) != std::string_view::npos;
  });
  if (plain && !text.empty()) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string Joined(const std::vector<std::string>& texts, const char* between) {
  std::string text;
  for (const std::string& one : texts) text += (text.empty() ? "" : between) + one;
  return text;
}

}  // namespace

void OpenDims::AddOption(const std::string& name, const std::string& value) {
  options_.push_back("--shape " + ShellWord(name + "=" + value));
}

void OpenDims::AddSymbol(const std::string& symbol, const std::string& input, int axis) {
  if (!symbols_.insert(symbol).second) return;
  texts_.push_back("\"" + symbol + "\" (input \"" + input + "\", axis " + std::to_string(axis) + ")");
  AddOption(symbol, "1");
}

void OpenDims::AddAxis(const std::string& input, int axis) {
  texts_.push_back("axis " + std::to_string(axis) + " of input \"" + input + "\"");
}

void OpenDims::AddInput(const std::string& input) {
  texts_.push_back("the shape of input \"" + input + "\"");
  AddOption(input, "1");
}

void OpenDims::AddShape(const std::string& input, const std::vector<int64_t>& dims) {
  std::vector<std::string> numbers;
  for (const int64_t dim : dims) numbers.push_back(std::to_string(dim));
  AddOption(input, Joined(numbers, "x"));
}

std::string OpenDims::Text() const { return Joined(texts_, ", "); }
std::string OpenDims::Line() const { return Joined(options_, " "); }

}  // namespace rondo::importer
