// Report: a command's output as paragraphs and tables, printed as text or as part of a web page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/printable.h"

namespace rondo::tools {

// A line width without limit.
inline constexpr size_t kAnyWidth = SIZE_MAX;

// Cells are text. A column whose cells below the head all begin with a digit is right-aligned.
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

struct Section {
  std::string title;
  std::vector<std::string> lines;  // before the table
  Table table;                     // may be empty
};

struct Report {
  std::string title;
  std::vector<Section> sections;
};

// Prints lines of at most the given numbers of characters. Text is broken at words. In a table the widest
// text columns are cut, and each cut cell ends with "…".
void PrintText(const Report& report, FILE* out, size_t text_width = kAnyWidth,
               size_t table_width = kAnyWidth);
// The section as a foldable part of a web page.
std::string ToHtml(const Section& section);

// JSON text in UTF-8 with \uNNNN for characters that Printable does not show; the values stay the same.
std::string JsonText(const std::string& dumped);
// UTF-8 text broken into lines of at most `width` characters. All lines but the first are indented by four;
// words longer than a line stay whole. No newline at the end.
std::string Wrapped(const std::string& text, size_t width);
// The first `width` characters of UTF-8 text; the last one is "…" if text was cut.
std::string CutTo(const std::string& text, size_t width);
// "1234 B", "12.3 KiB", "4.56 MiB", ...
std::string BytesText(uint64_t bytes);
std::string Escaped(const std::string& text);  // printable, for HTML and SVG
std::string Printf(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rondo::tools
