// Stages of reductions in a short form for tests.
#pragma once

#include <utility>
#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

// Each stage is a tape, with whether the stage belongs to the row.
inline void KeepStages(PartMaker& maker, const std::vector<std::pair<bool, TapeMaker>>& stages) {
  std::vector<Stage> list;
  for (const auto& [per_row, tape] : stages) list.push_back({per_row, maker.Keep(tape)});
  maker.part.stages = maker.arena->Copy(list);
}

}  // namespace rondo::test
