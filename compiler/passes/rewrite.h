// Rewrites as declarations, and the one loop that applies them.
//
//   // 1 / sqrt(x) -> rsqrt(x)
//   Rewrite{1 / Sqrt(x), Rsqrt(x)}
#pragma once

#include <functional>
#include <numeric>
#include <vector>

#include "compiler/passes/pattern.h"

namespace rondo::passes {

struct Rewrite {
  // Where `before` matches and `when` holds, `after` replaces the root.
  Rewrite(pattern::Pattern before, pattern::Pattern after, std::function<bool(Match&)> when = nullptr);
  // The same for a replacement that is computed; kNoNode if there is none.
  Rewrite(pattern::Pattern before, std::function<NodeId(Match&)> after)
      : before(std::move(before)), after(std::move(after)) {}

  pattern::Pattern before;
  std::function<NodeId(Match&)> after;
};

// Sweeps of ToFixedPoint: its work is at most so many attempts of every rewrite at every node.
inline constexpr int kMostSweeps = 8;

// Visits every node, inputs first, and replaces it by what the first rewrite gives that annotations and
// control edges allow (Graph::CanReplace); repeats that until nothing changes, or `sweeps` times. New nodes
// that the result does not need are removed at once, so a rewrite keeps none for later; the graph is tidy
// afterwards. Returns the number of
// replacements by each rewrite.
std::vector<int64_t> Apply(Graph* graph, const std::vector<Rewrite>& rewrites, int sweeps);
inline std::vector<int64_t> ApplyOnce(Graph* graph, const std::vector<Rewrite>& rewrites) {
  return Apply(graph, rewrites, 1);
}
inline std::vector<int64_t> ToFixedPoint(Graph* graph, const std::vector<Rewrite>& rewrites) {
  return Apply(graph, rewrites, kMostSweeps);
}
inline int64_t Total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace rondo::passes
