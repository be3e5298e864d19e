// Printable: names come from files that nobody vouches for. What a terminal would obey, what reorders the
// text around it, and what is not UTF-8 is shown as \xNN, wherever Rondo makes text for people.
#ifndef RONDO_CORE_PRINTABLE_H_
#define RONDO_CORE_PRINTABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// Bytes of the UTF-8 character of `text` at `at`; 0 if there is none, or one that is not shown as it is: a
// control character (of C0, DEL, or of C1: U+0080 to U+009F), a line or paragraph separator (U+2028, U+2029),
// or a mark that changes the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
// The ranges of bytes are those of table 3-7 of the Unicode standard.
inline size_t PrintableBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(at + i < text.size() ? text[at + i] : 0);
  };
  const unsigned char first = byte(0), second = byte(1), third = byte(2);
  if (first < 0x80) return first >= 32 && first != 127 ? 1 : 0;
  const size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (first < 0xc2 || first > 0xf4) return 0;
  const unsigned char least = first == 0xc2 || first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (second < least || second > most) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xd8 && second == 0x9c) return 0;
  if (first != 0xe2 || (second != 0x80 && second != 0x81)) return bytes;
  const bool turns = second == 0x80 ? third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae)
                                    : third >= 0xa6 && third <= 0xa9;
  return turns ? 0 : bytes;
}

// Whether all of `text` is shown as it is.
inline bool IsPrintable(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = PrintableBytes(text, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

// Writes `text` to `to`, as much as `room` holds of it, without a zero behind it. Returns the bytes written.
inline size_t WritePrintable(std::string_view text, char* to, size_t room) {
  constexpr char kDigits[] = "0123456789abcdef";
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = PrintableBytes(text, at);
    if (used + (bytes == 0 ? 4 : bytes) > room) break;
    if (bytes == 0) {
      const auto code = static_cast<unsigned char>(text[at++]);
      for (const char c : {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]}) to[used++] = c;
    }
    for (size_t i = 0; i < bytes; ++i) to[used++] = text[at++];
  }
  return used;
}

inline std::string Printable(std::string_view text) {
  if (IsPrintable(text)) return std::string(text);
  std::string shown(4 * text.size(), '\0');
  shown.resize(WritePrintable(text, shown.data(), shown.size()));
  return shown;
}

}  // namespace rondo

#endif  // RONDO_CORE_PRINTABLE_H_
