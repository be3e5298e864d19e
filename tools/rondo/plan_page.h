// PlanPage: what `rondo inspect --html` writes, one web page to work with that needs no other file and no
// network. Its parts lie in page/ and are embedded when Rondo is built.
#pragma once

#include <string>
#include <string_view>

#include "formats/plan/reader.h"

namespace rondo::tools {

inline constexpr std::string_view kPageBegins = "<!doctype html>\n<!-- rondo inspect -->\n";

// The arena over time, the steps of each stream, the largest buffers and how steps hand on buffers, drawn by
// the page's script; and the tables of MakePlanReport, which need none.
std::string PlanPage(const PlanFile& plan, const std::string& path);

// The texts of page/, made by CMake.
struct PageTexts {
  std::string_view style, body, script;
};
extern const PageTexts kPageTexts;

}  // namespace rondo::tools
