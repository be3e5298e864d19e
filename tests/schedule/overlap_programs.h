// Small random programs with collectives, for tests of the compute that runs beside them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/schedule/overlap.h"
#include "tests/compile/hand_made.h"

namespace rondo {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 99) {}
  size_t Below(size_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state_ >> 33) % n;
  }

 private:
  uint64_t state_;
};

inline constexpr AllReduceTime kTable[] = {{0, 4, 4}, {4000, 20, 20}};

// A kernel takes 1 us, and 1 us for each 400 bytes.
inline OverlapOptions Options(double budget) {
  OverlapOptions options;
  options.costs = {{0, {1, 1, 1, 1, 1}, 400, 400, 1, 1}, Span<const AllReduceTime>(kTable), 2};
  options.budget = budget;
  return options;
}

// `ops` sums and `collectives` all-reduces. Each all-reduce is waited for at once, as in models.
inline LoweredProgram Make(uint64_t seed, int ops, int collectives) {
  Random random(seed);
  HandMade made;
  std::vector<int> known = {made.Input("x", 200)};
  int left = collectives;
  for (int i = 0; i < ops || left > 0; ++i) {
    const int from = known[known.size() - 1 - random.Below(std::min<size_t>(known.size(), 5))];
    if (left > 0 && from != known[0] && (i >= ops || random.Below(static_cast<size_t>(ops)) < 2)) {
      const int64_t elements = made.program().values[static_cast<size_t>(from)].shape[0];
      known.push_back(made.Temporary(elements));
      made.Wait(made.Start(CollectiveOp::kAllReduce, from, known.back()));
      --left;
      continue;
    }
    const int64_t elements = made.program().values[static_cast<size_t>(from)].shape[0];
    const int to = made.Temporary(1 + static_cast<int64_t>(random.Below(static_cast<size_t>(elements))));
    std::vector<int> reads = {from};
    const int other = known[random.Below(known.size())];
    const int64_t size = made.program().values[static_cast<size_t>(to)].shape[0];
    if (random.Below(3) == 0 && made.program().values[static_cast<size_t>(other)].shape[0] >= size)
      reads.push_back(other);
    made.Sum(reads, to, "n" + std::to_string(i));
    known.push_back(to);
  }
  made.Sum({known.back()}, made.Output("y", 1), "end");
  return made.Take();
}

inline std::vector<int> AsGiven(const LoweredProgram& program) {
  std::vector<int> order(program.ops.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace rondo
