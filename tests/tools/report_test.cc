#include "tools/rondo/report.h"

#include <gtest/gtest.h>

namespace rondo::tools {
namespace {

std::string Printed(const Report& report) {
  char* text = nullptr;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  PrintText(report, out);
  std::fclose(out);
  std::string printed(text, size);
  std::free(text);
  return printed;
}

TEST(Report, ColumnsOfNumbersAreSetToTheRight) {
  const Section section = {"part", {"a line"}, {{"name", "bytes"}, {{"a", "5"}, {"long", "12345"}}}};
  EXPECT_EQ(Printed({"title", {section}}),
            "title\n\npart\n  a line\n  name  bytes\n  a         5\n  long  12345\n");
}

TEST(Report, NamesFromAModelCannotSteerATerminal) {
  const Section section = {"part", {"a\x1b[2Jb"}, {{"name"}, {{"c\nd"}}}};
  EXPECT_EQ(Printed({"t\x7f", {section}}), "t\\x7f\n\npart\n  a\\x1b[2Jb\n  name\n  c\\x0ad\n");
}

TEST(Report, WhatIsNotUtf8IsShownAsNumbers) {
  for (const char* kept : {"caf\xc3\xa9", "\xc2\xa0", "\xe2\x82\xac", "\xed\x9f\xbf", "\xf0\x9f\x8e\xb5"})
    EXPECT_EQ(Printable(kept), kept);
  EXPECT_EQ(Printable("ti\xe3"
                      "e"),
            "ti\\xe3e");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");  // CSI, which terminals treat like ESC [
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(Printable("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("\xf0\x9f\x8e"), "\\xf0\\x9f\\x8e");
}

TEST(Report, NamesFromAModelCannotBecomeMarkup) {
  const std::string html = ToHtml(Section{"<script>", {"a & b"}, {{"x"}, {{"<b>\"q\""}}}});
  EXPECT_EQ(html.find("<script>"), std::string::npos);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html.find("&lt;b&gt;&quot;q&quot;"), std::string::npos);
  EXPECT_NE(html.find("a &amp; b"), std::string::npos);
}

TEST(Report, BytesAreReadable) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(9999), "9999 B");
  EXPECT_EQ(BytesText(10240), "10.0 KiB");
  EXPECT_EQ(BytesText(uint64_t{5} << 30), "5.00 GiB");
}

}  // namespace
}  // namespace rondo::tools
