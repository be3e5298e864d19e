#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>

#include "compiler/memory/packing.h"

namespace rondo {
namespace {

constexpr int64_t kLargest = int64_t{1} << 46;     // of any number in a file
constexpr int64_t kLargestSum = int64_t{1} << 62;  // of all sizes, each rounded up to any alignment
constexpr int64_t kLargestAlignment = 1 << 20;

std::vector<std::string_view> SplitLine(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == line.npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

bool ParseNumber(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= 0 && *out <= kLargest;
}

Status BadLine(int line, const char* what) {
  return Status::Error(Code::kCorrupt, "packing problem, line %d: %s", line, what);
}

}  // namespace

Result<PackingProblem> ParsePackingCsv(std::string_view text) {
  constexpr std::array<std::string_view, 4> kColumns = {"id", "lower", "upper", "size"};
  std::array<size_t, 4> column_of{};
  size_t columns = 0;
  PackingProblem problem;
  int64_t sum = 0;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == text.npos ? text.size() : newline + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::vector<std::string_view> cells = SplitLine(line);
    if (columns == 0) {
      for (size_t c = 0; c < kColumns.size(); ++c) {
        const auto at = std::find(cells.begin(), cells.end(), kColumns[c]);
        if (at == cells.end()) return BadLine(line_number, "the header must name id, lower, upper and size");
        column_of[c] = static_cast<size_t>(at - cells.begin());
      }
      columns = cells.size();
      continue;
    }
    if (line.empty()) continue;
    if (cells.size() != columns) {
      return BadLine(line_number, "it has another number of columns than the header");
    }
    PackingBuffer buffer;
    buffer.id = cells[column_of[0]];
    if (!ParseNumber(cells[column_of[1]], &buffer.lower) ||
        !ParseNumber(cells[column_of[2]], &buffer.upper) || !ParseNumber(cells[column_of[3]], &buffer.size)) {
      return BadLine(line_number, "lower, upper and size must be numbers from 0 to 2^46");
    }
    sum += buffer.size + kLargestAlignment;
    if (sum > kLargestSum) return BadLine(line_number, "the sizes up to here are more than 2^62 together");
    problem.buffers.push_back(std::move(buffer));
  }
  if (columns == 0) return BadLine(1, "the header must name id, lower, upper and size");
  return problem;
}

std::string FormatPackingCsv(const PackingProblem& problem, const PackingSolution& solution) {
  std::string out = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const PackingBuffer& b = problem.buffers[i];
    out += b.id + "," + std::to_string(b.lower) + "," + std::to_string(b.upper) + "," +
           std::to_string(b.size) + "," + std::to_string(solution.offsets[i]) + "\n";
  }
  return out;
}

namespace {

bool Lives(const PackingBuffer& b) { return b.lower < b.upper && b.size > 0; }

// Why buffers `i` and `j` must not have these offsets; empty if they may.
std::string Overlap(const PackingProblem& problem, const PackingSolution& solution, size_t i, size_t j) {
  const PackingBuffer &a = problem.buffers[i], &b = problem.buffers[j];
  const int64_t at = solution.offsets[i], other = solution.offsets[j];
  if (!Lives(b) || at >= other + b.size || other >= at + a.size) return "";
  return "buffers " + b.id + " and " + a.id + " are alive at one time and overlap: bytes [" +
         std::to_string(other) + ", " + std::to_string(other + b.size) + ") and [" + std::to_string(at) +
         ", " + std::to_string(at + a.size) + ")";
}

}  // namespace

std::string CheckPacking(const PackingProblem& problem, const PackingSolution& solution) {
  if (solution.offsets.size() != problem.buffers.size()) {
    return std::to_string(solution.offsets.size()) + " offsets for " +
           std::to_string(problem.buffers.size()) + " buffers";
  }
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const PackingBuffer& a = problem.buffers[i];
    if (!Lives(a)) continue;
    const int64_t at = solution.offsets[i];
    if (at < 0 || at % std::max<int64_t>(problem.alignment, 1) != 0) {
      return "buffer " + a.id + " lies at " + std::to_string(at) + ", not a multiple of " +
             std::to_string(problem.alignment);
    }
    if (at + a.size > solution.height) {
      return "buffer " + a.id + " ends at " + std::to_string(at + a.size) + ", above the height of " +
             std::to_string(solution.height);
    }
    std::string overlap;
    for (size_t j = 0; j < i && problem.conflicts.empty() && overlap.empty(); ++j) {
      const PackingBuffer& b = problem.buffers[j];
      if (a.lower < b.upper && b.lower < a.upper) overlap = Overlap(problem, solution, i, j);
    }
    for (size_t k = 0; !problem.conflicts.empty() && k < problem.conflicts[i].size() && overlap.empty(); ++k)
      overlap = Overlap(problem, solution, i, static_cast<size_t>(problem.conflicts[i][k]));
    if (!overlap.empty()) return overlap;
  }
  return "";
}

}  // namespace rondo
