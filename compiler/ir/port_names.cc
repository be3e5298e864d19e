#include "compiler/ir/port_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rondo::ir {

namespace {

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  return at == std::string::npos ? std::string() : text.replace(at, from.size(), to);
}

}  // namespace

std::vector<std::string> StateOutputNames(const std::string& input) {
  std::vector<std::string> names;
  for (const char* suffix : {"_out", ".out", "/out", "_new", ".new", "_updated", "_next", ".1"}) {
    names.push_back(input + suffix);
  }
  for (const char* prefix : {"new_", "updated_", "out_", "next_"}) names.push_back(prefix + input);
  const std::pair<const char*, const char*> kSwaps[] = {
      {"past_key_values", "present"},
      {"past_key_values", "present_key_values"},
      {"past_key", "present_key"},
      {"past_value", "present_value"},
      {"past", "present"},
      {"_in", "_out"},
      {".in", ".out"},
      {"input_", "output_"},
      {"input.", "output."},
  };
  for (const auto& [from, to] : kSwaps) names.push_back(Replaced(input, from, to));
  return names;
}

size_t LettersApart(const std::string& a, const std::string& b) {
  constexpr size_t kMost = 128;
  const size_t n = std::min(a.size(), kMost), m = std::min(b.size(), kMost);
  std::vector<size_t> row(m + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < n; ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < m; ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[m];
}

std::string NearNames(std::vector<std::string> names, const std::string& wanted) {
  constexpr size_t kMost = 4;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < names.size(); ++i) order.emplace_back(LettersApart(names[i], wanted), i);
  const size_t count = std::min(kMost, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count), order.end());
  std::string list;
  for (size_t i = 0; i < count; ++i)
    list += (i == 0 ? "\"" : ", \"") + names[order[i].second].substr(0, 200) + "\"";
  return list.empty() ? "none" : list;
}

}  // namespace rondo::ir
