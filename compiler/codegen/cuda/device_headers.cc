#include "compiler/codegen/cuda/device_headers.h"

#include <algorithm>

namespace rondo {

namespace {

// The names in a text's #include "..." lines, in order.
std::vector<std::string_view> IncludesOf(std::string_view text) {
  constexpr std::string_view kInclude = "#include \"";
  std::vector<std::string_view> names;
  for (size_t at = text.find(kInclude); at != text.npos; at = text.find(kInclude, at + 1)) {
    const size_t begin = at + kInclude.size(), end = text.find_first_of("\"\n", begin);
    if (end == text.npos || text[end] != '"' || (at > 0 && text[at - 1] != '\n')) continue;
    names.push_back(text.substr(begin, end - begin));
  }
  return names;
}

void Reach(std::string_view text, Span<const DeviceHeader> headers, std::vector<std::string_view>* seen,
           std::vector<DeviceHeader>* reached) {
  for (std::string_view name : IncludesOf(text)) {
    if (std::find(seen->begin(), seen->end(), name) != seen->end()) continue;
    seen->push_back(name);
    const auto header = std::find_if(headers.begin(), headers.end(),
                                     [&](const DeviceHeader& one) { return one.name == name; });
    if (header == headers.end()) continue;
    Reach(header->text, headers, seen, reached);
    reached->push_back(*header);
  }
}

}  // namespace

std::string IncludeLine(std::string_view stem) {
  return "#include \"compiler/codegen/cuda/device/" + std::string(stem) + ".cuh\"\n";
}

std::vector<DeviceHeader> ReachedHeaders(std::string_view text, Span<const DeviceHeader> headers) {
  std::vector<std::string_view> seen;
  std::vector<DeviceHeader> reached;
  Reach(text, headers, &seen, &reached);
  return reached;
}

std::string WholeText(std::string_view text, Span<const DeviceHeader> headers) {
  std::string whole;
  for (const DeviceHeader& header : ReachedHeaders(text, headers)) {
    whole += "// ";
    whole += header.name;
    whole += '\n';
    whole += header.text;
  }
  return whole.append(text);
}

}  // namespace rondo
