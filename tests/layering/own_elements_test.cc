// No container is assigned from its own elements: x.assign(x.rbegin(), x.rend()) overwrites elements before
// it reads them, and neither the checks of the standard library nor a sanitizer notices.
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/layering/source_files.h"

namespace rondo {
namespace {

// The arguments of the call whose opening parenthesis is at `open`, without spaces at their starts.
std::vector<std::string> Arguments(const std::string& text, size_t open) {
  std::vector<std::string> arguments(1);
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (depth == 0) break;
    if (at == open || (arguments.back().empty() && (c == ' ' || c == '\n'))) continue;
    if (c == ',' && depth == 1) {
      arguments.emplace_back();
    } else {
      arguments.back() += c;
    }
  }
  return arguments;
}

bool IsOfName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The container before a "." or "->" that ends at `end`: "a.list", "p->list"; "" if it is not just names.
std::string ContainerBefore(const std::string& text, size_t end) {
  size_t at = end;
  while (at > 0 &&
         (IsOfName(text[at - 1]) || text[at - 1] == '.' || (at > 1 && text.compare(at - 2, 2, "->") == 0)))
    at -= text[at - 1] == '>' ? 2 : 1;
  const std::string name = text.substr(at, end - at);
  return name.empty() || !IsOfName(name[0]) ? "" : name;
}

// Whether `argument` is an element or an iterator of `container`.
bool IsElementOf(const std::string& argument, const std::string& container) {
  std::string_view rest = argument;
  for (const std::string_view before : {"std::make_move_iterator(", "&", "*"}) {
    if (rest.starts_with(before)) rest.remove_prefix(before.size());
  }
  if (!rest.starts_with(container)) return false;
  rest.remove_prefix(container.size());
  for (const std::string_view member : {"begin(", "end(", "cbegin(", "cend(", "rbegin(", "rend(", "crbegin(",
                                        "crend(", "front(", "back(", "data(", "at("}) {
    for (const std::string_view point : {".", "->"}) {
      if (rest.starts_with(point) && rest.substr(point.size()).starts_with(member)) return true;
    }
  }
  return rest.starts_with("[");
}

// The calls in `text` that give a container its own elements.
std::vector<std::string> GivenToThemselves(const std::string& text) {
  std::vector<std::string> found;
  for (const std::string call : {"assign(", "append(", "insert("}) {
    for (size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
      const size_t point = at >= 1 && text[at - 1] == '.'                  ? 1
                           : at >= 2 && text.compare(at - 2, 2, "->") == 0 ? 2
                                                                           : 0;
      const std::string container = point == 0 ? "" : ContainerBefore(text, at - point);
      if (container.empty()) continue;
      const std::vector<std::string> arguments = Arguments(text, at + call.size() - 1);
      // The position of an insert may be the container's own iterator, and a single element is copied before
      // anything moves.
      const bool inserts = call == "insert(";
      for (size_t i = inserts ? 1 : 0; i < arguments.size() && (!inserts || arguments.size() > 2); ++i) {
        if (!IsElementOf(arguments[i], container)) continue;
        found.push_back(container + "." + call + "... " + arguments[i]);
        break;
      }
    }
  }
  return found;
}

TEST(OwnElements, NoContainerIsGivenItsOwn) {
  for (const std::string& name : SourceFiles({".h", ".hpp", ".cc"})) {
    if (name == "tests/layering/own_elements_test.cc") continue;
    std::ifstream file(SourceFolder() + "/" + name);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (const std::string& call : GivenToThemselves(text)) ADD_FAILURE() << name << ": " << call;
  }
}

TEST(OwnElements, AreFoundInEveryForm) {
  EXPECT_EQ(GivenToThemselves("if (reversed) list.assign(list.rbegin(), list.rend());").size(), 1u);
  EXPECT_EQ(GivenToThemselves("a.list.assign(\n  a.list.begin() + 1, a.list.end());").size(), 1u);
  EXPECT_EQ(GivenToThemselves("p->list.insert(p->list.end(), p->list.begin(), p->list.end());").size(), 1u);
  EXPECT_EQ(
      GivenToThemselves("x.assign(n, x[0]); x.assign(x.size(), 0); y.assign(x.begin(), x.end());").size(),
      1u);
  EXPECT_TRUE(
      GivenToThemselves("x.insert(x.begin(), y.begin(), y.end()); x.insert(x.begin(), x.back());").empty());
  EXPECT_TRUE(
      GivenToThemselves("map.strides.insert(map.strides.end(), strides.begin(), strides.end());").empty());
}

}  // namespace
}  // namespace rondo
