#include "core/printable.h"

#include <cstring>

namespace rondo {
namespace {

// Whether a terminal would obey the character, or text around it turns or breaks.
bool Works(uint32_t c) {
  return c < 0x20 || c - 0x7f < 0x21 || c == 0x61c || c - 0x200e < 2 || c - 0x2028 < 7 || c - 0x2066 < 4;
}

}  // namespace

size_t PrintableBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? uint32_t(uint8_t(text[at + i])) : 0u; };
  uint32_t code = byte(0);
  size_t bytes = 1;
  if (code >= 0x80) {
    if (code < 0xc2 || code > 0xf4) return 0;
    bytes = code < 0xe0 ? 2 : code < 0xf0 ? 3 : 4;
    code &= 0x7fu >> bytes;
    for (size_t i = 1; i < bytes; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return 0;
      code = code << 6 | (byte(i) & 0x3f);
    }
    // Written longer than it need be, a surrogate, or beyond the last.
    if (code < (bytes == 3 ? 0x800u : bytes == 4 ? 0x10000u : 0u) || code - 0xd800 < 0x800 || code > 0x10ffff)
      return 0;
  }
  return Works(code) ? 0 : bytes;
}

size_t WritePrintable(std::string_view text, char* to, size_t room) {
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = PrintableBytes(text, at);
    const char shown[] = {'\\', 'x', "0123456789abcdef"[uint8_t(text[at]) >> 4],
                          "0123456789abcdef"[uint8_t(text[at]) & 15]};
    const size_t takes = bytes == 0 ? sizeof(shown) : bytes;
    if (used + takes > room) break;
    std::memcpy(to + used, bytes == 0 ? shown : text.data() + at, takes);
    used += takes;
    at += bytes == 0 ? 1 : bytes;
  }
  return used;
}

}  // namespace rondo
