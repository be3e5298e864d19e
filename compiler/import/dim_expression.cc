#include "compiler/import/dim_expression.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace rondo::importer {

namespace {

using Value = std::optional<int64_t>;
constexpr int64_t kMost = int64_t{1} << 62;
constexpr int kDeepest = 64;

bool InName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

// Quotient rounded down; none by 0.
Value FloorDivide(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// Recursive descent. Once `failed_` is set the value means nothing; a missing symbol counts as 1 so that the
// rest is read, too.
class Parser {
 public:
  Parser(const std::string& text, const std::map<std::string, int64_t>& symbols)
      : text_(text), symbols_(symbols) {}

  Value Whole() {
    const int64_t value = Sum();
    if (!Rest().empty()) failed_ = true;
    return failed_ || !missing.empty() ? Value() : value;
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
  int64_t Checked(Value value) {
    if (!value || *value > kMost || *value < -kMost) failed_ = true;
    return failed_ ? 1 : *value;
  }

  int64_t Sum() {
    int64_t value = Product();
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

  int64_t Product() {
    int64_t value = Factor();
    while (!failed_) {
      if (Take("**")) {
        failed_ = true;
      } else if (Take("*")) {
        int64_t out = 0;
        if (__builtin_mul_overflow(value, Factor(), &out)) failed_ = true;
        value = Checked(out);
      } else if (Take("//")) {
        value = Checked(FloorDivide(value, Factor()));
      } else if (Take("/")) {
        const int64_t by = Factor();
        // A fraction is a number only inside floor(), which rounds it.
        if (by != 0 && value % by != 0 && floors_ == 0 && missing.empty()) failed_ = true;
        value = Checked(FloorDivide(value, by));
      } else if (Take("%")) {
        const int64_t by = Factor();
        const Value quotient = FloorDivide(value, by);
        value = Checked(quotient ? Value(value - *quotient * by) : Value());
      } else {
        break;
      }
    }
    return value;
  }

  int64_t Factor() {
    if (++depth_ > kDeepest) failed_ = true;
    int64_t value = 1;
    const std::string_view rest = Rest();
    if (failed_ || rest.empty()) {
      failed_ = true;
    } else if (Take("-")) {
      value = -Factor();
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

  int64_t NumberOrName() {
    const size_t start = at_;
    // A hyphen between letters is part of a name ("seq-len"); a difference has spaces, or a number after it.
    const auto hyphen = [&] {
      return text_[at_] == '-' && at_ > start && at_ + 1 < text_.size() &&
             std::isalpha(static_cast<unsigned char>(text_[at_ + 1])) != 0 &&
             std::isalpha(static_cast<unsigned char>(text_[start])) != 0;
    };
    while (at_ < text_.size() && (InName(text_[at_]) || hyphen())) ++at_;
    const std::string name = text_.substr(start, at_ - start);
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      if (name.size() > 18 || name.find_first_not_of("0123456789") != std::string::npos) failed_ = true;
      return failed_ ? 1 : std::atoll(name.c_str());
    }
    if (Take("(")) return Call(name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    const auto found = symbols_.find(name);
    if (found != symbols_.end()) return found->second;
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
    return 1;
  }

  int64_t Call(std::string name) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    floors_ += name == "floor" ? 1 : 0;
    int64_t value = Sum();
    floors_ -= name == "floor" ? 1 : 0;
    if (name == "max" || name == "min") {
      if (!Take(",")) failed_ = true;
      const int64_t other = Sum();
      value = name == "max" ? std::max(value, other) : std::min(value, other);
    } else if (name != "floor") {
      failed_ = true;
    }
    if (!Take(")")) failed_ = true;
    return value;
  }

  const std::string& text_;
  const std::map<std::string, int64_t>& symbols_;
  size_t at_ = 0;
  int depth_ = 0, floors_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<int64_t> EvaluateDim(const std::string& text, const std::map<std::string, int64_t>& symbols,
                                   std::vector<std::string>* missing) {
  if (const auto found = symbols.find(text); found != symbols.end()) return found->second;
  Parser parser(text, symbols);
  const Value value = parser.Whole();
  for (const std::string& name : parser.failed() ? std::vector<std::string>{text} : parser.missing) {
    if (std::find(missing->begin(), missing->end(), name) == missing->end()) missing->push_back(name);
  }
  return value;
}

std::vector<std::string> SymbolsOf(const std::string& text) {
  const std::map<std::string, int64_t> none;
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
