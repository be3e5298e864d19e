// Printable: makes text from untrusted files safe to show. Bytes that a terminal would obey, that reorder the
// text around them, or that are not UTF-8 are shown as \xNN, wherever Rondo makes text for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// Bytes of the UTF-8 character of `text` at `at`. 0 if it is not valid, or must not be shown as it is: a
// control character (of C0, DEL, or of C1: U+0080 to U+009F), a line or paragraph separator (U+2028, U+2029),
// or a mark that changes the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
size_t PrintableBytes(std::string_view text, size_t at);

// Whether all of `text` is shown as it is.
inline bool IsPrintable(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = PrintableBytes(text, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

// Writes `text` to `to`, as much as `room` holds, without a terminating zero. Returns the bytes written.
size_t WritePrintable(std::string_view text, char* to, size_t room);

inline std::string Printable(std::string_view text) {
  if (IsPrintable(text)) return std::string(text);
  std::string shown(4 * text.size(), '\0');
  shown.resize(WritePrintable(text, shown.data(), shown.size()));
  return shown;
}

}  // namespace rondo
