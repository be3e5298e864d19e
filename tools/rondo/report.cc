#include "tools/rondo/report.h"

#include <algorithm>
#include <cctype>
#include <cstdarg>

namespace rondo::tools {
namespace {

constexpr char kStyle[] = R"(
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #1b1f24; }
h1 { font-size: 22px; } h2 { font-size: 17px; margin-top: 2em; border-bottom: 1px solid #d0d7de; }
table { border-collapse: collapse; font-size: 12px; display: block; overflow-x: auto; }
th, td { padding: 2px 10px 2px 0; text-align: left; vertical-align: top; border-bottom: 1px solid #eaeef2; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { border: 1px solid #d0d7de; background: #fff; width: 100%; height: auto; }
)";

bool IsNumeric(const Table& table, size_t column) {
  bool any = false;
  for (const auto& row : table.rows) {
    if (column >= row.size() || row[column].empty()) continue;
    if (!std::isdigit(static_cast<unsigned char>(row[column][0]))) return false;
    any = true;
  }
  return any;
}

void PrintTable(const Table& table, FILE* out) {
  const size_t columns = table.head.size();
  std::vector<size_t> widths(columns);
  std::vector<bool> right(columns);
  for (size_t c = 0; c < columns; ++c) {
    right[c] = IsNumeric(table, c);
    widths[c] = table.head[c].size();
    for (const auto& row : table.rows) {
      if (c < row.size()) widths[c] = std::max(widths[c], Printable(row[c]).size());
    }
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line = " ";
    for (size_t c = 0; c < columns; ++c) {
      const std::string cell = c < row.size() ? Printable(row[c]) : "";
      const size_t pad = widths[c] - std::min(widths[c], cell.size());
      line += ' ';
      if (right[c]) line.append(pad, ' ');
      line += cell;
      if (!right[c]) line.append(pad, ' ');
      line += ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::fprintf(out, "%s\n", line.c_str());
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

// Bytes of the UTF-8 character at `at`; 0 if there is none, or a control character (of C0, or of C1: U+0080
// to U+009F). The ranges are those of table 3-7 of the Unicode standard.
size_t CharacterBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(at + i < text.size() ? text[at + i] : 0);
  };
  const unsigned char first = byte(0), second = byte(1);
  if (first < 0x80) return first >= 32 && first != 127 ? 1 : 0;
  const size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (first < 0xc2 || first > 0xf4) return 0;
  const unsigned char least = first == 0xc2 || first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (second < least || second > most) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return bytes;
}

}  // namespace

void PrintText(const Report& report, FILE* out) {
  std::fprintf(out, "%s\n", Printable(report.title).c_str());
  for (const Section& section : report.sections) {
    if (section.lines.empty() && section.table.rows.empty()) continue;
    std::fprintf(out, "\n%s\n", Printable(section.title).c_str());
    for (const std::string& line : section.lines) std::fprintf(out, "  %s\n", Printable(line).c_str());
    if (!section.table.rows.empty()) PrintTable(section.table, out);
  }
}

std::string ToHtml(const Report& report) {
  std::string html = "<!doctype html>\n<html lang=en><meta charset=utf-8>\n<title>" + Escaped(report.title) +
                     "</title>\n<style>" + kStyle + "</style>\n<h1>" + Escaped(report.title) + "</h1>\n";
  for (const Section& section : report.sections) {
    html += "<h2>" + Escaped(section.title) + "</h2>\n";
    for (const std::string& line : section.lines) html += "<p>" + Escaped(line) + "</p>\n";
    html += section.svg;
    if (!section.table.rows.empty()) AppendTable(section.table, &html);
  }
  return html + "</html>\n";
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
  for (char c : text) {
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

std::string Printable(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    if (bytes == 0) {
      out += Printf("\\x%02x", static_cast<unsigned char>(text[at++]));
    } else {
      out.append(text, at, bytes);
      at += bytes;
    }
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

int Fail(const char* command, const Status& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "rondo %s: %s\n", command, Printable(status.message()).c_str());
  return 1;
}

int Misuse(const char* command, const std::string& sentence) {
  std::fflush(stdout);
  std::fprintf(stderr, "rondo %s: %s\nRun `rondo %s --help` for examples.\n", command,
               Printable(sentence).c_str(), command);
  return 2;
}

}  // namespace rondo::tools
