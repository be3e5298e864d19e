// HeaviestAntichain: of things of which some come before others, the most that can be there at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rondo {

// The largest sum of weights of things none of which comes before another. `after[a]` has all that come after
// thing `a`; if b does and c comes after b, c does too. By R. P. Dilworth's theorem, with weights: what is
// left of all weight when as much as possible has been passed on from things to what comes after them, which
// a maximum flow finds (E. A. Dinic, 1970). Empty if that takes more than `work` looks at pairs.
std::optional<int64_t> HeaviestAntichain(const std::vector<int64_t>& weights,
                                         const std::vector<std::vector<int>>& after, int64_t work);

}  // namespace rondo
