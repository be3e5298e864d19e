#include "tools/rondo/report.h"

#include <algorithm>
#include <cctype>
#include <cstdarg>

namespace rondo::tools {
namespace {

bool IsNumeric(const Table& table, size_t column) {
  bool any = false;
  for (const auto& row : table.rows) {
    if (column >= row.size() || row[column].empty()) continue;
    if (!std::isdigit(static_cast<unsigned char>(row[column][0]))) return false;
    any = true;
  }
  return any;
}

// The number of characters in UTF-8 text: bytes that are not continuation bytes.
size_t Characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// The widths of a table's first columns in a line.
struct Layout {
  std::vector<size_t> widths;
  bool fits = false;
};

// Lays out the first `columns` in lines of `limit` characters. The widest text columns shrink, down to
// kLeastCell.
Layout LayOut(const Table& table, const std::vector<bool>& numeric, size_t columns, size_t limit) {
  constexpr size_t kLeastCell = 8, kFirstBlank = 1, kBetween = 2;
  Layout layout;
  std::vector<size_t>& widths = layout.widths;
  size_t sum = kFirstBlank + columns * kBetween;
  for (size_t c = 0; c < columns; ++c) {
    widths.push_back(Characters(table.head[c]));
    for (const auto& row : table.rows) {
      if (c < row.size()) widths[c] = std::max(widths[c], Characters(Printable(row[c])));
    }
    sum += widths[c];
  }
  for (; sum > limit; --sum) {
    size_t widest = columns;
    for (size_t c = 0; c < columns; ++c) {
      if (!numeric[c] && widths[c] > kLeastCell && (widest == columns || widths[c] > widths[widest]))
        widest = c;
    }
    if (widest == columns) return layout;
    --widths[widest];
  }
  layout.fits = true;
  return layout;
}

// The last columns of a row continue on a second line if they do not fit.
void PrintTable(const Table& table, FILE* out, size_t limit) {
  constexpr size_t kIndent = 8;
  const size_t columns = table.head.size();
  std::vector<bool> right(columns);
  for (size_t c = 0; c < columns; ++c) right[c] = IsNumeric(table, c);
  Layout layout = LayOut(table, right, columns, limit);
  for (size_t fewer = columns; !layout.fits && fewer > 1;) layout = LayOut(table, right, --fewer, limit);
  const size_t beside = layout.widths.size();
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line = " ", below;
    for (size_t c = 0; c < columns; ++c) {
      std::string cell = c < row.size() ? Printable(row[c]) : "";
      if (c >= beside) {
        below += (below.empty() || cell.empty() ? "" : "  ") + cell;
        continue;
      }
      cell = CutTo(cell, layout.widths[c]);
      const size_t pad = layout.widths[c] - std::min(layout.widths[c], Characters(cell));
      line += ' ';
      if (right[c]) line.append(pad, ' ');
      line += cell;
      if (!right[c]) line.append(pad, ' ');
      line += ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::fprintf(out, "%s\n", line.c_str());
    if (!below.empty())
      std::fprintf(out, "%*s%s\n", static_cast<int>(kIndent), "", CutTo(below, limit - kIndent).c_str());
  };
  print_row(table.head);
  for (const auto& row : table.rows) print_row(row);
}

void AppendTable(const Table& table, std::string* html) {
  *html += "<table><tr>";
  for (const std::string& cell : table.head) *html += "<th>" + Escaped(cell) + "</th>";
  *html += "</tr>\n";
  std::vector<bool> right(table.head.size());
  for (size_t c = 0; c < right.size(); ++c) right[c] = IsNumeric(table, c);
  for (const auto& row : table.rows) {
    *html += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) {
      *html += (c < right.size() && right[c] ? "<td class=n>" : "<td>") + Escaped(row[c]) + "</td>";
    }
    *html += "</tr>\n";
  }
  *html += "</table>\n";
}

}  // namespace

void PrintText(const Report& report, FILE* out, size_t text_width, size_t table_width) {
  if (!report.title.empty()) std::fprintf(out, "%s\n", Wrapped(Printable(report.title), text_width).c_str());
  for (const Section& section : report.sections) {
    if (section.lines.empty() && section.table.rows.empty()) continue;
    std::fprintf(out, "\n%s\n", Wrapped(Printable(section.title), text_width).c_str());
    for (const std::string& line : section.lines)
      std::fprintf(out, "%s\n", Wrapped("  " + Printable(line), text_width).c_str());
    if (!section.table.rows.empty()) PrintTable(section.table, out, table_width);
  }
}

std::string Wrapped(const std::string& text, size_t width) {
  constexpr const char* kIndent = "    ";
  const size_t first = std::min(text.find_first_not_of(' '), text.size());
  const std::string margin = text.substr(0, first);
  std::string done, line = margin;
  for (size_t at = first; at < text.size();) {
    const size_t end = std::min(text.find(' ', at + 1), text.size());  // a word with the blanks before it
    const std::string word = text.substr(at, end - at);
    if (line.size() > margin.size() && Characters(line) + Characters(word) > width) {
      done += line + "\n";
      line = margin + kIndent + word.substr(std::min(word.find_first_not_of(' '), word.size()));
    } else {
      line += word;
    }
    at = end;
  }
  return done + line;
}

std::string CutTo(const std::string& text, size_t width) {
  if (Characters(text) <= width) return text;
  size_t at = 0;
  for (size_t kept = 0; kept + 1 < width; ++kept) {
    do {
      ++at;
    } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  }
  return text.substr(0, at) + (width > 0 ? "…" : "");
}

std::string ToHtml(const Section& section) {
  std::string html = "<details open><summary>" + Escaped(section.title) + "</summary>\n";
  for (const std::string& line : section.lines) html += "<p>" + Escaped(line) + "</p>\n";
  if (!section.table.rows.empty()) AppendTable(section.table, &html);
  return html + "</details>\n";
}

std::string BytesText(uint64_t bytes) {
  if (bytes < 10000) return Printf("%llu B", static_cast<unsigned long long>(bytes));
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return Printf(value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : Printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string JsonText(const std::string& dumped) {
  std::string out;
  for (size_t at = 0; at < dumped.size();) {
    const size_t bytes = dumped[at] == '\n' ? 1 : PrintableBytes(dumped, at);
    if (bytes > 0) {
      out.append(dumped, at, bytes);
      at += bytes;
      continue;
    }
    const auto byte = [&](size_t i) {
      return static_cast<unsigned>(static_cast<unsigned char>(at + i < dumped.size() ? dumped[at + i] : 0));
    };
    const unsigned first = byte(0);  // one, two or three bytes: unprintable characters are below U+3000
    const size_t taken = first < 0xc0 ? 1 : first < 0xe0 ? 2 : 3;
    out += Printf("\\u%04x", taken == 1   ? first
                             : taken == 2 ? (first & 0x1f) << 6 | (byte(1) & 0x3f)
                                          : (first & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f));
    at += taken;
  }
  return out;
}

std::string Printf(const char* format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, args);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(args);
  va_end(again);
  return text;
}

}  // namespace rondo::tools
