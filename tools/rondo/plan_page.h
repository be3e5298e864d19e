// PlanPage: the interactive web page that `rondo inspect --html` writes. It needs no other file and no
// network. Its parts are in page/ and are embedded when Rondo is built.
#pragma once

#include <string>
#include <string_view>

#include "formats/plan/reader.h"

namespace rondo::tools {

inline constexpr std::string_view kPageBegins = "<!doctype html>\n<!-- rondo inspect -->\n";

// The page's script draws the arena over time, the steps of each stream, the largest buffers, and how steps
// pass on buffers. The tables of MakePlanReport need no script.
std::string PlanPage(const PlanFile& plan, const std::string& path);

// The texts of page/, made by CMake.
struct PageTexts {
  std::string_view style, body, script;
};
extern const PageTexts kPageTexts;

}  // namespace rondo::tools
