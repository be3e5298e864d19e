// HeaviestAntichain: the largest weight that can be present at once in a partial order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rondo {

// The largest sum of weights of elements none of which comes before another. `after[a]` lists everything
// after element `a`, and must be transitive. By the weighted form of R. P. Dilworth's theorem this is the
// total weight minus the most that can be passed on from elements to later ones, which a maximum flow finds
// (E. A. Dinic, 1970). No value if that takes more than `work` looks at pairs.
std::optional<int64_t> HeaviestAntichain(const std::vector<int64_t>& weights,
                                         const std::vector<std::vector<int>>& after, int64_t work);

}  // namespace rondo
