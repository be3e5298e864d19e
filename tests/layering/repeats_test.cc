// No code is written twice: no ten consecutive lines of code occur in two places.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/layering/source_files.h"

namespace rondo {
namespace {

constexpr size_t kMostEqual = 9;

struct Line {
  std::string text;  // with single spaces
  int number = 0;
};

// The lines that count: not comments, preprocessor lines, lone punctuation, or declarations of overrides,
// which the interface dictates.
std::vector<Line> Code(std::istream& file) {
  std::vector<Line> code;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    Line line{"", number};
    std::istringstream words(text);
    for (std::string word; words >> word;) line.text += (line.text.empty() ? "" : " ") + word;
    const bool says = line.text.find_first_of("abcdefghijklmnopqrstuvwxyz0123456789") != std::string::npos;
    const bool comment = line.text.rfind("//", 0) == 0 || line.text.rfind("#", 0) == 0;
    const bool override_only = line.text.ends_with("override;");
    if (says && !comment && !override_only) code.push_back(line);
  }
  return code;
}

// A sentence for each place where `most` + 1 consecutive lines occur again.
std::vector<std::string> Repeats(const std::map<std::string, std::vector<Line>>& files, size_t most) {
  std::map<std::string, std::string> seen;  // joined lines: the place of their first occurrence
  std::vector<std::string> repeats;
  for (const auto& [name, lines] : files) {
    for (size_t first = 0; first + most < lines.size(); ++first) {
      std::string run;
      for (size_t i = first; i <= first + most; ++i) run += lines[i].text + "\n";
      const std::string here = name + ":" + std::to_string(lines[first].number);
      const auto [met, is_new] = seen.emplace(run, here);
      if (is_new) continue;
      repeats.push_back(here + " repeats the lines from " + met->second + " on");
      first += most;
    }
  }
  return repeats;
}

TEST(Repeats, NoTenLinesStandInTwoPlaces) {
  std::map<std::string, std::vector<Line>> files;
  for (const std::string& name : SourceFiles({".h", ".hpp", ".cc", ".c", ".cuh", ".py", ".sh"})) {
    if (name.rfind("tests/data/", 0) == 0) continue;
    std::ifstream file(SourceFolder() + "/" + name);
    files[name] = Code(file);
  }
  ASSERT_GT(files.size(), 10u);
  for (const std::string& repeat : Repeats(files, kMostEqual)) ADD_FAILURE() << repeat;
}

TEST(Repeats, AreFoundAcrossCommentsAndSpaces) {
  std::string once, again;
  for (int i = 0; i < 10; ++i) {
    once += "call(" + std::to_string(i) + ");\n";
    again += "  // said otherwise\n\n  call(" + std::to_string(i) + ");\n";
  }
  std::istringstream first(once), second("int x;\n" + again);
  const std::map<std::string, std::vector<Line>> files = {{"a", Code(first)}, {"b", Code(second)}};
  EXPECT_EQ(Repeats(files, 9), std::vector<std::string>{"b:4 repeats the lines from a:1 on"});
  EXPECT_TRUE(Repeats(files, 10).empty());
}

}  // namespace
}  // namespace rondo
