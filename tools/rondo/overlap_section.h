// OverlapSection: what runs beside each collective of a program, as a table.
#pragma once

#include <string>
#include <vector>

#include "formats/plan/overlap_note.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

Section OverlapSection(const std::string& program, const std::vector<OverlapNote>& notes);

}  // namespace rondo::tools
