// NoteReader: parses notes among a plan's sources piece by piece. Texts of plans may be anything.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace rondo {

// Reads a text from start to end. After the first missing piece, ok() stays false.
class NoteReader {
 public:
  explicit NoteReader(std::string_view text) : text_(text) {}
  bool ok() const { return ok_; }

  void Expect(std::string_view words) {
    ok_ = ok_ && text_.substr(0, words.size()) == words;
    if (ok_) text_.remove_prefix(words.size());
  }
  template <typename T>
  void Number(T* number) {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), *number);
    ok_ = ok_ && error == std::errc();
    if (ok_) text_.remove_prefix(static_cast<size_t>(end - text_.data()));
  }
  bool Take(std::string_view words) {
    if (!ok_ || text_.substr(0, words.size()) != words) return false;
    text_.remove_prefix(words.size());
    return true;
  }
  // Reads up to `words`, and skips them.
  void Until(std::string_view words, std::string* text) {
    const size_t end = text_.find(words);
    ok_ = ok_ && end != text_.npos;
    if (!ok_) return;
    *text = text_.substr(0, end);
    text_.remove_prefix(end + words.size());
  }
  std::string Rest() const { return std::string(text_); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

}  // namespace rondo
