#include "formats/plan/overlap_note.h"

#include <charconv>
#include <cstdio>

namespace rondo {
namespace {

// Reads a text from its beginning to its end.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
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
  // Up to `words`, which end it.
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

}  // namespace

std::string TextOf(const OverlapNote& note) {
  std::string text = "overlap of sync point " + std::to_string(note.sync_point) + " of program \"" +
                     note.program + "\" on devices ";
  for (size_t i = 0; i < note.devices.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(note.devices[i]);
  char numbers[200];
  std::snprintf(
      numbers, sizeof numbers,
      ": takes %.1f us; beside it %.1f -> %.1f us; exposed %.1f -> %.1f us; raised %d, sunk %d, moved %d",
      note.time, note.beside_before, note.beside_after, note.exposed_before, note.exposed_after, note.raised,
      note.sunk, note.moved);
  text += numbers;
  if (note.late >= 0.05) {
    std::snprintf(numbers, sizeof numbers, "; others %.1f us later", note.late);
    text += numbers;
  }
  return note.limit.empty() ? text : text + "; stopped by: " + note.limit;
}

std::optional<OverlapNote> ParseOverlapNote(std::string_view source) {
  Reader in(source);
  OverlapNote note;
  in.Expect("overlap of sync point ");
  in.Number(&note.sync_point);
  in.Expect(" of program \"");
  in.Until("\" on devices ", &note.program);
  do {
    note.devices.push_back(0);
    in.Number(&note.devices.back());
  } while (in.Take(", "));
  in.Expect(": takes ");
  in.Number(&note.time);
  in.Expect(" us; beside it ");
  in.Number(&note.beside_before);
  in.Expect(" -> ");
  in.Number(&note.beside_after);
  in.Expect(" us; exposed ");
  in.Number(&note.exposed_before);
  in.Expect(" -> ");
  in.Number(&note.exposed_after);
  in.Expect(" us; raised ");
  in.Number(&note.raised);
  in.Expect(", sunk ");
  in.Number(&note.sunk);
  in.Expect(", moved ");
  in.Number(&note.moved);
  if (in.Take("; others ")) {
    in.Number(&note.late);
    in.Expect(" us later");
  }
  if (in.Take("; stopped by: ")) {
    note.limit = in.Rest();
  } else if (!in.Rest().empty()) {
    return std::nullopt;
  }
  if (!in.ok()) return std::nullopt;
  return note;
}

}  // namespace rondo
