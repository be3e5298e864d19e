// Report: what a command has to say, as paragraphs and tables, printed as text or as part of a web page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/printable.h"

namespace rondo::tools {

// Characters of a line that may be as long as it is.
inline constexpr size_t kAnyWidth = SIZE_MAX;

// Cells are text; a column whose cells (heads aside) all begin with a digit is set to the right.
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

// Lines of at most so many characters: text is cut into several lines at words, and of a table the widest
// columns of text are cut, each cell with "…" at its end.
void PrintText(const Report& report, FILE* out, size_t text_width = kAnyWidth,
               size_t table_width = kAnyWidth);
// As a part of a web page that can be folded.
std::string ToHtml(const Section& section);

// Text of JSON, which is UTF-8, with what Printable does not show as it is as \uNNNN: the same values.
std::string JsonText(const std::string& dumped);
// UTF-8 text in lines of at most `width` characters, all but the first four further in; words longer than
// that stay whole. No newline at the end.
std::string Wrapped(const std::string& text, size_t width);
// The first `width` characters of UTF-8 text, the last of them "…" where that is not all.
std::string CutTo(const std::string& text, size_t width);
// "1234 B", "12.3 KiB", "4.56 MiB", ...
std::string BytesText(uint64_t bytes);
std::string Escaped(const std::string& text);  // printable, for HTML and SVG
std::string Printf(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace rondo::tools
