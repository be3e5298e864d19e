// Random loop nests and layouts.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

// `count` extents whose product is about `points`.
inline std::vector<int64_t> RandomExtents(Random& random, int count, int64_t points) {
  std::vector<int64_t> extents;
  for (int i = 0; i < count; ++i) {
    const int64_t most = std::max<int64_t>(1, points);
    int64_t e = Between(random, 1, 4) == 1 ? 1 : Between(random, 1, most);
    if (i + 1 < count && e > 12 && Between(random, 0, 2) != 0) e = Between(random, 2, 12);
    extents.push_back(e);
    points = std::max<int64_t>(1, points / e);
  }
  std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

// The loops in order or, in a third of the cases, shuffled.
inline std::vector<int> RandomOrder(Random& random, std::vector<int> loops) {
  if (Between(random, 0, 2) == 0) std::shuffle(loops.begin(), loops.end(), random);
  return loops;
}
inline std::vector<int> Range(int first, int end) {
  std::vector<int> loops;
  for (int d = first; d < end; ++d) loops.push_back(d);
  return loops;
}
inline std::vector<int> Joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
// Keeps each loop with probability 3/4; the others are broadcast.
inline std::vector<int> Thinned(Random& random, const std::vector<int>& loops) {
  std::vector<int> kept;
  for (int d : loops) {
    if (Between(random, 0, 3) != 0) kept.push_back(d);
  }
  return kept;
}

inline DType RandomFloat(Random& random) {
  constexpr DType kFloats[] = {DType::kF32, DType::kF32, DType::kF16, DType::kBF16};
  return kFloats[Between(random, 0, 3)];
}

}  // namespace rondo::test
