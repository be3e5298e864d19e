#include "tests/cuda/emulated/ptx.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace rondo::emulated {
namespace {

std::string Trimmed(const std::string& text) {
  size_t begin = 0, end = text.size();
  while (begin < end && std::isspace(static_cast<unsigned char>(text[begin])) != 0) ++begin;
  while (end > begin && std::isspace(static_cast<unsigned char>(text[end - 1])) != 0) --end;
  return text.substr(begin, end - begin);
}

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(Trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!Trimmed(part).empty()) parts.push_back(Trimmed(part));
  return parts;
}

PtxArgument ParseArgument(const std::string& text) {
  PtxArgument argument;
  if (text == "_") return argument;
  if (text[0] == '%') {
    argument.kind = PtxArgument::kOperand;
    argument.number = std::strtoull(text.c_str() + 1, nullptr, 10);
  } else if (text[0] == '{' || text[0] == '[') {
    argument.kind = text[0] == '{' ? PtxArgument::kList : PtxArgument::kAddress;
    for (const std::string& part : SplitAtCommas(text.substr(1, text.size() - 2)))
      argument.inside.push_back(ParseArgument(part));
  } else if (std::isdigit(static_cast<unsigned char>(text[0])) != 0) {
    argument.kind = PtxArgument::kImmediate;
    if (text.find('.') != std::string::npos) {
      const float value = std::strtof(text.c_str(), nullptr);
      std::memcpy(&argument.number, &value, sizeof value);
    } else {
      argument.number = std::strtoull(text.c_str(), nullptr, 0);
    }
  } else {
    argument.kind = PtxArgument::kRegister;
    argument.name = text;
  }
  return argument;
}

}  // namespace

bool PtxStatement::Has(const char* part) const {
  const size_t size = std::strlen(part);
  for (size_t at = op.find(part); at != std::string::npos; at = op.find(part, at + 1)) {
    const bool begins = at == 0 || op[at - 1] == '.' || op[at - 1] == ':';
    const bool ends = at + size == op.size() || op[at + size] == '.' || op[at + size] == ':';
    if (begins && ends) return true;
  }
  return false;
}

std::vector<PtxStatement> ParsePtx(const std::string& text) {
  std::vector<PtxStatement> statements;
  std::string rest = Trimmed(text);
  if (!rest.empty() && rest.front() == '{' && rest.back() == '}') rest = rest.substr(1, rest.size() - 2);
  for (size_t begin = 0; begin < rest.size();) {
    size_t end = rest.find(';', begin);
    if (end == std::string::npos) end = rest.size();
    const std::string line = Trimmed(rest.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty() || line.compare(0, 4, ".reg") == 0) continue;
    PtxStatement statement;
    size_t space = 0;
    while (space < line.size() && std::isspace(static_cast<unsigned char>(line[space])) == 0) ++space;
    statement.op = line.substr(0, space);
    for (const std::string& part : SplitAtCommas(line.substr(space)))
      statement.arguments.push_back(ParseArgument(part));
    statements.push_back(std::move(statement));
  }
  return statements;
}

}  // namespace rondo::emulated
