#include "compiler/import/dim_expression.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace rondo::importer {

namespace {

using ir::Size;
constexpr int64_t kMost = int64_t{1} << 62;
constexpr int kDeepest = 64;

bool InName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

// A recursive descent parser. Once `failed_` is set the value is meaningless. A missing symbol counts as 1,
// so that the rest is parsed too.
class Parser {
 public:
  Parser(const std::string& text, const std::map<std::string, Size>& symbols)
      : text_(text), symbols_(symbols) {}

  std::optional<Size> Whole() {
    const Size value = Sum();
    if (!Rest().empty()) failed_ = true;
    return failed_ || !missing.empty() ? std::optional<Size>() : value;
  }
  bool failed() const { return failed_; }
  std::vector<std::string> names, missing;

 private:
  std::string_view Rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return std::string_view(text_).substr(at_);
  }
  bool Take(std::string_view word) {
    if (Rest().substr(0, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  Size Checked(const Size& value) {
    if (value.unknown() || value.most() > kMost || value.least() < -kMost) failed_ = true;
    return failed_ ? Size(1) : value;
  }

  Size Sum() {
    Size value = Product();
    while (!failed_) {
      if (Take("+")) {
        value = Checked(value + Product());
      } else if (Take("-")) {
        value = Checked(value - Product());
      } else {
        break;
      }
    }
    return value;
  }

  Size Product() {
    Size value = Factor();
    while (!failed_) {
      if (Take("**")) {
        failed_ = true;
      } else if (Take("*")) {
        value = Checked(value * Factor());
      } else if (Take("//")) {
        value = Checked(FloorDiv(value, Factor()));
      } else if (Take("/")) {
        const Size by = Factor();
        // A fraction is only valid inside floor(), which rounds it.
        if (floors_ == 0 && missing.empty() && !Size::Divide(value, by)) failed_ = true;
        value = Checked(FloorDiv(value, by));
      } else if (Take("%")) {
        value = Checked(Mod(value, Factor()));
      } else {
        break;
      }
    }
    return value;
  }

  Size Factor() {
    if (++depth_ > kDeepest) failed_ = true;
    Size value = 1;
    const std::string_view rest = Rest();
    if (failed_ || rest.empty()) {
      failed_ = true;
    } else if (Take("-")) {
      value = Size(0) - Factor();
    } else if (Take("(")) {
      value = Sum();
      if (!Take(")")) failed_ = true;
    } else if (InName(rest[0])) {
      value = NumberOrName();
    } else {
      failed_ = true;
    }
    --depth_;
    return value;
  }

  Size NumberOrName() {
    const size_t start = at_;
    // A hyphen between letters is part of a name ("seq-len"). A difference has spaces, or a number after the
    // hyphen.
    const auto hyphen = [&] {
      return text_[at_] == '-' && at_ > start && at_ + 1 < text_.size() &&
             std::isalpha(static_cast<unsigned char>(text_[at_ + 1])) != 0 &&
             std::isalpha(static_cast<unsigned char>(text_[start])) != 0;
    };
    while (at_ < text_.size() && (InName(text_[at_]) || hyphen())) ++at_;
    const std::string name = text_.substr(start, at_ - start);
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      if (name.size() > 18 || name.find_first_not_of("0123456789") != std::string::npos) failed_ = true;
      return failed_ ? 1 : int64_t{std::atoll(name.c_str())};
    }
    if (Take("(")) return Call(name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    const auto found = symbols_.find(name);
    if (found != symbols_.end()) return found->second;
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
    return 1;
  }

  Size Call(std::string name) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    floors_ += name == "floor" ? 1 : 0;
    Size value = Sum();
    floors_ -= name == "floor" ? 1 : 0;
    if (name == "max" || name == "min") {
      if (!Take(",")) failed_ = true;
      const Size other = Sum();
      value = name == "max" ? Max(value, other) : Min(value, other);
    } else if (name != "floor") {
      failed_ = true;
    }
    if (!Take(")")) failed_ = true;
    return value;
  }

  const std::string& text_;
  const std::map<std::string, Size>& symbols_;
  size_t at_ = 0;
  int depth_ = 0, floors_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<Size> EvaluateDim(const std::string& text, const std::map<std::string, Size>& symbols,
                                std::vector<std::string>* missing) {
  if (const auto found = symbols.find(text); found != symbols.end()) return found->second;
  Parser parser(text, symbols);
  const std::optional<Size> value = parser.Whole();
  for (const std::string& name : parser.failed() ? std::vector<std::string>{text} : parser.missing) {
    if (std::find(missing->begin(), missing->end(), name) == missing->end()) missing->push_back(name);
  }
  return value;
}

std::vector<std::string> SymbolsOf(const std::string& text) {
  const std::map<std::string, Size> none;
  Parser parser(text, none);
  parser.Whole();
  return parser.failed() || parser.names.empty() ? std::vector<std::string>{text} : parser.names;
}

bool IsPlaceholder(const std::string& text) {
  for (const char* none : {"-1", "None", "none", "null", "unknown", "Unknown"}) {
    if (text == none) return true;
  }
  return std::none_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || (static_cast<unsigned char>(c) & 0x80) != 0;
  });
}

}  // namespace rondo::importer
