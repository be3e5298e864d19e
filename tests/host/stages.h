// Stages of reductions, as tests write them.
#pragma once

#include <utility>
#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

// Each with whether it is one of the row.
inline void KeepStages(PartMaker& maker, const std::vector<std::pair<bool, TapeMaker>>& stages) {
  std::vector<Stage> list;
  for (const auto& [per_row, tape] : stages) list.push_back({per_row, maker.Keep(tape)});
  maker.part.stages = maker.arena->Copy(list);
}

}  // namespace rondo::test
