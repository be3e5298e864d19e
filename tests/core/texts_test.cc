// Texts for people: names from files, shapes, the log.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/printable.h"
#include "core/shape.h"

namespace rondo {
namespace {

std::string Utf8(uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
}

std::string Escaped(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    char shown[5];
    std::snprintf(shown, sizeof(shown), "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(byte)));
    text += shown;
  }
  return text;
}

TEST(Printable, ShowsEveryCharacterButThoseThatTerminalsObey) {
  // The first and last of each range that the header lists.
  const std::pair<uint32_t, uint32_t> kHidden[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                                                   {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
  for (uint32_t code = 0; code <= 0x10ffff; ++code) {
    bool shown = code < 0xd800 || code > 0xdfff;  // surrogates are not shown
    for (const auto& [first, last] : kHidden) shown &= code < first || code > last;
    const std::string bytes = Utf8(code);
    ASSERT_EQ(PrintableBytes(bytes, 0), shown ? bytes.size() : 0) << code;
    ASSERT_EQ(Printable("a" + bytes + "b"), "a" + (shown ? bytes : Escaped(bytes)) + "b") << code;
  }
}

TEST(Printable, ShowsWhatIsNotUtf8ByteByByte) {
  for (const std::string& bytes :
       {std::string("\x80"), std::string("\xc0\xaf"), std::string("\xc1\xbf"), std::string("\xe0\x9f\xbf"),
        std::string("\xf0\x8f\xbf\xbf"), std::string("\xf4\x90\x80\x80"), std::string("\xf5\x80\x80\x80"),
        std::string("\xff"), std::string("\xe2\x82"), std::string("\xc3")})
    EXPECT_EQ(Printable("a" + bytes), "a" + Escaped(bytes));
}

TEST(Printable, NeverCutsACharacterNorWritesBeyondItsRoom) {
  const std::string text = "a\x01\xe2\x82\xac!", shown = "a\\x01\xe2\x82\xac!";
  for (size_t room = 0; room <= shown.size() + 1; ++room) {
    std::string to(room + 1, '#');
    const size_t used = WritePrintable(text, to.data(), room);
    const size_t fits = room < 1 ? 0 : room < 5 ? 1 : room < 8 ? 5 : room < 9 ? 8 : 9;
    EXPECT_EQ(to, shown.substr(0, fits) + std::string(room + 1 - fits, '#')) << room;
    EXPECT_EQ(used, fits);
  }
}

TEST(Shapes, AreWrittenAsFarAsThereIsRoom) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{2, -1, 1234567890123}}) {
    std::string whole = "[";
    for (int i = 0; i < shape.rank; ++i) whole += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    whole += "]";
    for (size_t room = 1; room <= whole.size() + 3; ++room) {
      std::string to(room + 1, '#');
      EXPECT_EQ(Format(shape, to.data(), static_cast<int>(room)), to.data());
      EXPECT_EQ(std::string(to.c_str()), whole.substr(0, room - 1));
      EXPECT_EQ(to.back(), '#');
    }
  }
}

TEST(Log, TellsWhatIsAtLeastAsGraveAsAskedFor) {
  for (int least = 0; least < 4; ++least) {
    std::vector<std::string> told;
    const auto write = [](void* user, LogLevel level, const char* text) {
      static_cast<std::vector<std::string>*>(user)->push_back(std::to_string(static_cast<int>(level)) + text);
    };
    const LogHook hook = {write, &told, static_cast<LogLevel>(least)};
    std::vector<std::string> expected;
    for (int level = 0; level < 4; ++level) {
      hook(static_cast<LogLevel>(level), "!");
      if (level >= least) expected.push_back(std::to_string(level) + "!");
    }
    EXPECT_EQ(told, expected);
  }
  LogHook()(LogLevel::kError, "nobody listens");
}

}  // namespace
}  // namespace rondo
